"""The life of events: notice, approval, impact, and the number of the document (L rules, R-16 to R-19)."""

from dataclasses import replace

import pytest

from fairwarning.core.causes import CAUSES, Text
from fairwarning.core.errors import AlreadyUnderWay, Invalid, NotSpot, TooManyUserEvents, UnknownEvent
from fairwarning.core.model import Approvals, Eviction, HostId, Kind, Power, ScopeKind, Source, Status, VmName
from fairwarning.core.policy import PROFILES, Policy
from fairwarning.core.scope import Blueprint
from fairwarning.drivers.simulated import Mishap
from tests.stage import NOON, Stage, span

WEB = Blueprint(name="web", count=3)
SPOT = Blueprint(name="cheap", count=3, spot=True)
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)


# -- statuses and notice


@pytest.mark.rule("L-01")
def test_a_guest_sees_scheduled_then_started_then_nothing() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")
    seen = [[one.status for one in stage.shown("web_1")]]

    for _ in range(2):
        stage.wait_until(stage.engine.next_deadline() or NOON)
        seen.append([one.status for one in stage.shown("web_1")])

    assert seen == [[Status.SCHEDULED], [Status.STARTED], []]
    assert stage.story(event) == ["scheduled", "started", "finished"]


@pytest.mark.rule("L-05")
@pytest.mark.parametrize(
    ("blueprint", "cause", "notice"),
    [
        pytest.param(WEB, "freeze", "15m", id="a Freeze is announced 15 minutes ahead"),
        pytest.param(WEB, "live-migrate", "15m", id="a live migration is announced 15 minutes ahead"),
        pytest.param(WEB, "host-update", "15m", id="a host update is announced 15 minutes ahead"),
        pytest.param(WEB, "host-reboot", "15m", id="a platform Reboot is announced 15 minutes ahead"),
        pytest.param(WEB, "restart", "15m", id="a user Reboot is announced 15 minutes ahead"),
        pytest.param(WEB, "redeploy", "10m", id="a user Redeploy is announced 10 minutes ahead"),
        pytest.param(WEB, "platform-redeploy", "15m", id="a platform Redeploy takes 15 minutes"),
        pytest.param(WEB, "predicted-failure", "7d", id="a predicted failure is announced a week ahead"),
        pytest.param(SPOT, "evict", "30s", id="a Preempt is announced 30 seconds ahead"),
        pytest.param(
            replace(WEB, terminate_notice=span("7m")), "delete", "7m", id="a Terminate as its profile says"
        ),
    ],
)
def test_not_before_is_creation_plus_the_notice_of_its_kind(
    blueprint: Blueprint, cause: str, notice: str
) -> None:
    stage = Stage(blueprint)

    (event,) = stage.cause(cause, f"{blueprint.name}_0")

    assert stage.event(event).status is Status.SCHEDULED
    assert stage.event(event).not_before == NOON + span(notice)


@pytest.mark.rule("L-02")
@pytest.mark.rule("T-13")
@pytest.mark.parametrize("cause", ["restart", "freeze", "redeploy", "evict", "predicted-failure"])
def test_an_event_never_starts_before_its_time_and_always_at_it(cause: str) -> None:
    stage = Stage(SPOT)
    (event,) = stage.cause(cause, "cheap_0")
    not_before = stage.event(event).not_before

    stage.wait_until(not_before - span("1ms"))

    assert stage.status(event) is Status.SCHEDULED

    stage.wait_until(not_before)

    assert stage.event(event).started_at == not_before


@pytest.mark.rule("L-05")
def test_an_operator_may_ask_for_another_notice() -> None:
    stage = Stage(WEB)

    (event,) = stage.cause("restart", "web_0", notice="40s")

    assert stage.event(event).not_before == NOON + span("40s")


@pytest.mark.rule("L-05")
def test_not_before_is_a_whole_second_never_too_early_and_true() -> None:
    stage = Stage(WEB, start=NOON + span("400ms"))
    (event,) = stage.cause("restart", "web_0")

    not_before = stage.event(event).not_before
    stage.wait_until(not_before)

    assert not_before == NOON + span("15m1s")
    assert stage.event(event).started_at == not_before


