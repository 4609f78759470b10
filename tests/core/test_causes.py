"""What each cause announces, and what is refused."""

from dataclasses import replace

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES, MAINTENANCE, Text
from fairwarning.core.errors import (
    AlreadyUnderWayError,
    FairWarningError,
    InvalidError,
    NoImageNoticeError,
    NoTerminateNoticeError,
    NotRunningError,
    NotSpotError,
    SpotIsNotWarnedError,
    TooManyUserEventsError,
)
from fairwarning.core.model import (
    OPERATOR,
    EventSource,
    EventStatus,
    EventType,
    EvictionPolicy,
    HostId,
    PowerState,
    ScopeKind,
    VmName,
)
from fairwarning.core.policy import PROFILES
from tests.fleet_harness import NOON, FleetHarness, run, span

WEB = Blueprint(name="web", count=3)
SPOT = Blueprint(name="cheap", count=3, spot=True)
WEB_ON_KVM = Blueprint(name="web", host=HostId("kvm-1"))
DB_ON_KVM = Blueprint(name="db", kind=ScopeKind.STANDALONE, host=HostId("kvm-1"))


@pytest.mark.rule("L-06")
@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        pytest.param(None, EventType.REDEPLOY, id="a Redeploy by default"),
        pytest.param(EventType.REBOOT, EventType.REBOOT, id="a Reboot by choice"),
    ],
)
def test_a_hardware_failure_arrives_started(asked: EventType | None, kind: EventType) -> None:
    stage = FleetHarness(WEB)

    (event,) = stage.cause("hardware-failure", "web_1", kind=asked)

    (shown,) = stage.shown("web_0")
    assert (shown.id, shown.status, shown.kind) == (event, EventStatus.STARTED, kind)
    assert b'"NotBefore":""' in stage.document("web_0")
    assert stage.story(event) == ["started"]


@pytest.mark.rule("L-06")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        pytest.param("hardware-failure", EventType.TERMINATE, id="a failure deletes nothing"),
        pytest.param("restart", EventType.FREEZE, id="only a hardware failure leaves a choice"),
    ],
)
def test_a_kind_that_makes_no_sense_is_refused(cause: str, kind: EventType) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(InvalidError, match="kind: "):
        stage.cause(cause, "web_1", kind=kind)


@pytest.mark.rule("L-06")
def test_a_predicted_failure_is_announced_a_week_ahead_and_survives_silence() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("predicted-failure", "web_0")

    stage.advance("6d23h59m59s")

    assert stage.status(event) is EventStatus.SCHEDULED

    stage.advance("1s")

    assert stage.status(event) is EventStatus.STARTED


@pytest.mark.rule("L-06")
def test_maintenance_found_too_risky_vanishes_after_eight_minutes() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("cancelled-maintenance", "web_0")

    stage.advance("7m59s")

    assert [one.status for one in stage.shown("web_0")] == [EventStatus.SCHEDULED]

    stage.advance("1s")

    assert stage.shown("web_0") == ()
    assert stage.story(event) == ["scheduled", "cancelled"]


@pytest.mark.rule("L-06")
def test_an_operator_withdraws_what_has_not_started() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("freeze", "web_0")

    stage.cancel(event)
    stage.advance("1h")

    assert stage.story(event) == ["scheduled", "cancelled"]


@pytest.mark.rule("L-01")
def test_what_has_started_cannot_be_withdrawn() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("hardware-failure", "web_0")

    with pytest.raises(Exception, match="is Started; it cannot be cancelled"):
        run(Control(stage.engine).cancel(OPERATOR, event))

    assert stage.story(event) == ["started", "refused"]


@pytest.mark.rule("L-07")
@pytest.mark.parametrize(
    ("cause", "kind", "source", "duration", "scheduled", "started", "text"),
    [
        ("live-migrate", EventType.FREEZE, EventSource.PLATFORM, 5, "15m", "5m", Text.LIVE_MIGRATION),
        ("freeze", EventType.FREEZE, EventSource.PLATFORM, 9, "15m", "10m", Text.HOST),
        ("host-update", EventType.FREEZE, EventSource.PLATFORM, 30, "15m", "8m", Text.HOST),
        ("restart", EventType.REBOOT, EventSource.USER, -1, "15m", "10m", Text.RESTART),
        ("redeploy", EventType.REDEPLOY, EventSource.USER, -1, "10m", "10m", Text.REDEPLOY),
        ("hardware-failure", EventType.REDEPLOY, EventSource.PLATFORM, -1, "0s", "10m", Text.FAILURE),
        ("platform-redeploy", EventType.REDEPLOY, EventSource.PLATFORM, -1, "15m", "10m", Text.FAILURE),
        ("evict", EventType.PREEMPT, EventSource.PLATFORM, -1, "30s", "30s", Text.NOTHING),
    ],
)
def test_a_scenario_takes_as_long_as_it_does_on_azure(
    cause: str, kind: EventType, source: EventSource, duration: int, scheduled: str, started: str, text: Text
) -> None:
    stage = FleetHarness(SPOT, azure_timings=True)
    (event_id,) = stage.cause(cause, "cheap_0")
    event = stage.event(event_id)

    stage.advance("1h")

    at = {line.kind: line.at for line in stage.history(event_id)}
    assert (event.kind, event.source, event.duration, event.description) == (kind, source, duration, text)
    assert at["started"] == NOON + span(scheduled)
    assert at["finished"] == at["started"] + span(started)


