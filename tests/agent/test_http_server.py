"""The agent's HTTP server, and the questions that agents ask each other."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection

import pytest

from fairwarning.agent import jobs
from fairwarning.agent.http_server import answer, listening
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
