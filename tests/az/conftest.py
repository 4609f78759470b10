"""Fixtures of the tests with the real az: az itself, and a server that az is logged in to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arm.live import Live, live
from tests.az.tool import Az, Trap, login, trap
from tools.environments import environment

FLEET = ("--scale-set", "web=2", "--scale-set", "pond=2", "--vm", "db", "--vm", "quiet", "--spot-vm", "batch")
#: The one request that az sends elsewhere, in a new configuration: for a newer az. It gets no response.
NEWER = "CONNECT azcliprod.blob.core.windows.net:443 HTTP/1.0"


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the folder of az, which is installed once per set of versions."""
    return environment(Path(__file__).with_name("clients.txt"))


@pytest.fixture(scope="module")
def proxy() -> Iterator[Trap]:
    """Run a proxy that records connections to other machines."""
    with trap() as proxy:
        yield proxy
        assert set(proxy.called) <= {NEWER}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("cloud"), *FLEET) as server:
        yield server


@pytest.fixture(scope="module")
def az(cloud: Live, tmp_path_factory: pytest.TempPathFactory, programs: Path, proxy: Trap) -> Az:
    return login(cloud, tmp_path_factory.mktemp("home"), programs, proxy)