@pytest.mark.rule("L-05")
@pytest.mark.parametrize(
    ("speed", "start", "lasts"),
    [
        pytest.param(60, "15s", "10s", id="an hour a minute"),
        pytest.param(600, "2s", "1s", id="ten minutes a second, rounded up to what the wire can say"),
    ],
)
def test_speed_shortens_notice_and_impact_alike(speed: float, start: str, lasts: str) -> None:
    stage = Stage(WEB, policy=Policy(speed=speed), azure_timings=True)
    (event,) = stage.cause("restart", "web_0")

    stage.wait_until(NOON + span(start))

    assert stage.event(event).started_at == NOON + span(start)
    assert stage.engine.next_deadline() == NOON + span(start) + span(lasts)


@pytest.mark.rule("L-03")
@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01"])
def test_a_started_event_has_an_empty_not_before(version: str) -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event, by="web_0")

    assert b'"EventStatus":"Started"' in stage.document("web_0", version)
    assert b'"NotBefore":""' in stage.document("web_0", version)


@pytest.mark.rule("L-18")
def test_nothing_moves_an_events_not_before() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")
    promised = stage.event(event).not_before

    stage.advance("1m")
    stage.cause("freeze", "web_0")
    stage.poll("web_2")
    stage.engine.set_speed(10)
    stage.restart()

    assert stage.event(event).not_before == promised


@pytest.mark.rule("L-18")
def test_there_is_no_second_event_to_extend_the_first() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("10m")

    with pytest.raises(AlreadyUnderWay):
        stage.cause("restart", "web_0")

    assert stage.event(event).not_before == NOON + span("15m")


# -- approval


@pytest.mark.rule("R-18")
@pytest.mark.parametrize("approver", ["app-0", "app-1"])
def test_any_machine_of_the_scope_approves_for_every_resource(approver: str) -> None:
    stage = Stage(PAIR)
    (event,) = stage.cause("freeze", "app-0", "app-1")

    stage.approve(event, by=approver)

    assert stage.event(event).status is Status.STARTED
    assert stage.event(event).resources == ("app-0", "app-1")
    assert stage.event(event).approved_by == approver


@pytest.mark.rule("R-18")
def test_a_machine_approves_an_event_it_is_no_part_of() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event, by="web_2")

    assert stage.status(event) is Status.STARTED


@pytest.mark.rule("R-16")
@pytest.mark.rule("R-18")
def test_to_a_machine_of_another_scope_the_event_does_not_exist() -> None:
    stage = Stage(WEB, PAIR)
    (event,) = stage.cause("restart", "web_0")

    with pytest.raises(UnknownEvent, match=f"no scheduled event has the id {event}"):
        stage.approve(event, by="app-0")

    assert stage.status(event) is Status.SCHEDULED


@pytest.mark.rule("R-16")
def test_one_bad_id_and_nothing_is_approved() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")

    with pytest.raises(UnknownEvent):
        stage.approve(event, "00000000-0000-0000-0000-000000000000", by="web_0")

    assert stage.status(event) is Status.SCHEDULED
    assert stage.event(event).approved_by is None


@pytest.mark.rule("R-16")
def test_an_event_that_has_left_the_document_cannot_be_approved() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("20m")

    with pytest.raises(UnknownEvent):
        stage.approve(event, by="web_0")


@pytest.mark.rule("R-17")
def test_approving_twice_counts_once() -> None:
    stage = Stage(WEB)
    first, second = stage.cause("restart", "web_0", "web_1")
    stage.approve(first, by="web_0")
    version = stage.scope("web").version

    stage.approve(first, first, by="web_1")

    assert stage.story(first) == ["scheduled", "approved", "started"]
    assert stage.event(first).approved_by == "web_0"
    assert stage.scope("web").version == version
    assert stage.status(second) is Status.SCHEDULED


@pytest.mark.rule("R-19")
def test_an_approval_alone_changes_nothing_a_guest_can_see() -> None:
    stage = Stage(replace(WEB, terminate_notice=span("5m")))
    first, _ = stage.cause("delete", "web_1", "web_2")
    before = stage.document("web_0")

    stage.approve(first, by="web_1")

    assert stage.event(first).approved_by == "web_1"
    assert stage.document("web_0") == before