@pytest.mark.rule("L-08")
def test_every_description_is_one_of_the_exact_texts_and_present_even_when_empty() -> None:
    stage = FleetHarness(SPOT)
    stage.cause("evict", "cheap_0")

    assert b'"Description":""' in stage.document("cheap_0")
    assert set(Text) == {
        "Host server is undergoing maintenance.",
        "Host Server infrastructure is undergoing maintenance.",
        "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        "Virtual machine is going to be restarted as requested by authorized user.",
        "Virtual machine is going to be redeployed as requested by authorized user.",
        "Host server is undergoing an emergency repair.",
        "Virtual machine has encountered a failure.",
        "",
    }


@pytest.mark.rule("L-09")
@pytest.mark.parametrize(
    ("cause", "source"),
    [
        *((cause, EventSource.USER) for cause in ("restart", "redeploy", "delete")),
        *((cause, EventSource.PLATFORM) for cause in ("freeze", "host-reboot", "hardware-failure", "evict")),
    ],
)
def test_users_are_behind_restart_redeploy_and_delete_and_the_platform_behind_the_rest(
    cause: str, source: EventSource
) -> None:
    assert CAUSES[cause].source is source


@pytest.mark.rule("L-10")
def test_only_a_freeze_knows_how_long_it_interrupts() -> None:
    known = {cause.kind for cause in CAUSES.values() if cause.duration != -1}

    assert known == {EventType.FREEZE}
    assert all(cause.duration > 0 for cause in CAUSES.values() if cause.kind is EventType.FREEZE)


@pytest.mark.rule("L-14")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [("restart", EventType.REBOOT), ("redeploy", EventType.REDEPLOY), ("evict", EventType.PREEMPT)],
)
def test_a_user_operation_makes_its_kind_of_event(cause: str, kind: EventType) -> None:
    stage = FleetHarness(SPOT)

    (event,) = stage.cause(cause, "cheap_0")

    assert stage.event(event).kind is kind


@pytest.mark.rule("L-14")
@pytest.mark.rule("T-09")
def test_stopping_growing_and_updating_make_no_event() -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")))

    stage.stop("web_0")
    stage.grow("web")
    stage.change_notice("web", "10m")
    stage.upgrade("web_1")

    assert stage.pending("web") == ()
    assert stage.incarnation("web") == 1


@pytest.mark.rule("L-16")
def test_the_preview_allows_ten_unfinished_user_events_in_a_scope() -> None:
    stage = FleetHarness(replace(WEB, count=12), policy=PROFILES["preview2017"].policy)
    events = stage.cause("restart", *(f"web_{number}" for number in range(10)))

    with pytest.raises(TooManyUserEventsError, match="scope web has 10 user operations under way") as refusal:
        stage.cause("restart", "web_10")

    assert refusal.value.status_hint == 409

    stage.cause("freeze", "web_10")
    stage.approve(events[0], by="web_0")
    stage.advance("5s")

    assert stage.cause("restart", "web_10") != ()


@pytest.mark.rule("L-16")
def test_asking_for_too_many_at_once_makes_none() -> None:
    stage = FleetHarness(replace(WEB, count=12), policy=PROFILES["preview2017"].policy)

    with pytest.raises(TooManyUserEventsError):
        stage.cause("restart", *stage.machines("web"))

    assert stage.pending("web") == ()


@pytest.mark.rule("L-16")
def test_today_there_is_no_limit() -> None:
    stage = FleetHarness(replace(WEB, count=150))

    assert len(stage.cause("restart", *stage.machines("web"))) == 150


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("restart", "restart", id="two restarts"),
        pytest.param("redeploy", "redeploy", id="two redeploys"),
        pytest.param("host-reboot", "restart", id="a restart on top of a platform reboot"),
        pytest.param("evict", "evict", id="two evictions"),
    ],
)
@pytest.mark.rule("L-21")
def test_a_second_operation_of_the_same_kind_is_refused_until_the_first_is_done(
    first: str, second: str
) -> None:
    stage = FleetHarness(SPOT)
    (event,) = stage.cause(first, "cheap_0")

    with pytest.raises(AlreadyUnderWayError, match=f"event {event} is Scheduled") as refusal:
        stage.cause(second, "cheap_0")

    assert refusal.value.status_hint == 409
    assert [one.id for one in stage.pending("cheap")] == [event]


