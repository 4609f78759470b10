"""In a pod the hook needs no kubectl: it calls the API with the token of its service account.

The API server is a stand-in. A real one was not asked; ``test_kubectl.py`` runs the real kubectl against the
same stand-in, and compares.
"""

import itertools
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.agent.hooks import Hook, HookOutcome, SettingsError, parse
from fairwarning.agent.hooks.hook import HookContext, Now
from fairwarning.agent.hooks.kubernetes import FOUND, HELD_FOR, OURS
from tests.agent.events import document, seen
from tests.agent.hooks.api_server import NODE, TOKEN, ApiStandIn, api_server, pod
from tests.agent.hooks.contexts import EVENT, OTHER, in_seconds, noon, prepare, recover
from tests.agent.rig import Call, FakeEndpoint, Rig
from tests.conftest import NOON


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStandIn]:
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.POLL_INTERVAL", timedelta(milliseconds=5))
    with api_server(tmp_path) as cluster:
        yield cluster


def hook(cluster: ApiStandIn, verb: str, *options: str) -> Hook:
    step: dict[str, object] = {verb: True, "options": list(options)} if options else {verb: True}
    return parse({"kubernetes": step}, cluster.environment)


def run(
    cluster: ApiStandIn, verb: str, context: HookContext, remembered: str | None = None, now: Now = noon
) -> HookOutcome:
    return hook(cluster, verb).run(context, remembered, now)


def evictions(cluster: ApiStandIn) -> list[str]:
    """Return the names of the pods that were asked to go, in order."""
    return [asked.path.split("/")[-2] for asked in cluster.asked if asked.resource == "pods/eviction"]


def approvals(folder: Path, outcome: HookOutcome) -> list[Call]:
    """Return what an agent approves whose hook has this outcome."""
    calls: list[Call] = []
    rig = Rig(folder, calls, FakeEndpoint(calls))
    rig.hook.answer = outcome
    rig.show(document(seen("E1")))
    rig.die()
    return [call for call in calls if call[0] == "approve"]


def ticking(step: timedelta = timedelta(seconds=10)) -> Now:
    """Return a clock that moves with every look at it."""
    turns = itertools.count()

    def now() -> datetime:
        return NOON + next(turns) * step

    return now


def test_a_drain_evicts_what_a_controller_replaces_and_leaves_the_rest(cluster: ApiStandIn) -> None:
    static = pod("static", "Node", annotations={"kubernetes.io/config.mirror": "x"})
    finished = pod("job", None)
    finished["status"] = {"phase": "Succeeded"}
    cluster.pods += [pod("web"), pod("proxy", "DaemonSet"), static, finished]

    outcome = run(cluster, "drain", prepare())

    assert outcome == HookOutcome(True, f"node {NODE} is drained", OURS)
    assert cluster.names == ["proxy", "static"]
    assert cluster.cordoned
    assert cluster.annotations == {HELD_FOR: EVENT.key}


def test_a_node_with_many_pods_is_drained_of_all_of_them(
    cluster: ApiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.PAGE_SIZE", 2)
    cluster.pods += [pod(f"web-{number}") for number in range(5)]

    outcome = run(cluster, "drain", prepare())

    assert outcome.ok
    assert cluster.names == []


def test_the_node_is_marked_before_it_is_cordoned_and_cordoned_before_a_pod_goes(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("web")]

    run(cluster, "drain", prepare())

    changes = [(asked.body, asked.content_type) for asked in cluster.asked if asked.body is not None]
    merge_patch = "application/merge-patch+json"
    assert changes == [
        ({"metadata": {"annotations": {HELD_FOR: EVENT.key}}}, merge_patch),
        ({"spec": {"unschedulable": True}}, merge_patch),
        (
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "shop"}},
            "application/json",
        ),
    ]


def test_what_the_agent_cordoned_is_uncordoned(cluster: ApiStandIn) -> None:
    token = run(cluster, "cordon", prepare()).token

    outcome = run(cluster, "uncordon", recover(), token)

    assert outcome == HookOutcome(True, f"node {NODE} is uncordoned")
    assert not cluster.cordoned
    assert cluster.annotations == {}


