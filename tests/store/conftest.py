"""Fixtures for the tests of the stores."""

import asyncio
from pathlib import Path

import pytest

from tests.store.stores import STORES, opened
from tests.store.stories import Stage, Story


@pytest.fixture(params=STORES)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Run a story on a new store."""

    async def scene(story: Story) -> None:
        async with opened(request.param, tmp_path) as store:
            await story(store)

    return lambda story: asyncio.run(scene(story))
