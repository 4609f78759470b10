"""What others may ask the agent."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection

import pytest

from fairwarning.agent import jobs
from fairwarning.agent.http_server import answer, listening
from fairwarning.agent.loop import Snapshot
from fairwarning.agent.metrics import AgentMetrics
from fairwarning.agent.plan import EventStep
from fairwarning.core.model import EventId
from tests.agent.sight import record, seen

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
    """An agent as others see it."""

    snapshot: Snapshot = IDLE
    figures: AgentMetrics = field(default_factory=AgentMetrics)
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


def test_figures_are_written_as_prometheus_reads_them() -> None:
    shown = Shown(DRAINED)
    shown.figures.count("approvals", "accepted")
    shown.figures.count("approvals", "accepted")

    text = answer("/metrics", shown).text

    assert 'fairwarning_agent_approvals_total{result="accepted"} 2\n' in text
    assert "# TYPE fairwarning_agent_drained gauge\nfairwarning_agent_drained 1\n" in text
    assert text.endswith("\n")


def test_the_pages_are_served_on_a_socket() -> None:
    with listening(("127.0.0.1", 0), Shown(DRAINED)) as port:
        line = HTTPConnection("127.0.0.1", port, timeout=5)
        line.request("GET", "/peer")
        reply = line.getresponse()
        said = json.loads(reply.read())
        line.close()

    assert (reply.status, said) == (200, {"machine": "web_0", "ready": ["E1"], "drained": True})


@pytest.mark.rule("C-07")
@pytest.mark.parametrize(
    ("name", "ready"),
    [
        pytest.param("web_0", {"E1"}, id="a neighbour says what it is ready for"),
        pytest.param("web_9", set(), id="an address of another machine says nothing"),
    ],
)
def test_neighbours_ask_each_other(name: str, ready: set[str]) -> None:
    with listening(("127.0.0.1", 0), Shown(DRAINED)) as port:
        heard = jobs.ask({name: f"http://127.0.0.1:{port}"})

    assert heard.ready == {name: ready}


def test_a_neighbour_that_is_away_has_said_nothing() -> None:
    assert jobs.ask({"web_1": "http://127.0.0.1:1"}).ready == {"web_1": frozenset()}