def test_what_a_human_cordoned_stays_cordoned(cluster: ApiStandIn) -> None:
    cluster.node["spec"] = {"unschedulable": True}

    drained = run(cluster, "drain", prepare())
    outcome = run(cluster, "uncordon", recover(), drained.token)

    assert drained.token == FOUND
    assert outcome.ok
    assert cluster.cordoned
    assert cluster.annotations == {}


def test_a_disruption_budget_is_waited_for(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("db"), pod("web")]
    cluster.protected["db"] = 3

    outcome = run(cluster, "drain", prepare())

    assert outcome.ok
    assert cluster.names == []
    assert evictions(cluster).count("web") == 1


def test_a_budget_that_does_not_yield_fails_the_drain_in_time(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("db"), pod("web")]
    cluster.protected["db"] = 1000
    cluster.stuck.add("web")

    outcome = run(cluster, "drain", prepare(deadline=in_seconds(100)), now=ticking())

    assert not outcome.ok
    assert outcome.message == (
        "the time is up, and shop/db, shop/web are left; a disruption budget protects shop/db"
    )
    assert outcome.token == OURS


def test_when_the_time_is_up_no_further_pod_is_asked_to_go(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("db"), pod("mail"), pod("web")]
    cluster.protected["db"] = 1000

    outcome = run(cluster, "drain", prepare(deadline=in_seconds(80)), now=ticking())

    assert outcome.message == (
        "the time is up, and shop/db, shop/mail, shop/web are left; a disruption budget protects shop/db"
    )
    assert evictions(cluster) == ["db"]
    assert cluster.asked[-1].resource == "pods/eviction"


def test_when_the_time_is_up_before_the_drain_begins_the_pods_are_not_listed(cluster: ApiStandIn) -> None:
    outcome = run(cluster, "drain", prepare(deadline=in_seconds(60)), now=ticking())

    assert outcome == HookOutcome(
        False, f"the time was up before the Kubernetes API was asked to list the pods of {NODE}", OURS
    )
    assert {asked.resource for asked in cluster.asked} == {"nodes"}


def test_a_refused_eviction_fails_the_drain_after_the_other_pods_were_asked_to_go(
    cluster: ApiStandIn,
) -> None:
    cluster.pods += [pod("db"), pod("mail"), pod("web")]
    cluster.refused |= {"db": 500, "mail": 403}

    outcome = run(cluster, "drain", prepare())

    assert outcome == HookOutcome(
        False,
        "the Kubernetes API refused to evict shop/db: 500 db is not evicted; failed evictions: 2 of 3",
        OURS,
    )
    assert evictions(cluster) == ["db", "mail", "web"]
    assert cluster.names == ["db", "mail"]


HTML = b"<html>The cluster is being upgraded</html>"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(HTML, id="HTML"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"items": "none"}', id="an object whose items are no list"),
        pytest.param(b"{}", id="an object without items"),
    ],
)
def test_an_answer_that_lists_no_pods_is_not_taken_for_an_empty_node(
    body: bytes, cluster: ApiStandIn, tmp_path: Path
) -> None:
    cluster.pods += [pod("web")]
    cluster.bodies["list", "pods"] = body

    outcome = run(cluster, "drain", prepare())

    assert outcome.message.startswith(f"the Kubernetes API did not list the pods of {NODE}: ")
    assert not outcome.ok
    assert approvals(tmp_path / "state", outcome) == []


def test_an_answer_that_ends_early_fails_the_drain(cluster: ApiStandIn, tmp_path: Path) -> None:
    cluster.pods += [pod("web")]
    cluster.cut.add(("list", "pods"))

    outcome = run(cluster, "drain", prepare())

    assert outcome.message.endswith(f"list the pods of {NODE}: the answer is not a JSON object")
    assert not outcome.ok
    assert approvals(tmp_path / "state", outcome) == []


