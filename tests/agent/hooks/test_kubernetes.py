"""A node is cordoned and drained, and uncordoned only if the agent cordoned it.

``kubectl`` is a stand-in: it notes how it is called and keeps one node, which it changes as the real one
would. No cluster is here, so what a real API server makes of the calls is not tested.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import pytest

from fairwarning.agent.hooks import Hook, HookOutcome, parse
from fairwarning.agent.hooks.hook import HookContext
from fairwarning.agent.hooks.kubernetes import FOUND, HELD_FOR, OURS, read_node
from fairwarning.agent.hooks.kubernetes_api import KubernetesError
from tests.agent.hooks.contexts import EVENT, OTHER, in_seconds, noon, path_with, prepare, recover

KUBECTL = """#!{python} -I
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
refused = folder / ("refuse-" + sys.argv[1])
if refused.exists():
    sys.exit("error: " + refused.read_text())
place = folder / "node.json"
node = json.loads(place.read_text())
match sys.argv[1:]:
    case ["get", "node", "node-1", "--output=json"]:
        print("Warning: somebody deprecated something", file=sys.stderr)
        print(json.dumps(node, indent=2))
    case ["annotate", "node", "node-1", "--overwrite", change] if change.endswith("-"):
        node["metadata"]["annotations"].pop(change[:-1], None)
    case ["annotate", "node", "node-1", "--overwrite", change]:
        name, _, value = change.partition("=")
        node["metadata"]["annotations"][name] = value
    case ["cordon", "node-1"] | ["drain", "node-1", *_]:
        node["spec"]["unschedulable"] = True
    case ["uncordon", "node-1"]:
        node["spec"].pop("unschedulable", None)
    case words:
        sys.exit("error: unknown command " + " ".join(words))
place.write_text(json.dumps(node))
"""


class Metadata(TypedDict):
    name: str
    annotations: dict[str, str]


class NodeJson(TypedDict):
    kind: str
    metadata: Metadata
    spec: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The stand-in's node, and what was asked of it."""

    folder: Path

    def hook(self, **step: object) -> Hook:
        return parse({"kubernetes": step}, path_with(self.folder))

    def run(self, verb: str, context: HookContext, remembered: str | None = None) -> HookOutcome:
        return self.hook(**{verb: "node-1"}).run(context, remembered, noon)

    def node(self) -> NodeJson:
        node: NodeJson = json.loads((self.folder / "node.json").read_text())
        return node

    @property
    def cordoned(self) -> bool:
        return self.node()["spec"].get("unschedulable", False)

    @property
    def held_for(self) -> str | None:
        return self.node()["metadata"]["annotations"].get(HELD_FOR)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def change(self, alter: Callable[[NodeJson], None]) -> None:
        node = self.node()
        alter(node)
        (self.folder / "node.json").write_text(json.dumps(node))

    def refuse(self, verb: str, words: str) -> None:
        (self.folder / f"refuse-{verb}").write_text(words)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    fresh: NodeJson = {"kind": "Node", "metadata": {"name": "node-1", "annotations": {}}, "spec": {}}
    (tmp_path / "node.json").write_text(json.dumps(fresh))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(python=sys.executable, folder=str(tmp_path)))
    kubectl.chmod(0o755)
    return Cluster(tmp_path)


def cordon_by_hand(node: NodeJson) -> None:
    node["spec"]["unschedulable"] = True


def test_draining_says_so_on_the_node_then_cordons_then_drains(cluster: Cluster) -> None:
    outcome = cluster.run("drain", prepare(deadline=in_seconds(65)))

    assert outcome == HookOutcome(True, "node node-1 is drained", OURS)
    assert cluster.calls() == [
        "get node node-1 --output=json",
        f"annotate node node-1 --overwrite {HELD_FOR}={EVENT.key}",
        "cordon node-1",
        "drain node-1 --ignore-daemonsets --delete-emptydir-data --timeout=60s",
    ]


def test_further_options_reach_the_drain(cluster: Cluster) -> None:
    cluster.hook(drain="node-1", options=["--force", "--grace-period=10"]).run(prepare(), None, noon)

    assert cluster.calls()[-1].endswith("--force --grace-period=10")


def test_cordoning_moves_no_pod(cluster: Cluster) -> None:
    outcome = cluster.run("cordon", prepare())

    assert outcome.ok
    assert cluster.cordoned
    assert not any(call.startswith("drain") for call in cluster.calls())


def test_what_we_cordoned_is_uncordoned(cluster: Cluster) -> None:
    token = cluster.run("drain", prepare()).token

    outcome = cluster.run("uncordon", recover(), token)

    assert outcome == HookOutcome(True, "node node-1 is uncordoned")
    assert not cluster.cordoned
    assert cluster.held_for is None


def test_what_a_human_cordoned_stays_cordoned(cluster: Cluster) -> None:
    cluster.change(cordon_by_hand)

    drained = cluster.run("drain", prepare())
    outcome = cluster.run("uncordon", recover(), drained.token)

    assert drained.token == FOUND
    assert outcome.ok
    assert cluster.cordoned
    assert cluster.held_for is None


def test_a_cordon_stays_a_humans_even_if_the_journal_was_lost(cluster: Cluster) -> None:
    cluster.change(cordon_by_hand)
    cluster.run("drain", prepare())

    cluster.run("uncordon", recover(), None)

    assert cluster.cordoned


def test_an_agent_that_died_in_between_still_knows_its_own_cordon(cluster: Cluster) -> None:
    cluster.run("drain", prepare())

    again = cluster.run("drain", prepare(), None)
    cluster.run("uncordon", recover(), again.token)

    assert again.token == OURS
    assert not cluster.cordoned


def test_two_events_hold_the_node_until_both_are_over(cluster: Cluster) -> None:
    first = cluster.run("drain", prepare(EVENT)).token
    second = cluster.run("drain", prepare(OTHER)).token

    held = cluster.run("uncordon", recover(EVENT), first)
    cordoned_between = cluster.cordoned
    cluster.run("uncordon", recover(OTHER), second)

    assert held.message == f"node node-1 stays cordoned for {OTHER.key}"
    assert cordoned_between
    assert not cluster.cordoned
    assert cluster.held_for is None


def test_recovering_twice_changes_nothing_more(cluster: Cluster) -> None:
    token = cluster.run("drain", prepare()).token
    cluster.run("uncordon", recover(), token)
    cluster.change(cordon_by_hand)

    outcome = cluster.run("uncordon", recover(), token)

    assert outcome.ok
    assert cluster.cordoned


def test_a_drain_that_fails_is_a_failure_and_the_cordon_still_ours(cluster: Cluster) -> None:
    cluster.refuse("drain", "cannot evict pod db-0")

    outcome = cluster.run("drain", prepare())

    assert not outcome.ok
    assert "kubectl exits 1: error: cannot evict pod db-0" in outcome.message
    assert outcome.token == OURS


def test_a_cluster_that_does_not_answer_is_a_failure(cluster: Cluster) -> None:
    cluster.refuse("get", "connection refused")

    outcome = cluster.run("uncordon", recover(), OURS)

    assert not outcome.ok
    assert outcome.message.startswith("kubectl get of node node-1 failed: kubectl exits 1")
    assert outcome.token == OURS


def test_without_a_name_the_node_is_called_as_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "AKS-Node-7")

    assert parse({"kubernetes": {"drain": True}}).describe() == "drain node aks-node-7"


@pytest.mark.parametrize(
    "text",
    [pytest.param("", id="nothing"), pytest.param("error", id="no JSON"), pytest.param("{", id="half of it")],
)
def test_a_node_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(KubernetesError):
        read_node(text)
