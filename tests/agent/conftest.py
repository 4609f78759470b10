"""Fixtures of the agent tests."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