@pytest.mark.rule("V-09")
def test_an_event_is_known_by_its_id_in_any_case() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event.lower(), by="web_0")

    assert stage.status(event) is Status.STARTED


# -- the impact


@pytest.mark.rule("L-04")
def test_an_event_stays_started_until_every_machine_has_had_its_impact() -> None:
    stage = Stage(PAIR)
    stage.break_machine("app-1", Mishap.FAILS)
    (event,) = stage.cause("host-update", "app-0", "app-1")
    stage.approve(event, by="app-0")

    stage.advance("30s")

    assert stage.status(event) is Status.STARTED
    assert stage.event(event).done == ("app-0",)

    stage.advance("35s")

    assert stage.status(event) is Status.GONE


@pytest.mark.rule("L-04")
def test_after_removal_nothing_more_happens() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("redeploy", "web_0")
    stage.advance("11m")
    moved_to = stage.machine("web_0").host

    stage.advance("23h")

    assert stage.story(event) == ["scheduled", "started", "finished"]
    assert stage.machine("web_0").host == moved_to


@pytest.mark.rule("L-04")
def test_a_redeployed_machine_is_on_another_host() -> None:
    stage = Stage(WEB)
    host = stage.machine("web_0").host
    (event,) = stage.cause("redeploy", "web_0")

    stage.approve(event, by="web_0")
    stage.advance("5s")

    assert stage.machine("web_0").host not in (host, stage.machine("web_1").host)


@pytest.mark.parametrize("mishap", [Mishap.FAILS, Mishap.LIES, Mishap.HANGS])
def test_an_impact_that_goes_wrong_is_noted_and_tried_again_until_it_is_true(mishap: Mishap) -> None:
    stage = Stage(WEB)
    stage.break_machine("web_0", mishap, attempts=3)
    (event,) = stage.cause("restart", "web_0")
    stage.approve(event, by="web_0")
    started = stage.incarnation("web")

    while stage.event(event).attempt < 3:
        stage.wait_until(stage.engine.next_deadline() or NOON)

        assert stage.status(event) is Status.STARTED
        assert stage.incarnation("web") == started

    stage.advance("1h")

    story = stage.story(event)
    assert story == ["scheduled", "approved", "started", "failed", "failed", "failed", "finished"]
    assert all("web_0: " in line.reason for line in stage.history(event) if line.kind == "failed")


def test_retries_rest_longer_each_time() -> None:
    stage = Stage(WEB)
    stage.break_machine("web_0", Mishap.FAILS, attempts=5)
    (event,) = stage.cause("restart", "web_0")

    stage.advance("2h")

    failures = [line.at for line in stage.history(event) if line.kind == "failed"]
    rests = [later - earlier for earlier, later in zip(failures, failures[1:], strict=False)]
    assert rests == [span("10s"), span("15s"), span("25s"), span("45s")]


def test_an_impact_that_never_succeeds_never_completes() -> None:
    stage = Stage(WEB, policy=Policy(disable_after=None))
    stage.break_machine("web_0", Mishap.LIES, attempts=1_000_000)
    (event,) = stage.cause("restart", "web_0")

    stage.advance("1d")

    assert stage.status(event) is Status.STARTED
    assert stage.event(event).attempt > 100


def test_a_machine_deleted_under_a_pending_event_takes_the_event_with_it() -> None:
    stage = Stage(WEB)
    (restart,) = stage.cause("restart", "web_0")

    stage.cause("delete", "web_0")
    stage.advance("5s")

    assert stage.machines("web") == ["web_1", "web_2"]
    assert stage.story(restart) == ["scheduled", "cancelled"]


def test_a_machine_deleted_under_a_shared_event_leaves_the_event_to_the_others() -> None:
    stage = Stage(PAIR)
    stage.break_machine("app-1", Mishap.HANGS)
    (event,) = stage.cause("host-update", "app-0", "app-1")
    stage.approve(event, by="app-1")

    stage.cause("delete", "app-0")
    stage.advance("1m")

    assert stage.machines("app") == ["app-1"]
    assert stage.status(event) is Status.STARTED

    stage.advance("10m")

    assert stage.story(event) == ["scheduled", "approved", "started", "failed", "finished"]


