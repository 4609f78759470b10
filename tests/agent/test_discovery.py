"""The endpoint is found in the order of D-04, and only where it answers."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from fairwarning.agent.discovery import NoEndpointError, base_address, discover, routed, search, serves_events
from fairwarning.core.errors import InvalidError
from tests.agent.scripted import FakeClock, dripping

LEASES = Path(__file__).parent / "leases"
INSIDE = "http://169.254.169.254"
OUTSIDE = "http://168.63.129.16"

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100000A	0003	0	0	100	00000000	0	0	0
eth0	0000000A	00000000	0001	0	0	100	00FFFFFF	0	0	0
"""
WIRE_ROUTE = "eth0	10813FA8	0100000A	0007	0	0	100	FFFFFFFF	0	0	0\n"


@dataclass(slots=True)
class FakeMachine:
    """A machine as discovery sees it; notes what it is asked."""

    root: Path
    answering: frozenset[str] = frozenset()
    offered: IPv4Address | None = None
    managed: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    probed: list[str] = field(default_factory=list)

    def probe(self, base: str) -> bool:
        self.probed.append(base)
        return base in self.answering

    def query(self) -> IPv4Address | None:
        self.probed.append("DHCP")
        return self.offered

    def discover(self, now: datetime, setting: str | None = None) -> str:
        return discover(
            setting,
            self.environment,
            self.probe,
            self.root,
            now=now,
            network_manager=lambda: self.managed,
            query=self.query,
        )


def route_file(root: Path, text: str) -> None:
    place = root / "proc/net/route"
    place.parent.mkdir(parents=True)
    place.write_text(text)


@pytest.mark.rule("D-04")
def test_an_explicit_setting_is_taken_without_asking_anybody(noon: datetime, tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, frozenset({INSIDE}))

    assert machine.discover(noon, "http://127.0.0.1:8101/") == "http://127.0.0.1:8101"
    assert machine.probed == []


@pytest.mark.rule("D-01", "D-04")
def test_inside_a_virtual_network_nothing_else_is_tried(noon: datetime, tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, frozenset({INSIDE}), environment={"SCHEDULEDEVENTSIP": "10.0.0.9"})

    assert machine.discover(noon) == INSIDE
    assert machine.probed == [INSIDE]


