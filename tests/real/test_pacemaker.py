"""Pacemaker's agent for Azure, run by hand; the cluster around it is a directory of attributes."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.conftest import Pair
from tests.real.namespaces import Namespace

pytestmark = pytest.mark.netns

AGENT = "/usr/lib/ocf/resource.d/heartbeat/azure-events-az"
STAND_INS = Path(__file__).parent / "stand-ins"
STANDBY, ONLINE = "-1000000", "0"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the agents of all nodes keep together."""

    home: Path

    def monitor(self, node: Namespace) -> str:
        """Let the node's agent look once; return the state it is in afterwards."""
        node.run(
            *(AGENT, "monitor"),
            PATH=f"{STAND_INS}:{os.environ['PATH']}",
            CLUSTER=str(self.home),
            OCF_ROOT="/usr/lib/ocf",
            OCF_RESOURCE_INSTANCE="events",
        )
        # The agent takes no notice of a 429. Pacemaker runs it every ten seconds.
        time.sleep(0.5)
        return self.attribute(node, "azure-events-az_curNodeState") or "AVAILABLE"

    def attribute(self, node: Namespace, name: str) -> str | None:
        file = self.home / node.hostname / name
        return file.read_text() if file.exists() else None

    def health(self, node: Namespace) -> str | None:
        return self.attribute(node, "#health-azure")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "cluster").mkdir()
    return Cluster(tmp_path / "cluster")


@pytest.mark.rule("L-01", "L-02")
def test_the_agent_empties_its_node_approves_and_returns_when_the_restart_is_over(
    pair: Pair, cluster: Cluster
) -> None:
    nodes = (pair.web_0, pair.web_1)
    quiet = [cluster.monitor(node) for node in nodes]
    pair.server.tell("cause", "restart", "web_0")

    warned = [cluster.monitor(node) for node in nodes]
    standby = [cluster.health(node) for node in nodes]
    waiting = pair.server.kinds("web_0")
    approved = [cluster.monitor(node) for node in nodes]
    started = pair.server.kinds("web_0")
    pair.server.tell("clock", "advance", "1m")
    back = [cluster.monitor(node) for node in nodes]

    assert quiet == ["AVAILABLE", "AVAILABLE"]
    assert warned == ["STOPPING", "AVAILABLE"]
    assert standby == [STANDBY, None]
    assert waiting == ["scheduled"]
    assert approved == ["IN_EVENT", "AVAILABLE"]
    assert started == ["scheduled", "approved", "started"]
    assert back == ["AVAILABLE", "AVAILABLE"]
    assert cluster.health(pair.web_0) == ONLINE
    assert pair.server.kinds("web_0") == ["scheduled", "approved", "started", "finished"]


def test_two_nodes_that_are_to_restart_go_one_after_the_other(pair: Pair, cluster: Cluster) -> None:
    first, second = pair.web_0, pair.web_1
    cluster.monitor(first)
    cluster.monitor(second)
    pair.server.tell("cause", "restart", "web_0")
    pair.server.tell("cause", "restart", "web_1")

    stopping = cluster.monitor(first), cluster.monitor(second)
    in_event = cluster.monitor(first), cluster.monitor(second)
    held = pair.server.kinds("web_1")
    pair.server.tell("clock", "advance", "1m")
    returned = cluster.monitor(first)
    turn = cluster.monitor(second), cluster.monitor(second)

    assert stopping == ("STOPPING", "ON_HOLD")
    assert in_event == ("IN_EVENT", "ON_HOLD")
    assert held == ["scheduled"]
    assert returned == "AVAILABLE"
    assert turn == ("STOPPING", "IN_EVENT")
    assert pair.server.kinds("web_1") == ["scheduled", "approved", "started"]


def test_the_agent_does_not_approve_while_something_still_stops(pair: Pair, cluster: Cluster) -> None:
    cluster.monitor(pair.web_0)
    pair.server.tell("cause", "redeploy", "web_0")
    cluster.monitor(pair.web_0)
    (cluster.home / "busy").write_text("database (ocf:x:y): Stopped: database_stop_0: pending\n")

    still = cluster.monitor(pair.web_0)
    waiting = pair.server.kinds("web_0")
    (cluster.home / "busy").unlink()
    then = cluster.monitor(pair.web_0)

    assert (still, waiting) == ("STOPPING", ["scheduled"])
    assert then == "IN_EVENT"
    assert pair.server.kinds("web_0") == ["scheduled", "approved", "started"]