# -- sudden, far away, withdrawn


@pytest.mark.rule("L-06")
@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        pytest.param(None, Kind.REDEPLOY, id="a Redeploy by default"),
        pytest.param(Kind.REBOOT, Kind.REBOOT, id="a Reboot by choice"),
    ],
)
def test_a_hardware_failure_arrives_started(asked: Kind | None, kind: Kind) -> None:
    stage = Stage(WEB)

    (event,) = stage.cause("hardware-failure", "web_1", kind=asked)

    (shown,) = stage.shown("web_0")
    assert (shown.id, shown.status, shown.kind) == (event, Status.STARTED, kind)
    assert b'"NotBefore":""' in stage.document("web_0")
    assert stage.story(event) == ["started"]


@pytest.mark.rule("L-06")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        pytest.param("hardware-failure", Kind.TERMINATE, id="a failure deletes nothing"),
        pytest.param("restart", Kind.FREEZE, id="only a hardware failure leaves a choice"),
    ],
)
def test_a_kind_that_makes_no_sense_is_refused(cause: str, kind: Kind) -> None:
    stage = Stage(WEB)

    with pytest.raises(Invalid, match="kind: "):
        stage.cause(cause, "web_1", kind=kind)


@pytest.mark.rule("L-06")
def test_a_predicted_failure_is_announced_a_week_ahead_and_survives_silence() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("predicted-failure", "web_0")

    stage.advance("6d23h59m59s")

    assert stage.status(event) is Status.SCHEDULED

    stage.advance("1s")

    assert stage.status(event) is Status.STARTED


@pytest.mark.rule("L-06")
def test_maintenance_found_too_risky_vanishes_after_eight_minutes() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("cancelled-maintenance", "web_0")

    stage.advance("7m59s")

    assert [one.status for one in stage.shown("web_0")] == [Status.SCHEDULED]

    stage.advance("1s")

    assert stage.shown("web_0") == ()
    assert stage.story(event) == ["scheduled", "cancelled"]


@pytest.mark.rule("L-06")
def test_an_operator_withdraws_what_has_not_started() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("freeze", "web_0")

    stage.cancel(event)
    stage.advance("1h")

    assert stage.story(event) == ["scheduled", "cancelled"]


@pytest.mark.rule("L-01")
def test_what_has_started_cannot_be_withdrawn() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("hardware-failure", "web_0")

    with pytest.raises(Exception, match="is Started; it cannot be cancelled"):
        stage.cancel(event)

    assert stage.story(event) == ["started", "refused"]


# -- what each cause announces


@pytest.mark.rule("L-07")
@pytest.mark.parametrize(
    ("cause", "kind", "source", "duration", "scheduled", "started", "text"),
    [
        ("live-migrate", Kind.FREEZE, Source.PLATFORM, 5, "15m", "5m", Text.LIVE_MIGRATION),
        ("freeze", Kind.FREEZE, Source.PLATFORM, 9, "15m", "10m", Text.HOST),
        ("host-update", Kind.FREEZE, Source.PLATFORM, 30, "15m", "8m", Text.HOST),
        ("restart", Kind.REBOOT, Source.USER, -1, "15m", "10m", Text.RESTART),
        ("redeploy", Kind.REDEPLOY, Source.USER, -1, "10m", "10m", Text.REDEPLOY),
        ("hardware-failure", Kind.REDEPLOY, Source.PLATFORM, -1, "0s", "10m", Text.FAILURE),
        ("platform-redeploy", Kind.REDEPLOY, Source.PLATFORM, -1, "15m", "10m", Text.FAILURE),
        ("evict", Kind.PREEMPT, Source.PLATFORM, -1, "30s", "30s", Text.NOTHING),
    ],
)
def test_a_scenario_takes_as_long_as_it_does_on_azure(
    cause: str, kind: Kind, source: Source, duration: int, scheduled: str, started: str, text: Text
) -> None:
    stage = Stage(SPOT, azure_timings=True)
    (event_id,) = stage.cause(cause, "cheap_0")
    event = stage.event(event_id)

    stage.advance("1h")

    at = {line.kind: line.at for line in stage.history(event_id)}
    assert (event.kind, event.source, event.duration, event.description) == (kind, source, duration, text)
    assert at["started"] == NOON + span(scheduled)
    assert at["finished"] == at["started"] + span(started)