@pytest.mark.rule("D-01", "D-03", "D-04")
def test_everything_is_tried_in_order_each_address_on_port_80_then_8080(
    noon: datetime, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/dhclient.lease").write_text("lease {\n  option unknown-245 a:0:0:2;\n}\n")
    route_file(tmp_path, ROUTES + WIRE_ROUTE)
    machine = FakeMachine(
        tmp_path,
        offered=IPv4Address("10.0.0.4"),
        managed=b"DHCP4.OPTION[1]: private_245 = a:0:0:3\n",
        environment={"SCHEDULEDEVENTSIP": "10.0.0.1"},
    )

    with pytest.raises(NoEndpointError) as failure:
        machine.discover(noon)

    assert machine.probed == [
        INSIDE,
        *("http://10.0.0.1", "http://10.0.0.1:8080"),
        *("http://10.0.0.2", "http://10.0.0.2:8080"),
        *("http://10.0.0.3", "http://10.0.0.3:8080"),
        *(OUTSIDE, f"{OUTSIDE}:8080"),
        "DHCP",
        *("http://10.0.0.4", "http://10.0.0.4:8080"),
    ]
    assert list(failure.value.tried) == [base for base in machine.probed if base != "DHCP"]


@pytest.mark.rule("D-04")
@pytest.mark.parametrize(
    ("answering", "asked"),
    [
        pytest.param(OUTSIDE, False, id="a route leads there: DHCP is not asked"),
        pytest.param("http://10.0.0.4:8080", True, id="what a DHCP server offers"),
    ],
)
def test_the_network_is_asked_only_if_nothing_cheaper_answers(
    answering: str, asked: bool, noon: datetime, tmp_path: Path
) -> None:
    route_file(tmp_path, ROUTES + WIRE_ROUTE)
    machine = FakeMachine(tmp_path, frozenset({answering}), offered=IPv4Address("10.0.0.4"))

    assert machine.discover(noon) == answering
    assert ("DHCP" in machine.probed) is asked


@pytest.mark.rule("D-04")
def test_without_any_hint_the_usual_address_outside_is_the_last_resort(
    noon: datetime, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path, frozenset({f"{OUTSIDE}:8080"}))

    assert machine.discover(noon) == f"{OUTSIDE}:8080"
    assert machine.probed == [INSIDE, "DHCP", OUTSIDE, f"{OUTSIDE}:8080"]


@pytest.mark.rule("D-03", "D-04")
@pytest.mark.parametrize(
    "system",
    [
        pytest.param(path.name, id=path.name)
        for path in sorted(LEASES.iterdir())
        if path.name not in {"expired", "nmcli"}
    ],
)
def test_the_lease_of_every_system_leads_to_the_endpoint(system: str, noon: datetime) -> None:
    machine = FakeMachine(LEASES / system, frozenset({OUTSIDE}))

    assert machine.discover(noon) == OUTSIDE
    assert machine.probed == [INSIDE, OUTSIDE]


def test_a_variable_that_holds_no_address_is_passed_over(noon: datetime, tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, frozenset({OUTSIDE}), environment={"SCHEDULEDEVENTSIP": "nonsense"})

    assert machine.discover(noon) == OUTSIDE


@pytest.mark.parametrize(
    ("routes", "found"),
    [
        pytest.param(ROUTES + WIRE_ROUTE, True, id="a route of its own"),
        pytest.param(ROUTES, False, id="the default route is no hint"),
        pytest.param(ROUTES + "eth0\tnonsense\n", False, id="a line that is none"),
        pytest.param("", False, id="an empty file"),
    ],
)
@pytest.mark.rule("D-04")
def test_a_route_counts_only_if_it_is_meant_for_the_address(routes: str, found: bool, tmp_path: Path) -> None:
    route_file(tmp_path, routes)

    assert routed(tmp_path) is found


@pytest.mark.parametrize(
    ("setting", "base"),
    [
        pytest.param("169.254.169.254", "http://169.254.169.254", id="an address"),
        pytest.param("localhost:8101", "http://localhost:8101", id="a name and a port"),
        pytest.param("http://[::1]:8101/", "http://[::1]:8101", id="with a slash at the end"),
        pytest.param("https://example.com/vm1", "https://example.com/vm1", id="with a path"),
    ],
)
def test_a_setting_becomes_a_base_address(setting: str, base: str) -> None:
    assert base_address(setting) == base


@pytest.mark.parametrize("setting", ["ftp://a", "http://", "a:b", "http://a/?b=c", "http://a b", ""])
def test_a_setting_that_is_no_address_is_refused(setting: str) -> None:
    with pytest.raises(InvalidError):
        base_address(setting)


@contextmanager
def serving(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Give a server that says the same to everybody, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        pytest.param(http(b'{"DocumentIncarnation":1,"Events":[]}'), True, id="a document"),
        pytest.param(http(b'\xef\xbb\xbf{"Events":[]}'), True, id="a document with a byte order mark"),
        pytest.param(http(b""), False, id="an empty answer"),
        pytest.param(http(b"<html>Events</html>"), False, id="a page that speaks of Events"),
        pytest.param(http(b'{"compute":{}}'), False, id="another document"),
        pytest.param(http(b'{"Events":[]}', "404 Not Found"), False, id="an error"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", False, id="another protocol"),
        pytest.param(b"", False, id="nothing"),
    ],
)
@pytest.mark.rule("D-04")
def test_a_probe_is_good_when_its_answer_has_events(answer: bytes, good: bool) -> None:
    with serving(answer) as (base, asked):
        found = serves_events(base)

    assert found is good
    assert asked[0].startswith(b"GET /metadata/scheduledevents?api-version=")
    assert b"Metadata: true" in asked[0]


@pytest.mark.rule("D-05")
def test_the_probe_goes_past_every_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")

    with serving(http(b'{"Events":[]}')) as (base, asked):
        found = serves_events(base)

    assert found
    assert asked[0].startswith(b"GET /metadata")


def test_a_probe_of_an_unused_port_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert not serves_events(f"http://127.0.0.1:{port}", timedelta(seconds=1))


def test_a_probe_that_drips_in_fails() -> None:
    with dripping(http(b'{"Events":[]}')) as base:
        assert not serves_events(base, answer_timeout=timedelta(seconds=0.2))


def test_a_search_says_what_it_tries_and_gives_up_in_time(tmp_path: Path) -> None:
    clock = FakeClock()
    messages: list[str] = []

    def tell(what: str) -> None:
        messages.append(what)
        clock.wait(timedelta(seconds=6))

    def answering(base: str, connect_timeout: timedelta, answer_timeout: timedelta) -> bool:
        assert connect_timeout <= answer_timeout <= timedelta(seconds=10)
        return False

    environment = {"SCHEDULEDEVENTSIP": "10.0.0.9"}
    with pytest.raises(NoEndpointError):
        search(None, environment, clock, timedelta(seconds=10), tell, tmp_path, answering)

    assert messages == [f"trying {INSIDE}", "trying http://10.0.0.9"]
