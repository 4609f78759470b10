"""A server that several tests of the command line share; they do not change it for good."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.server import Server, fresh, up


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    scratch: Path = tmp_path_factory.mktemp("bare")
    with up(scratch, "--start-enabled", start=fresh) as server:
        yield server