@pytest.mark.rule("L-08")
def test_every_description_is_one_of_the_exact_texts_and_present_even_when_empty() -> None:
    stage = Stage(SPOT)
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
def test_users_are_behind_restart_redeploy_and_delete_and_behind_nothing_else() -> None:
    users = {name for name, cause in CAUSES.items() if cause.source is Source.USER}

    assert users == {"restart", "redeploy", "delete"}


@pytest.mark.rule("L-10")
def test_only_a_freeze_knows_how_long_it_interrupts() -> None:
    known = {cause.kind for cause in CAUSES.values() if cause.duration != -1}

    assert known == {Kind.FREEZE}
    assert all(cause.duration > 0 for cause in CAUSES.values() if cause.kind is Kind.FREEZE)


@pytest.mark.rule("L-14")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [("restart", Kind.REBOOT), ("redeploy", Kind.REDEPLOY), ("evict", Kind.PREEMPT)],
)
def test_a_user_operation_makes_its_kind_of_event(cause: str, kind: Kind) -> None:
    stage = Stage(SPOT)

    (event,) = stage.cause(cause, "cheap_0")

    assert stage.event(event).kind is kind


@pytest.mark.rule("L-14")
@pytest.mark.rule("T-09")
def test_stopping_growing_and_updating_make_no_event() -> None:
    stage = Stage(replace(WEB, terminate_notice=span("5m")))

    stage.stop("web_0")
    stage.grow("web")
    stage.change_notice("web", "10m")
    stage.upgrade("web_1")

    assert stage.pending("web") == ()
    assert stage.incarnation("web") == 1


# -- the number of the document


@pytest.mark.rule("L-11")
def test_the_number_starts_at_one_and_moves_exactly_with_the_document() -> None:
    stage = Stage(WEB)
    numbers = [stage.incarnation("web")]
    (event,) = stage.cause("restart", "web_0")
    numbers.append(stage.incarnation("web"))

    stage.poll("web_1")
    stage.approve(event, by="web_1")
    numbers.append(stage.incarnation("web"))
    stage.advance("4s")
    numbers.append(stage.incarnation("web"))
    stage.advance("1s")
    numbers.append(stage.incarnation("web"))

    assert numbers == [1, 2, 3, 3, 4]


@pytest.mark.rule("L-11")
def test_the_number_survives_a_restart() -> None:
    stage = Stage(WEB)
    stage.cause("restart", "web_0")
    stage.advance("1h")
    before = stage.document("web_0")

    stage.restart()

    assert stage.document("web_0") == before
    assert stage.incarnation("web") == 4


@pytest.mark.rule("L-11")
def test_what_nobody_sees_moves_no_number() -> None:
    stage = Stage(WEB, watched=False)

    stage.cause("restart", "web_0")
    stage.cause("freeze", "web_1")
    stage.advance("1h")

    assert stage.incarnation("web") == 1


# -- several at once


@pytest.mark.rule("L-12")
def test_one_operation_on_one_host_is_one_event() -> None:
    stage = Stage(replace(WEB, count=7))

    shared, single = stage.cause("freeze", "web_0", "web_1", "web_5")

    assert stage.event(shared).resources == ("web_0", "web_5")
    assert stage.event(single).resources == ("web_1",)


@pytest.mark.rule("L-12")
def test_restarting_several_machines_of_one_host_is_an_event_each() -> None:
    stage = Stage(replace(WEB, host=HostId("rack-7")))

    events = stage.cause("restart", "web_0", "web_1", "web_2")

    assert [stage.event(one).resources for one in events] == [("web_0",), ("web_1",), ("web_2",)]


