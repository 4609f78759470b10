"""A server whose machines programs are put on; skips where the kernel of the test machine forbids a mode."""

from collections.abc import Iterator

import pytest

from tests.cli.server import up
from tests.sandbox.programs import Exec


@pytest.fixture(scope="module")
def anywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exec]:
    """Give ``exec``, whether or not its modes are allowed here."""
    with up(tmp_path_factory.mktemp("sandbox"), "--scale-set", "web=2") as server:
        yield Exec(operator=server.ready["operator"])


@pytest.fixture(scope="module")
def redirecting(anywhere: Exec) -> Exec:
    """Give ``exec`` where its default mode is allowed."""
    tried = anywhere.run("true")
    if "this machine does not allow" in tried.stderr:
        pytest.skip(tried.stderr.strip())
    return anywhere


@pytest.fixture(scope="module")
def isolating(anywhere: Exec) -> Exec:
    """Give ``exec`` where ``--isolate`` is allowed."""
    tried = anywhere.run("true", isolate=True)
    if "this machine does not allow" in tried.stderr:
        pytest.skip(tried.stderr.strip())
    return anywhere
