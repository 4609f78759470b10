"""The agent's HTTP server, and the questions that agents ask each other."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.client import HTTPConnection, RemoteDisconnected

import pytest

from fairwarning.agent import jobs
from fairwarning.agent.http_server import MAX_CONNECTIONS, answer, listening
from fairwarning.agent.loop import Snapshot
from fairwarning.agent.plan import EventStep
from fairwarning.agent.telemetry import AgentMetrics
from fairwarning.core.model import EventId
from tests.agent.events import record, seen

IDLE = Snapshot(machine="web_0", waits={}, records={})
DRAINED = Snapshot(
    machine="web_0",
    drained=True,
    ready=(EventId("E1"),),
    waits={},
    records={EventId("E1"): record(seen(), EventStep.READY)},
)


@dataclass
class Shown:
    """The status of an agent."""

    snapshot: Snapshot = IDLE
    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    turning: bool = True


@pytest.mark.parametrize(
    ("path", "shown", "status"),
    [
        pytest.param("/readyz", Shown(), 200, id="a machine at work is ready for traffic"),
        pytest.param("/readyz", Shown(DRAINED), 503, id="a drained machine is not"),
        pytest.param("/healthz", Shown(DRAINED), 200, id="a drained machine's agent is healthy"),
        pytest.param("/healthz", Shown(turning=False), 503, id="an agent that is stuck is not"),
        pytest.param("/readyz?x=1", Shown(), 200, id="a query is no matter"),
        pytest.param("/", Shown(), 404, id="there is nothing else"),
    ],
)
def test_a_page_answers(path: str, shown: Shown, status: int) -> None:
    assert answer(path, shown).status == status


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    shown = Shown(DRAINED)
    shown.metrics.count("approvals", "accepted")
    shown.metrics.count("approvals", "accepted")

    text = answer("/metrics", shown).text

    assert 'fairwarning_agent_approvals_total{result="accepted"} 2\n' in text
    assert "# TYPE fairwarning_agent_drained gauge\nfairwarning_agent_drained 1\n" in text
    assert text.endswith("\n")


def test_the_pages_are_served_on_a_socket() -> None:
    with listening(("127.0.0.1", 0), Shown(DRAINED)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/peer")
        reply = connection.getresponse()
        report = json.loads(reply.read())
        connection.close()

    assert (reply.status, report) == (200, {"machine": "web_0", "ready": ["E1"], "drained": True})


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_all_addresses_of_ipv6_include_those_of_ipv4() -> None:
    with listening(("::", 0), Shown()) as port:
        assert status_of(port) == 200


def status_of(port: int, path: str = "/healthz") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


@contextmanager
def connections(port: int, number: int, begun: bytes) -> Iterator[list[socket.socket]]:
    """Yield connections that have sent the beginning of a request, and send no more."""
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(number)
        ]
        for connection in opened:
            connection.sendall(begun)
        yield opened


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTT"], ids=["silent", "in the middle of a request"])
def test_slow_connections_cost_no_threads_and_do_not_delay_a_health_check(begun: bytes) -> None:
    before = threading.active_count()
    with listening(("127.0.0.1", 0), Shown()) as port, connections(port, MAX_CONNECTIONS, begun):
        status, threads = status_of(port), threading.active_count() - before

    assert (status, threads) == (200, 1)


def test_a_further_connection_closes_the_oldest() -> None:
    with (
        listening(("127.0.0.1", 0), Shown()) as port,
        connections(port, 1, b"GET") as (oldest,),
        connections(port, MAX_CONNECTIONS, b"GET"),
    ):
        end = oldest.recv(1)

    assert end == b""


def test_a_byte_now_and_then_does_not_keep_a_connection_open() -> None:
    limit = timedelta(seconds=0.2)
    with (
        listening(("127.0.0.1", 0), Shown(), limit=limit) as port,
        connections(port, 1, b"G") as (slow,),
    ):
        slow.settimeout(0.02)
        sent, end = 0, None
        while end is None and sent < 100:
            try:
                slow.sendall(b"E")
                sent += 1
                end = slow.recv(1)
            except TimeoutError:
                continue
            except OSError:
                end = b""

    assert end == b""


def test_a_client_that_reads_nothing_is_given_up() -> None:
    shown = Shown(Snapshot(machine="x" * 50_000_000, waits={}, records={}))
    with (
        listening(("127.0.0.1", 0), shown, limit=timedelta(seconds=0.2)) as port,
        connections(port, 1, b"GET /peer HTTP/1.0\r\n\r\n") as (reader,),
        connections(port, 1, b"") as (later,),
    ):
        later.recv(1)
        received = 0
        while part := reader.recv(1_000_000):
            received += len(part)

    assert 0 < received < 50_000_000


@pytest.mark.parametrize(
    ("request_head", "begun"),
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.0 200 OK", id="a request"),
        pytest.param(b"GET /healthz HTTP/1.0\n\n", b"HTTP/1.0 200 OK", id="bare line feeds"),
        pytest.param(b"POST /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.0 501 ", id="another method"),
        pytest.param(b"nonsense\r\n\r\n", b"<!DOCTYPE", id="no request"),
        pytest.param(b"GET /" + b"x" * 70_000, b"", id="a request without an end"),
    ],
)
def test_a_request_is_answered_on_the_wire(request_head: bytes, begun: bytes) -> None:
    with listening(("127.0.0.1", 0), Shown()) as port, connections(port, 1, request_head) as (connection,):
        try:
            received = connection.recv(1000)
        except ConnectionResetError:
            received = b""

    assert received.startswith(begun)
    assert bool(received) == bool(begun)


class Broken:
    """The status of an agent with a bug."""

    metrics = AgentMetrics()
    turning = True

    @property
    def snapshot(self) -> Snapshot:
        raise KeyError("a bug")


def test_a_page_that_fails_ends_its_own_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    with listening(("127.0.0.1", 0), Broken()) as port:
        with pytest.raises(RemoteDisconnected):
            status_of(port, "/readyz")
        status = status_of(port)

    assert status == 200
    assert [record.message for record in caplog.records] == ["page_failed"]


@pytest.mark.rule("C-07")
@pytest.mark.parametrize(
    ("name", "ready"),
    [
        pytest.param("web_0", {"E1"}, id="a peer reports what it is ready for"),
        pytest.param("web_9", set(), id="an address of another machine says nothing"),
    ],
)
def test_peers_ask_each_other(name: str, ready: set[str]) -> None:
    with listening(("127.0.0.1", 0), Shown(DRAINED)) as port:
        reports = jobs.ask_peers({name: f"http://127.0.0.1:{port}"})

    assert reports.ready == {name: ready}


def test_a_peer_that_does_not_answer_is_ready_for_nothing() -> None:
    assert jobs.ask_peers({"web_1": "http://127.0.0.1:1"}).ready == {"web_1": frozenset()}
