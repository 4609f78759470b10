"""The first poll enables a scope, and a day without polls disables it (R-21 to R-24)."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import PollsRecorded
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.model import EventStatus, ScopeId, ScopeKind
from fairwarning.core.policy import Policy
from tests.fleet_harness import NOON, FleetHarness, run, span

WEB = Blueprint(name="web", count=3)


@pytest.mark.rule("R-23")
@pytest.mark.parametrize("cause", ["restart", "redeploy", "delete"])
def test_without_polls_a_users_operation_acts_at_once_and_unseen(cause: str) -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")), watched=False)

    (event,) = stage.cause(cause, "web_0")

    assert stage.status(event) is EventStatus.STARTED
    assert stage.shown("web_0") == ()

    stage.poll("web_1")

    assert stage.shown("web_1") == ()

    stage.advance("5s")

    assert stage.story(event) == ["started", "finished"]


@pytest.mark.rule("R-23")
def test_without_polls_the_platform_acts_at_its_time_unseen() -> None:
    stage = FleetHarness(WEB, watched=False)
    (freeze,) = stage.cause("freeze", "web_1")

    stage.advance("15m9s")

    at = {line.kind: line.at for line in stage.history(freeze)}
    assert at == {"scheduled": NOON, "started": NOON + span("15m"), "finished": NOON + span("15m9s")}
    assert stage.incarnation("web") == 1


@pytest.mark.rule("R-21")
def test_an_unseen_event_of_the_platform_is_shown_at_the_first_poll() -> None:
    stage = FleetHarness(WEB, watched=False)
    (event,) = stage.cause("freeze", "web_0")
    stage.advance("5m")

    stage.poll("web_2")

    (shown,) = stage.shown("web_2")
    assert (shown.id, shown.status, shown.not_before) == (event, EventStatus.SCHEDULED, NOON + span("15m"))
    assert stage.incarnation("web") == 2


@pytest.mark.rule("R-16")
def test_an_event_that_is_not_shown_cannot_be_approved() -> None:
    stage = FleetHarness(WEB, watched=False)
    (event,) = stage.cause("freeze", "web_0")

    with pytest.raises(UnknownEventError):
        stage.approve(event, by="web_0")


@pytest.mark.rule("R-23")
def test_a_terminate_notice_may_apply_even_without_polls() -> None:
    blueprint = replace(WEB, terminate_notice=span("5m"))
    stage = FleetHarness(blueprint, policy=Policy(terminate_requires_enabled=False), watched=False)

    (event,) = stage.cause("delete", "web_0")

    assert stage.status(event) is EventStatus.SCHEDULED
    assert stage.shown("web_0") == ()


@pytest.mark.rule("R-21")
def test_the_first_poll_of_any_machine_switches_the_whole_scope_on() -> None:
    stage = FleetHarness(WEB, watched=False)

    stage.poll("web_2")
    (event,) = stage.cause("restart", "web_0")

    assert stage.scope("web").enabled
    assert [one.id for one in stage.shown("web_1")] == [event]
    assert stage.status(event) is EventStatus.SCHEDULED


@pytest.mark.rule("R-21")
def test_being_switched_on_survives_a_restart() -> None:
    stage = FleetHarness(WEB)

    stage.restart()

    assert stage.scope("web").enabled


@pytest.mark.rule("R-22")
def test_a_scope_is_switched_off_exactly_a_day_after_its_last_poll() -> None:
    stage = FleetHarness(WEB)

    stage.advance("23h59m59s")

    assert stage.scope("web").enabled

    stage.advance("1s")

    assert not stage.scope("web").enabled


@pytest.mark.rule("R-22")
def test_a_poll_too_recent_to_be_written_down_counts_all_the_same() -> None:
    stage = FleetHarness(WEB)
    stage.advance("59s")
    stage.poll("web_1")

    assert stage.scope("web").facts.polled_at == NOON

    stage.advance("24h")
    stage.advance("0s")

    at = stage.journal()[-1].at
    assert not stage.scope("web").enabled
    assert at == NOON + span("24h59s")


@pytest.mark.rule("R-22")
def test_a_machine_that_keeps_polling_keeps_its_scope_switched_on() -> None:
    stage = FleetHarness(WEB)

    for _ in range(5):
        stage.advance("23h")
        stage.poll("web_0")

    assert stage.scope("web").enabled


@pytest.mark.rule("R-22")
def test_polling_all_the_time_writes_once_in_six_hours_and_changes_no_scope() -> None:
    stage = FleetHarness(WEB)
    written, before = len(stage.journal()), stage.scope("web")

    for _ in range(18 * 6):
        stage.advance("10m")
        stage.poll("web_0")

    assert [line.change for line in stage.journal()[written:]] == [
        PollsRecorded(at=NOON + span(after), scopes=(ScopeId("web"),)) for after in ("6h", "12h", "18h")
    ]
    assert stage.scope("web") is before


@pytest.mark.rule("R-22")
def test_the_polls_of_many_scopes_are_written_in_one_line() -> None:
    stage = FleetHarness(WEB, *(Blueprint(name=f"vm{n}", kind=ScopeKind.STANDALONE) for n in range(5)))
    stage.advance("7h")
    written = len(stage.journal())

    async def poll_all() -> None:
        for name in ("web_0", "vm0", "vm3"):
            await stage.engine.poll(stage.ref(name))
        await stage.engine.flush_polls()

    run(poll_all())

    (line,) = stage.journal()[written:]
    assert line.change == PollsRecorded(at=stage.now, scopes=(ScopeId("web"), ScopeId("vm0"), ScopeId("vm3")))


@pytest.mark.rule("R-22")
def test_on_a_manual_clock_polls_are_written_at_once() -> None:
    stage = FleetHarness(WEB)
    written = len(stage.journal())

    async def poll_twice() -> None:
        for _ in range(2):
            stage.clock.set(stage.now + span("7h"))
            await stage.engine.poll(stage.ref("web_0"))
            await stage.engine.remark(ActionNote(deed=OperatorAction.ADVANCED, detail="by 7h", by="operator"))

    run(poll_twice())

    lines = [line for line in stage.journal()[written:] if isinstance(line.change, PollsRecorded)]
    assert [line.at for line in lines] == [NOON + span("7h"), NOON + span("14h")]


@pytest.mark.rule("R-22")
def test_a_restarted_server_knows_the_last_poll_that_was_written() -> None:
    stage = FleetHarness(WEB)
    stage.advance("7h")
    stage.poll("web_0")
    stage.restart()

    stage.advance("23h59m59s")

    assert stage.scope("web").enabled

    stage.advance("1s")

    assert not stage.scope("web").enabled


@pytest.mark.rule("R-22")
def test_pending_events_survive_switching_off() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("predicted-failure", "web_0")

    stage.advance("25h")

    assert not stage.scope("web").enabled
    assert [one.id for one in stage.pending("web")] == [event]


@pytest.mark.rule("R-22")
@pytest.mark.rule("R-25")
def test_a_scope_that_never_sleeps_stays_on() -> None:
    stage = FleetHarness(WEB, policy=Policy(disable_after=None))

    stage.advance("400d")

    assert stage.scope("web").enabled


@pytest.mark.rule("R-25")
def test_a_fleet_may_be_switched_on_from_the_start() -> None:
    stage = FleetHarness(WEB, policy=Policy(start_enabled=True), watched=False)

    (event,) = stage.cause("restart", "web_0")

    assert stage.status(event) is EventStatus.SCHEDULED
    assert stage.shown("web_0") != ()


@pytest.mark.rule("R-24")
def test_each_zone_of_a_set_is_switched_on_by_itself() -> None:
    stage = FleetHarness(replace(WEB, count=4, zones=("1", "2")), watched=False)

    stage.poll("web_0")

    assert stage.scope("web.zone1").enabled
    assert not stage.scope("web.zone2").enabled

    warned, unwarned = stage.cause("restart", "web_0", "web_1")

    assert stage.statuses(warned, unwarned) == [EventStatus.SCHEDULED, EventStatus.STARTED]
