"""A real dnsmasq answers the DHCP query with option 245, in a network of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.needs import found, need
from tests.real.namespaces import Namespace, Network, fleet

pytestmark = pytest.mark.netns

DNSMASQ = found("dnsmasq") or ""

#: Asks as the agent does, with shorter waits: first for an answer to our address, then for a broadcast.
ASK = """
from datetime import timedelta
from fairwarning.agent import dhcp
tries = (dhcp.Try(timedelta(0), broadcast=False), *[dhcp.Try(timedelta(0))] * 3)
print(dhcp.query(dhcp.interfaces(), tries, timeout=timedelta(seconds=2)))
"""

#: Looks for the endpoint as the agent does.
DISCOVER = """
from datetime import UTC, datetime, timedelta
from pathlib import Path
from fairwarning.agent import dhcp, discovery
def query():
    return dhcp.query(dhcp.interfaces(), [dhcp.Try(timedelta(0))] * 3, timeout=timedelta(seconds=2))
now = datetime(2026, 11, 16, 12, tzinfo=UTC)
print(discovery.discover(None, {}, discovery.serves_events, Path("/nonexistent"), now=now, query=query))
"""


@pytest.fixture
def network() -> Iterator[Network]:
    need("dnsmasq", "ip", "root")
    with fleet(["web000000"]) as made:
        yield made


@contextmanager
def running(words: list[str], ready: str) -> Iterator[None]:
    """Run a program until the block ends; the block begins when the program reports ready."""
    with ExitStack() as undo:
        process = undo.enter_context(
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        undo.callback(process.kill)
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            if ready in line:
                break
        assert process.poll() is None, "".join(output)
        yield


@contextmanager
def dnsmasq(host: Namespace, *options: str) -> Iterator[None]:
    """Run a DHCP server on the host's bridge that sends ``options`` to every client."""
    words = [
        *(DNSMASQ, "--no-daemon", "--conf-file=/dev/null", "--pid-file", "--user=root", "--port=0"),
        *("--interface=br0", "--bind-interfaces", "--leasefile-ro", "--no-ping"),
        *("--dhcp-range=10.79.0.100,10.79.0.150,1h", *options),
    ]
    with running(host.command(*words), "bound exclusively"):
        yield


def ask(guest: Namespace) -> str:
    return guest.run(sys.executable, "-c", ASK).strip()


@pytest.mark.rule("D-01", "D-02")
@pytest.mark.parametrize(
    "configured",
    [
        pytest.param(True, id="a machine that has an address"),
        pytest.param(False, id="a machine that has none yet"),
    ],
)
def test_the_offer_names_the_host(configured: bool, network: Network) -> None:
    (guest,) = network.guests
    if not configured:
        guest.run("ip", "addr", "flush", "dev", "eth0")

    with dnsmasq(network.host, "--dhcp-option-force=245,a8:3f:81:10"):
        found = ask(guest)

    assert found == "168.63.129.16"


@pytest.mark.rule("D-02")
def test_an_offer_without_the_option_names_nobody(network: Network) -> None:
    with dnsmasq(network.host):
        found = ask(network.guests[0])

    assert found == "None"


@pytest.mark.rule("D-02")
def test_a_network_without_a_server_names_nobody(network: Network) -> None:
    assert ask(network.guests[0]) == "None"


@pytest.mark.rule("D-01", "D-04")
def test_an_endpoint_that_only_dhcp_knows_of_is_found_on_its_second_port(
    network: Network, tmp_path: Path
) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/scheduledevents").write_text('{"DocumentIncarnation":1,"Events":[]}')
    words = (
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "8080",
        "--bind",
        "10.79.0.1",
        "--directory",
        str(tmp_path),
    )

    with (
        dnsmasq(network.host, "--dhcp-option-force=245,0a:4f:00:01"),
        running(network.host.command(*words), "Serving HTTP"),
    ):
        found = network.guests[0].run(sys.executable, "-c", DISCOVER).strip()

    assert found == "http://10.79.0.1:8080"
