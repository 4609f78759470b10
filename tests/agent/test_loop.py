"""The loop: which jobs run, in which order, and what a crash changes."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.agent.client import RefusedError, UnavailableError
from fairwarning.agent.coordination import CoordinationMode
from fairwarning.agent.hooks import UNREPORTED, HookOutcome
from fairwarning.agent.jobs import Heard, PollFailed
from fairwarning.agent.plan import AgentPolicy, EventStep, PrepareAction
from fairwarning.agent.rules import Consent
from fairwarning.core.commands import Cancel
from fairwarning.core.model import EventId, ScopeId
from tests.agent.events import DRAIN, NOON, document, seen, started
from tests.agent.rig import Call, FakeEndpoint, FleetEndpoint, Rig
from tests.guest import E1 as FIRST
from tests.guest import Cloud, cloud

E1, E2 = seen("E1"), seen("E2")
OTHER = EventId("A02D9444-D2CD-49C7-8624-8643E7171297")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    calls: list[Call] = []
    rig = Rig(tmp_path, calls, FakeEndpoint(calls))
    yield rig
    rig.die()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Rig, Cloud]]:
    """An agent on web_0 of the real metadata API, in this process."""
    calls: list[Call] = []
    with cloud() as fleet:
        rig = Rig(tmp_path, calls, FleetEndpoint(fleet, calls))
        yield rig, fleet
        rig.die()


@pytest.mark.rule("C-04", "C-08", "C-10")
def test_a_restart_from_its_announcement_to_its_end(web: tuple[Rig, Cloud]) -> None:
    rig, fleet = web
    rig.poll()
    fleet.cause("restart", "web_0")

    rig.poll()
    drained = rig.agent.snapshot.drained
    rig.poll()
    during = list(rig.calls)
    fleet.advance(seconds=10)
    rig.poll()

    assert drained
    assert during == [("prepare", FIRST), ("approve", FIRST)]
    assert rig.calls == [*during, ("recover", FIRST)]
    assert not rig.agent.snapshot.drained
    assert not rig.journal.records


@pytest.mark.rule("C-04")
def test_maintenance_that_is_cancelled_is_recovered_from(web: tuple[Rig, Cloud]) -> None:
    rig, fleet = web
    rig.hook.answer = HookOutcome(False, "not now")
    fleet.cause("host-update", "web_0")
    rig.poll()

    fleet.handle(Cancel(scope=ScopeId("web"), id=FIRST))
    rig.hook.answer = HookOutcome(True, "done")
    rig.poll()

    assert rig.calls == [("prepare", FIRST), ("recover", FIRST)]


@pytest.mark.rule("C-04")
def test_two_events_at_once_are_both_handled(web: tuple[Rig, Cloud]) -> None:
    rig, fleet = web
    fleet.cause("restart", "web_0")
    fleet.cause("redeploy", "web_0", id=OTHER)

    rig.poll()

    assert sorted(rig.calls) == [(what, key) for what in ("approve", "prepare") for key in (FIRST, OTHER)]


@pytest.mark.rule("C-09")
def test_hardware_that_fails_without_warning_is_drained_and_not_approved(web: tuple[Rig, Cloud]) -> None:
    rig, fleet = web
    fleet.cause("hardware-failure", "web_0")

    rig.poll()

    assert ("prepare", FIRST) in rig.calls


def test_an_event_of_another_machine_is_left_alone(web: tuple[Rig, Cloud]) -> None:
    rig, fleet = web
    fleet.cause("restart", "web_1")

    rig.poll()

    assert rig.calls == []


@pytest.mark.rule("C-02")
def test_a_failed_poll_does_not_mean_that_events_are_gone(rig: Rig) -> None:
    rig.show(document(E1))

    rig.agent.receive(PollFailed("the endpoint answers 503"))
    rig.settle()
    rig.show(None)

    assert rig.calls == [("prepare", "E1"), ("approve", "E1")]


@pytest.mark.rule("C-06")
def test_a_drain_that_fails_is_never_approved(rig: Rig) -> None:
    rig.hook.answer = HookOutcome(False, "the drain exits 1")

    for _ in range(3):
        rig.show(document(E1))

    assert rig.calls == [("prepare", "E1")]


@pytest.mark.rule("C-08")
def test_an_approval_is_sent_once(rig: Rig) -> None:
    for _ in range(3):
        rig.show(document(E1))

    assert rig.calls.count(("approve", "E1")) == 1


@pytest.mark.rule("C-11")
@pytest.mark.parametrize(
    ("jobs_done", "expected"),
    [
        pytest.param(0, ["prepare", "approve", "recover"], id="before a hook began"),
        pytest.param(1, ["prepare", "prepare", "approve", "recover"], id="before its end was noted"),
    ],
)
def test_after_a_crash_the_work_goes_on(rig: Rig, jobs_done: int, expected: list[str]) -> None:
    rig.begin(document(E1))
    for job in rig.jobs[:jobs_done]:
        job()
    rig.reboot()

    rig.show(document(E1))
    rig.show(document(started(E1)))
    rig.show(document())

    assert [what for what, _ in rig.calls] == expected


@pytest.mark.rule("C-11")
def test_after_the_reboot_it_prepared_for_nothing_is_done_again(rig: Rig) -> None:
    rig.show(document(E1))
    rig.reboot()

    rig.show(document(started(E1)))
    again = list(rig.calls)
    rig.show(document())

    assert again == [("prepare", "E1"), ("approve", "E1")]
    assert rig.calls == [*again, ("recover", "E1")]


@pytest.mark.rule("C-11")
def test_a_machine_that_wakes_after_everything_is_over_recovers(rig: Rig) -> None:
    rig.show(document(E1))
    rig.reboot()

    rig.show(document())

    assert rig.calls[-1] == ("recover", "E1")


def test_a_token_comes_back_to_the_hook_that_gave_it(rig: Rig) -> None:
    rig.show(document(E1))
    rig.reboot()
    rig.show(document())

    assert rig.hook.remembered == [None, "ours"]


def test_a_hook_that_never_reported_gets_a_token_that_says_so(rig: Rig) -> None:
    rig.begin(document(E1))
    rig.hook.breaks = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        rig.jobs[0]()
    rig.hook.breaks = None
    rig.reboot()

    rig.show(document(E1))

    assert rig.hook.remembered == [UNREPORTED]
    assert rig.calls == [("prepare", "E1"), ("approve", "E1")]


def test_hooks_run_one_after_the_other_and_the_most_urgent_first(rig: Rig) -> None:
    later, sooner = (
        seen("E1", notice=timedelta(minutes=15)),
        seen("E2", "Preempt", notice=timedelta(seconds=30)),
    )

    rig.agent._document = document(later, sooner)
    rig.agent.turn()
    begun = len(rig.jobs)
    rig.settle()

    assert begun == 1
    assert [call for call in rig.calls if call[0] == "prepare"] == [("prepare", "E2"), ("prepare", "E1")]
    assert rig.hook.deadlines == [sooner.not_before, later.not_before]


@pytest.mark.rule("C-10")
def test_a_machine_two_events_need_drained_goes_back_to_work_after_both(rig: Rig) -> None:
    rig.show(document(E1, E2))

    rig.show(document(E2))
    in_between = [what for what, _ in rig.calls].count("recover")
    rig.show(document())

    assert in_between == 0
    assert rig.calls[-2:] == [("recover", "E1"), ("recover", "E2")]


def test_a_recovery_that_fails_is_repeated_until_it_works(rig: Rig) -> None:
    rig.show(document(E1))
    rig.hook.answer = HookOutcome(False, "the cluster does not answer")
    rig.show(document())
    rig.show(document())
    tried = rig.calls.count(("recover", "E1"))

    assert isinstance(rig.endpoint, FakeEndpoint)
    rig.endpoint.at += timedelta(seconds=20)
    rig.hook.answer = HookOutcome(True, "done")
    rig.show(document())

    assert tried == 1
    assert rig.calls.count(("recover", "E1")) == 2
    assert not rig.journal.records


def test_a_hook_that_breaks_is_a_hook_that_failed(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.hook.breaks = RuntimeError("a bug")

    with caplog.at_level(logging.ERROR, "fairwarning.agent"):
        rig.show(document(E1))

    assert rig.journal.records[E1.key].step is EventStep.FAILED
    assert [line.message for line in caplog.records] == ["prepare_failed"]


@pytest.mark.parametrize(
    ("problem", "sent"),
    [
        pytest.param(RefusedError(400, "no such event"), 1, id="what was refused is not repeated"),
        pytest.param(UnavailableError("away"), 2, id="an approval that did not arrive is repeated"),
    ],
)
def test_an_approval_that_does_not_get_through(
    rig: Rig, problem: RefusedError | UnavailableError, sent: int
) -> None:
    assert isinstance(rig.endpoint, FakeEndpoint)
    rig.endpoint.problem = problem
    rig.begin(document(E1))
    rig.agent.receive(rig.jobs.pop(0)())
    rig.agent.turn()
    rig.agent.receive(rig.jobs.pop(0)())
    rig.endpoint.problem = None

    rig.show(document(E1))

    assert rig.calls.count(("approve", "E1")) == sent - 1


def test_a_dry_run_approves_nothing(tmp_path: Path) -> None:
    calls: list[Call] = []
    rig = Rig(tmp_path, calls, FakeEndpoint(calls), dry_run=True)

    rig.show(document(E1))

    assert calls == [("prepare", "E1")]
    assert rig.journal.records[E1.key].approved
    rig.die()


@pytest.mark.parametrize(
    ("check", "approved"),
    [
        pytest.param(("true",), True, id="others are healthy"),
        pytest.param(("sh", "-c", "echo web_1 is down; exit 1"), False, id="this is the last healthy one"),
    ],
)
def test_a_check_may_hold_the_approval(tmp_path: Path, check: tuple[str, ...], approved: bool) -> None:
    calls: list[Call] = []
    rig = Rig(tmp_path, calls, FakeEndpoint(calls), check=check)

    rig.show(document(E1))
    rig.show(document(E1))

    assert (("approve", "E1") in calls) is approved
    assert ("web_1 is down" in rig.agent.snapshot.waits.get(E1.key, "")) is not approved
    rig.die()


@pytest.mark.rule("C-07")
def test_peers_are_asked_and_their_reports_are_kept(tmp_path: Path) -> None:
    calls: list[Call] = []
    pair = seen("E1", "Reboot", "web_0", "web_1")
    policy = AgentPolicy(rules=(DRAIN,), mode=CoordinationMode.PEERS)
    rig = Rig(tmp_path, calls, FakeEndpoint(calls), policy=policy, peers={"web_1": "http://127.0.0.1:1"})
    rig.show(document(pair))
    alone = list(calls)

    rig.agent.receive(Heard({"web_1": frozenset({pair.key})}))
    rig.settle()

    assert alone == [("prepare", "E1")]
    assert calls == [*alone, ("approve", "E1")]
    rig.die()


def test_a_machine_reports_ready_only_for_events_it_may_approve(rig: Rig) -> None:
    rig.show(document(E1))
    first = rig.agent.snapshot.ready

    rig.policy = AgentPolicy(rules=(replace(DRAIN, approve=Consent.NEVER),))
    rig.agent.settings = rig.settings()
    rig.settle()

    assert first == (E1.key,)
    assert rig.agent.snapshot.ready == ()


def test_a_rule_that_is_gone_is_undone_by_the_one_that_covers_the_event_now(rig: Rig) -> None:
    rig.show(document(E1))
    rig.policy = AgentPolicy(rules=(replace(DRAIN, name="renamed"),))
    rig.agent.settings = rig.settings()

    rig.show(document())

    assert rig.calls[-1] == ("recover", "E1")


def test_an_immediate_approval_is_recorded_before_the_hooks_have_run(rig: Rig) -> None:
    rig.policy = AgentPolicy(rules=(replace(DRAIN, approve=Consent.IMMEDIATELY),))
    rig.agent.settings = rig.settings()

    actions = rig.begin(document(E1, E2))
    rig.settle()

    assert sum(isinstance(action, PrepareAction) for action in actions) == 2
    assert sorted(rig.calls) == [(what, key) for what in ("approve", "prepare") for key in ("E1", "E2")]
    assert rig.endpoint.now() == NOON
