"""Golden files: what the server, its commands and its check say, kept to the letter.

A change that is wanted is written with ``./dev test tests/golden --write-goldens`` and read in the diff.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.release import at_rest
from tests.golden.comparison import Golden
from tests.running import Running, running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-goldens", action="store_true", help="Write what is said now as what is expected."
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    # A run of the whole suite does not know the option: pytest reads it from this folder alone.
    return Golden(write=request.config.getoption("--write-goldens", default=False) is True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return at_rest(tmp_path)


@pytest.fixture
def server(data: Path) -> Iterator[Running]:
    """A server of the fleet that release 0.1.0 left behind, with events of every kind."""
    with running(data) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Such a server for those tests of a file that only look at it."""
    with running(at_rest(tmp_path_factory.mktemp("shared"))) as found:
        yield found
