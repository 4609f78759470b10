"""What the tests with real programs share: their tools, two networks and a server in each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.needs import lack, need
from tests.real.namespaces import ENDPOINT, Namespace, alone, fleet
from tests.real.server import FAIRWARNING, Server, up
from tools.environments import environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A scale set of two machines, each in a namespace of its own, and their server."""

    server: Server
    web_0: Namespace
    web_1: Namespace
    stranger: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One Spot machine that shares its namespace with the server."""

    server: Server
    batch: Namespace


@pytest.fixture(scope="session")
def tools() -> None:
    need("root", "ip", "unshare", "curl")
    need("/usr/lib/ocf/resource.d/heartbeat/azure-events-az", "/usr/lib/python3/dist-packages/cloudinit")
    if not Path(FAIRWARNING).exists():
        lack(f"needs {FAIRWARNING} (./dev installs it)")


@pytest.fixture
def pair(tools: None, tmp_path: Path) -> Iterator[Pair]:
    with fleet(["web000000", "web000001", "stranger"]) as network:
        web_0, web_1, stranger = network.guests
        known = {"web_0": web_0.address, "web_1": web_1.address}
        with up(network.host, tmp_path, ("--scale-set", "web=2"), known) as server:
            yield Pair(server=server, web_0=web_0, web_1=web_1, stranger=stranger)


@pytest.fixture
def single(tools: None, tmp_path: Path) -> Iterator[Single]:
    with (
        alone() as box,
        up(box, tmp_path, ("--spot-vm", "batch"), {"batch": ENDPOINT}) as server,
    ):
        yield Single(server=server, batch=box)


@pytest.fixture(scope="session")
def client_python() -> str:
    """Return a Python that has the programs of clients.txt; made once per set of versions."""
    return str(environment(Path(__file__).with_name("clients.txt")) / "python")