def test_an_answer_that_is_too_large_fails_the_drain(
    cluster: ApiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairwarning.agent.hooks.kubernetes_api.LARGEST_ANSWER", 1000)
    cluster.pods += [pod(f"web-{number}") for number in range(5)]

    outcome = run(cluster, "drain", prepare())

    assert outcome.message.endswith(f"list the pods of {NODE}: the answer is not a JSON object")
    assert len(cluster.names) == 5


def test_an_answer_that_does_not_describe_the_node_leaves_the_holds_of_other_events(
    cluster: ApiStandIn,
) -> None:
    run(cluster, "cordon", prepare(OTHER))
    cluster.bodies["get", "nodes"] = HTML

    outcome = run(cluster, "cordon", prepare())

    assert not outcome.ok
    assert cluster.annotations == {HELD_FOR: OTHER.key}


def test_a_list_of_pods_that_is_null_is_an_empty_node(cluster: ApiStandIn) -> None:
    cluster.bodies["list", "pods"] = b'{"kind": "PodList", "items": null}'

    outcome = run(cluster, "drain", prepare())

    assert outcome.ok, outcome.message


def test_a_pod_that_is_leaving_already_is_only_waited_for(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("web", deletionTimestamp="2026-11-16T12:00:00Z")]

    outcome = run(cluster, "drain", prepare(deadline=in_seconds(80)), now=ticking())

    assert outcome.message == "the time is up, and shop/web are left"
    assert {asked.resource for asked in cluster.asked} == {"nodes", "pods"}


def test_a_pod_without_a_controller_stops_the_drain_before_the_first_eviction(cluster: ApiStandIn) -> None:
    cluster.pods += [pod("web"), pod("by-hand", None)]

    refused = run(cluster, "drain", prepare())
    left = cluster.names
    forced = hook(cluster, "drain", "--force", "--grace-period=7").run(prepare(), None, noon)

    assert refused.message == "no controller replaces shop/by-hand; the option --force evicts them"
    assert left == ["web", "by-hand"]
    assert forced.ok
    assert cluster.names == []
    assert _member(cluster.asked[-2].body, "deleteOptions") == {"gracePeriodSeconds": 7}


def test_a_refusal_names_the_request_and_the_reason_but_not_the_token(cluster: ApiStandIn) -> None:
    cluster.allowed = {("get", "nodes")}

    outcome = run(cluster, "drain", prepare())

    assert outcome.message == (
        f"the Kubernetes API refused to annotate node {NODE}: 403 cannot patch resource nodes"
    )
    assert TOKEN not in outcome.message


def test_a_server_with_another_authority_gets_no_token(cluster: ApiStandIn, tmp_path: Path) -> None:
    with api_server(tmp_path / "other") as other:
        (tmp_path / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())

        outcome = run(cluster, "drain", prepare())

    assert not outcome.ok
    assert "certificate verify failed" in outcome.message
    assert cluster.asked == other.asked == []


def test_authorities_as_clusters_make_them_are_trusted_by_later_pythons_too(
    cluster: ApiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = ssl.create_default_context

    def strict(*, cafile: Path) -> ssl.SSLContext:
        # As Python 3.13 does.
        context = default(cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)

    outcome = run(cluster, "cordon", prepare())

    assert outcome.ok, outcome.message


def test_without_a_token_the_hook_fails_and_says_so(cluster: ApiStandIn, tmp_path: Path) -> None:
    (tmp_path / "token").unlink()

    outcome = run(cluster, "uncordon", recover(), OURS)

    assert "No such file or directory" in outcome.message
    assert outcome.token == OURS


def test_a_problem_without_a_text_is_named_by_its_kind(
    cluster: ApiStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, cafile: Path) -> ssl.SSLContext:
        raise ConnectionResetError

    monkeypatch.setattr(ssl, "create_default_context", fail)

    outcome = run(cluster, "cordon", prepare())

    assert outcome.message == f"the Kubernetes API did not describe node {NODE}: ConnectionResetError"


def test_in_a_pod_no_program_is_needed_unless_a_file_for_kubectl_is_named(cluster: ApiStandIn) -> None:
    with_file = {**cluster.environment, "KUBECONFIG": "/etc/kubeconfig"}

    assert hook(cluster, "drain").program() is None
    assert parse({"kubernetes": {"drain": True}}, with_file).program() == "kubectl"


def test_options_that_only_kubectl_has_are_refused_in_a_pod(cluster: ApiStandIn) -> None:
    with pytest.raises(SettingsError, match="'--dry-run': in a pod, only --force and --grace-period"):
        hook(cluster, "drain", "--dry-run")


def _member(body: object, name: str) -> object:
    assert isinstance(body, dict)
    return body[name]