@pytest.mark.rule("L-21")
@pytest.mark.parametrize("cause", [*MAINTENANCE, "hardware-failure"])
@pytest.mark.parametrize(
    "first", [pytest.param((), id="of the whole host"), pytest.param(("db",), id="of one of its machines")]
)
def test_the_same_cause_on_the_same_host_is_refused_until_the_first_is_done(
    cause: str, first: tuple[str, ...]
) -> None:
    stage = FleetHarness(WEB_ON_KVM, DB_ON_KVM)
    events = stage.cause(cause, *first, host=None if first else "kvm-1")

    with pytest.raises(AlreadyUnderWayError) as refusal:
        stage.cause(cause, host="kvm-1")

    assert refusal.value.event.id in events
    assert f"an unfinished {cause} of host kvm-1: event {refusal.value.event.id} is" in str(refusal.value)
    assert {event.id for event in (*stage.pending("web"), *stage.pending("db"))} == set(events)


@pytest.mark.rule("L-21")
def test_a_cause_can_be_repeated_on_a_host_once_the_first_is_done() -> None:
    stage = FleetHarness(DB_ON_KVM)
    stage.cause("host-reboot", host="kvm-1")
    stage.advance("16m")

    assert stage.cause("host-reboot", host="kvm-1") != ()


@pytest.mark.rule("L-21")
def test_another_cause_on_the_same_host_is_no_repetition() -> None:
    stage = FleetHarness(DB_ON_KVM)
    stage.cause("freeze", host="kvm-1")

    assert stage.cause("live-migrate", host="kvm-1") != ()


@pytest.mark.rule("L-21")
def test_a_machine_that_moved_is_part_of_what_happens_to_its_new_host() -> None:
    stage = FleetHarness(DB_ON_KVM)
    stage.cause("freeze", host="kvm-1", notice="1h")
    (move,) = stage.cause("redeploy", "db")
    stage.approve(move, by="db")
    stage.advance("5s")

    assert stage.cause("freeze", host=stage.machine("db").host) != ()


@pytest.mark.rule("L-13")
@pytest.mark.rule("L-21")
def test_machines_that_are_named_can_have_the_same_maintenance_twice() -> None:
    stage = FleetHarness(DB_ON_KVM)
    stage.cause("freeze", host="kvm-1")

    stage.cause("freeze", "db")

    assert len(stage.pending("db")) == 2


@pytest.mark.rule("L-21")
def test_a_rollout_goes_on_although_the_hosts_of_its_machines_have_such_maintenance() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2, update_domains=2, host=HostId("kvm-1")))
    stage.cause("freeze", host="kvm-1", notice="30m")

    stage.walk("web", "freeze")
    stage.advance("2h")

    assert stage.scope("web").facts.walk is None
    assert stage.pending("web") == ()