@pytest.mark.rule("L-13")
def test_several_events_stand_side_by_side_in_the_order_they_were_made() -> None:
    stage = Stage(WEB)
    (freeze,) = stage.cause("freeze", "web_0")
    restarts = stage.cause("restart", "web_2", "web_0")

    shown = stage.shown("web_1")

    assert [event.id for event in shown] == [freeze, *restarts]
    assert len({event.not_before for event in shown}) == 1


# -- limits and refusals


@pytest.mark.rule("L-16")
def test_the_preview_allows_ten_unfinished_user_events_in_a_scope() -> None:
    stage = Stage(replace(WEB, count=12), policy=PROFILES["preview2017"].policy)
    events = stage.cause("restart", *(f"web_{number}" for number in range(10)))

    with pytest.raises(TooManyUserEvents, match="scope web has 10 user operations under way") as refusal:
        stage.cause("restart", "web_10")

    assert refusal.value.status_hint == 409

    stage.cause("freeze", "web_10")
    stage.approve(events[0], by="web_0")
    stage.advance("5s")

    assert stage.cause("restart", "web_10") != ()


@pytest.mark.rule("L-16")
def test_asking_for_too_many_at_once_makes_none() -> None:
    stage = Stage(replace(WEB, count=12), policy=PROFILES["preview2017"].policy)

    with pytest.raises(TooManyUserEvents):
        stage.cause("restart", *stage.machines("web"))

    assert stage.pending("web") == ()


@pytest.mark.rule("L-16")
def test_today_there_is_no_limit() -> None:
    stage = Stage(replace(WEB, count=150))

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
def test_a_second_operation_of_the_same_kind_is_refused_until_the_first_is_done(
    first: str, second: str
) -> None:
    stage = Stage(SPOT)
    (event,) = stage.cause(first, "cheap_0")

    with pytest.raises(AlreadyUnderWay, match=f"event {event} is Scheduled") as refusal:
        stage.cause(second, "cheap_0")

    assert refusal.value.status_hint == 409
    assert [one.id for one in stage.pending("cheap")] == [event]


