"""Golden files: the exact output of the server, its commands and its check.

After an intended change, run ``./dev test tests/golden --write-goldens`` and review the diff.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.release import FIRST
from tests.golden.comparison import Golden
from tests.running import Running, running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-goldens", action="store_true", help="Write the actual output to the golden files."
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    # pytest knows the option only if this folder is named on the command line.
    return Golden(write=request.config.getoption("--write-goldens", default=False) is True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return FIRST.at_rest(tmp_path)


@pytest.fixture
def server(data: Path) -> Iterator[Running]:
    """A server on the data directory of release 0.1.0, with events of every type."""
    with running(data) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same server, shared by the tests of a file that change nothing."""
    with running(FIRST.at_rest(tmp_path_factory.mktemp("shared"))) as server:
        yield server