@pytest.mark.parametrize(
    ("cause", "machines", "notice", "problem"),
    [
        pytest.param(
            "explode", ("web_0",), None, "cause: 'explode' is not one of restart", id="no such cause"
        ),
        pytest.param("restart", (), None, "machines: name at least one", id="nobody named"),
        pytest.param("restart", ("web_0", "web_0"), None, "machines: .* named twice", id="a machine twice"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    cause: str, machines: tuple[str, ...], notice: str | None, problem: str
) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(InvalidError, match=problem):
        stage.cause(cause, *machines, notice=notice)


@pytest.mark.rule("T-43")
@pytest.mark.parametrize(
    ("cause", "error", "problem"),
    [
        pytest.param(
            "delete",
            NoTerminateNoticeError,
            r"terminate notification is not .*terminate_notice",
            id="a delete",
        ),
        pytest.param("reimage", NoImageNoticeError, "OS image notification is not enabled", id="a reimage"),
    ],
)
def test_a_notice_that_the_model_does_not_allow_is_refused(
    cause: str, error: type[FairWarningError], problem: str
) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(error, match=f"web_0 gets no notice of a {cause}: {problem}"):
        stage.cause(cause, "web_0", notice="10m")

    assert error.status_hint == 409
    assert stage.machines("web") == ["web_0", "web_1", "web_2"]
    assert stage.pending("web") == ()


@pytest.mark.rule("T-43")
def test_a_notice_of_a_delete_is_refused_for_spot_machines() -> None:
    stage = FleetHarness(SPOT)

    with pytest.raises(SpotIsNotWarnedError):
        stage.cause("delete", "cheap_0", notice="10m")


@pytest.mark.rule("T-43")
def test_a_delete_with_terminate_notification_takes_another_notice() -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")))

    (event,) = stage.cause("delete", "web_0", notice="10m")

    assert stage.event(event).not_before == NOON + span("10m")


@pytest.mark.rule("T-43")
@pytest.mark.parametrize(
    ("cause", "notice", "force", "problem"),
    [
        pytest.param("delete", "10m", True, "notice: a forced delete has none", id="forced, with a notice"),
        pytest.param("hardware-failure", "10m", False, "notice: a hardware-failure has none", id="sudden"),
        pytest.param("restart", None, True, "force: only a delete", id="a forced restart"),
    ],
)
def test_what_a_cause_cannot_do_is_refused(cause: str, notice: str | None, force: bool, problem: str) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(InvalidError, match=problem):
        stage.cause(cause, "web_0", notice=notice, force=force)

    assert stage.pending("web") == ()


@pytest.mark.rule("L-05")
@pytest.mark.parametrize(
    ("eviction", "left"),
    [
        pytest.param(EvictionPolicy.DEALLOCATE, ["cheap_0", "cheap_1", "cheap_2"], id="it is kept, stopped"),
        pytest.param(EvictionPolicy.DELETE, ["cheap_1", "cheap_2"], id="it is deleted"),
    ],
)
def test_an_evicted_machine_ends_as_its_eviction_policy_says(
    eviction: EvictionPolicy, left: list[str]
) -> None:
    stage = FleetHarness(replace(SPOT, eviction=eviction))
    (event,) = stage.cause("evict", "cheap_0")

    stage.advance("30s")

    assert stage.status(event) is EventStatus.STARTED

    stage.advance("5s")

    assert stage.status(event) is EventStatus.GONE
    assert stage.machines("cheap") == left
    machines = stage.scope("cheap").machines
    assert all(one.power is PowerState.RUNNING for one in machines.values() if one.name != "cheap_0")
    assert VmName("cheap_0") not in machines or stage.machine("cheap_0").power is PowerState.STOPPED


@pytest.mark.rule("L-02")
def test_an_eviction_starts_early_when_approved() -> None:
    stage = FleetHarness(SPOT)
    (event,) = stage.cause("evict", "cheap_0")

    stage.approve(event, by="cheap_0")

    assert stage.status(event) is EventStatus.STARTED


@pytest.mark.parametrize("cause", ["evict", "rebalance"])
def test_only_spot_machines_can_be_evicted(cause: str) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(NotSpotError, match="web_0 is not a Spot machine"):
        stage.cause(cause, "web_0")


def test_a_rebalance_recommendation_passes_without_an_impact() -> None:
    stage = FleetHarness(SPOT)
    (event,) = stage.cause("rebalance", "cheap_0")

    stage.advance("15m")

    assert stage.story(event) == ["scheduled", "cancelled"]
    assert stage.machine("cheap_0").power is PowerState.RUNNING


@pytest.mark.rule("L-20")
@pytest.mark.parametrize("cause", ["restart", "reimage", "evict"])
def test_what_is_stopped_is_neither_restarted_nor_reimaged_nor_evicted(cause: str) -> None:
    stage = FleetHarness(Blueprint(name="cheap", spot=True))
    stage.stop("cheap_0")

    with pytest.raises(NotRunningError, match="cheap_0 is stopped"):
        stage.cause(cause, "cheap_0")


@pytest.mark.rule("L-20")
def test_a_stopped_machine_is_redeployed_with_notice_to_its_scope_and_stays_stopped() -> None:
    stage = FleetHarness(WEB)
    stage.stop("web_0")
    before = stage.machine("web_0")

    (event,) = stage.cause("redeploy", "web_0")

    assert stage.status(event) is EventStatus.SCHEDULED

    stage.approve(event, by="web_1")
    stage.advance("5s")

    assert stage.story(event) == ["scheduled", "approved", "started", "finished"]
    after = stage.machine("web_0")
    assert after.power is PowerState.STOPPED
    assert after.host != before.host


@pytest.mark.rule("L-20")
@pytest.mark.rule("T-21")
def test_a_stopped_machine_that_is_alone_is_redeployed_at_once() -> None:
    stage = FleetHarness(Blueprint(name="db", kind=ScopeKind.STANDALONE))
    stage.stop("db")

    (event,) = stage.cause("redeploy", "db")

    assert stage.status(event) is EventStatus.STARTED