@pytest.mark.parametrize(
    ("cause", "machines", "notice", "problem"),
    [
        pytest.param("explode", ("web_0",), None, "cause: 'explode' is none of restart", id="no such cause"),
        pytest.param("restart", (), None, "machines: name at least one", id="nobody named"),
        pytest.param("restart", ("web_0", "web_0"), None, "machines: .* named twice", id="a machine twice"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    cause: str, machines: tuple[str, ...], notice: str | None, problem: str
) -> None:
    stage = Stage(WEB)

    with pytest.raises(Invalid, match=problem):
        stage.cause(cause, *machines, notice=notice)


# -- automatic approval


@pytest.mark.rule("L-17")
@pytest.mark.parametrize(
    ("approvals", "cause", "status"),
    [
        pytest.param(Approvals(user_reboot=True), "restart", Status.STARTED, id="a user's restart is waived"),
        pytest.param(Approvals(user_reboot=True), "redeploy", Status.SCHEDULED, id="a redeploy is not meant"),
        pytest.param(Approvals(user_redeploy=True), "redeploy", Status.STARTED, id="a redeploy is waived"),
        pytest.param(Approvals(user_redeploy=True), "restart", Status.SCHEDULED, id="a restart is not meant"),
        pytest.param(Approvals(user_reboot=True), "host-reboot", Status.SCHEDULED, id="the platform waits"),
    ],
)
def test_a_scope_may_waive_the_notice_of_its_users_operations(
    approvals: Approvals, cause: str, status: Status
) -> None:
    stage = Stage(WEB)
    stage.set_approvals("web", approvals)

    (event,) = stage.cause(cause, "web_0")

    assert [(one.id, one.status) for one in stage.shown("web_0")] == [(event, status)]


# -- Spot machines


@pytest.mark.rule("L-05")
@pytest.mark.parametrize(
    ("eviction", "left"),
    [
        pytest.param(Eviction.DEALLOCATE, ["cheap_0", "cheap_1", "cheap_2"], id="it is kept, stopped"),
        pytest.param(Eviction.DELETE, ["cheap_1", "cheap_2"], id="it is deleted"),
    ],
)
def test_an_evicted_machine_ends_as_its_eviction_policy_says(eviction: Eviction, left: list[str]) -> None:
    stage = Stage(replace(SPOT, eviction=eviction))
    (event,) = stage.cause("evict", "cheap_0")

    stage.advance("30s")

    assert stage.status(event) is Status.STARTED

    stage.advance("5s")

    assert stage.status(event) is Status.GONE
    assert stage.machines("cheap") == left
    machines = stage.scope("cheap").machines
    assert all(one.power is Power.RUNNING for one in machines.values() if one.name != "cheap_0")
    assert VmName("cheap_0") not in machines or stage.machine("cheap_0").power is Power.STOPPED


@pytest.mark.rule("L-02")
def test_an_eviction_starts_early_when_approved() -> None:
    stage = Stage(SPOT)
    (event,) = stage.cause("evict", "cheap_0")

    stage.approve(event, by="cheap_0")

    assert stage.status(event) is Status.STARTED


@pytest.mark.parametrize("cause", ["evict", "rebalance"])
def test_only_spot_machines_can_be_evicted(cause: str) -> None:
    stage = Stage(WEB)

    with pytest.raises(NotSpot, match="web_0 is not a Spot machine"):
        stage.cause(cause, "web_0")


def test_a_rebalance_recommendation_passes_without_an_impact() -> None:
    stage = Stage(SPOT)
    (event,) = stage.cause("rebalance", "cheap_0")

    stage.advance("15m")

    assert stage.story(event) == ["scheduled", "cancelled"]
    assert stage.machine("cheap_0").power is Power.RUNNING


# -- nobody listens


@pytest.mark.rule("R-23")
@pytest.mark.parametrize("cause", ["restart", "redeploy", "delete"])
def test_while_nobody_polls_a_users_operation_acts_at_once_and_unseen(cause: str) -> None:
    stage = Stage(replace(WEB, terminate_notice=span("5m")), watched=False)

    (event,) = stage.cause(cause, "web_0")

    assert stage.status(event) is Status.STARTED
    assert stage.shown("web_0") == ()

    stage.poll("web_1")

    assert stage.shown("web_1") == ()

    stage.advance("5s")

    assert stage.story(event) == ["started", "finished"]


@pytest.mark.rule("R-23")
def test_while_nobody_polls_the_platform_acts_at_its_time_unseen() -> None:
    stage = Stage(WEB, watched=False)
    (freeze,) = stage.cause("freeze", "web_1")

    stage.advance("15m9s")

    at = {line.kind: line.at for line in stage.history(freeze)}
    assert at == {"scheduled": NOON, "started": NOON + span("15m"), "finished": NOON + span("15m9s")}
    assert stage.incarnation("web") == 1


@pytest.mark.rule("R-21")
def test_what_the_platform_has_announced_to_nobody_is_shown_to_the_first_who_asks() -> None:
    stage = Stage(WEB, watched=False)
    (event,) = stage.cause("freeze", "web_0")
    stage.advance("5m")

    stage.poll("web_2")

    (shown,) = stage.shown("web_2")
    assert (shown.id, shown.status, shown.not_before) == (event, Status.SCHEDULED, NOON + span("15m"))
    assert stage.incarnation("web") == 2


@pytest.mark.rule("R-16")
def test_what_nobody_is_shown_nobody_can_approve() -> None:
    stage = Stage(WEB, watched=False)
    (event,) = stage.cause("freeze", "web_0")

    with pytest.raises(UnknownEvent):
        stage.approve(event, by="web_0")


@pytest.mark.rule("R-23")
def test_a_terminate_delay_may_be_kept_even_while_nobody_polls() -> None:
    blueprint = replace(WEB, terminate_notice=span("5m"))
    stage = Stage(blueprint, policy=Policy(terminate_requires_enabled=False), watched=False)

    (event,) = stage.cause("delete", "web_0")

    assert stage.status(event) is Status.SCHEDULED
    assert stage.shown("web_0") == ()
