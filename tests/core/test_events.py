"""The life of an event as guests see it: notice, approval, start, and the number of the document."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import AlreadyUnderWayError, UnknownEventError
from fairwarning.core.model import EventStatus, HostId, ScopeKind
from fairwarning.core.policy import Policy
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=3)
SPOT = Blueprint(name="cheap", count=3, spot=True)
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)


@pytest.mark.rule("L-01")
def test_a_guest_sees_scheduled_then_started_then_nothing() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    seen = [[one.status for one in stage.shown("web_1")]]

    for _ in range(2):
        stage.wait_until(stage.engine.next_deadline() or NOON)
        seen.append([one.status for one in stage.shown("web_1")])

    assert seen == [[EventStatus.SCHEDULED], [EventStatus.STARTED], []]
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
    stage = FleetHarness(blueprint)

    (event,) = stage.cause(cause, f"{blueprint.name}_0")

    assert stage.event(event).status is EventStatus.SCHEDULED
    assert stage.event(event).not_before == NOON + span(notice)


@pytest.mark.rule("L-02")
@pytest.mark.rule("T-13")
@pytest.mark.parametrize("cause", ["restart", "freeze", "redeploy", "evict", "predicted-failure"])
def test_an_event_never_starts_before_its_time_and_always_at_it(cause: str) -> None:
    stage = FleetHarness(SPOT)
    (event,) = stage.cause(cause, "cheap_0")
    not_before = stage.event(event).not_before

    stage.wait_until(not_before - span("1ms"))

    assert stage.status(event) is EventStatus.SCHEDULED

    stage.wait_until(not_before)

    assert stage.event(event).started_at == not_before


@pytest.mark.rule("L-05")
def test_an_operator_may_ask_for_another_notice() -> None:
    stage = FleetHarness(WEB)

    (event,) = stage.cause("restart", "web_0", notice="40s")

    assert stage.event(event).not_before == NOON + span("40s")


@pytest.mark.rule("L-05")
def test_not_before_is_a_whole_second_never_too_early_and_true() -> None:
    stage = FleetHarness(WEB, start=NOON + span("400ms"))
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
    stage = FleetHarness(WEB, policy=Policy(speed=speed), azure_timings=True)
    (event,) = stage.cause("restart", "web_0")

    stage.wait_until(NOON + span(start))

    assert stage.event(event).started_at == NOON + span(start)
    assert stage.engine.next_deadline() == NOON + span(start) + span(lasts)


@pytest.mark.rule("L-03")
@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01"])
def test_a_started_event_has_an_empty_not_before(version: str) -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event, by="web_0")

    assert b'"EventStatus":"Started"' in stage.document("web_0", version)
    assert b'"NotBefore":""' in stage.document("web_0", version)


@pytest.mark.rule("L-18")
def test_nothing_moves_an_events_not_before() -> None:
    stage = FleetHarness(WEB)
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
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("10m")

    with pytest.raises(AlreadyUnderWayError):
        stage.cause("restart", "web_0")

    assert stage.event(event).not_before == NOON + span("15m")


@pytest.mark.rule("R-18")
@pytest.mark.parametrize("approver", ["app-0", "app-1"])
def test_any_machine_of_the_scope_approves_for_every_resource(approver: str) -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("freeze", "app-0", "app-1")

    stage.approve(event, by=approver)

    assert stage.event(event).status is EventStatus.STARTED
    assert stage.event(event).resources == ("app-0", "app-1")
    assert stage.event(event).approved_by == approver


@pytest.mark.rule("R-18")
def test_a_machine_approves_an_event_it_is_no_part_of() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event, by="web_2")

    assert stage.status(event) is EventStatus.STARTED


@pytest.mark.rule("R-16")
@pytest.mark.rule("R-18")
def test_to_a_machine_of_another_scope_the_event_does_not_exist() -> None:
    stage = FleetHarness(WEB, PAIR)
    (event,) = stage.cause("restart", "web_0")

    with pytest.raises(UnknownEventError, match=f"no scheduled event has the id {event}"):
        stage.approve(event, by="app-0")

    assert stage.status(event) is EventStatus.SCHEDULED


@pytest.mark.rule("R-16")
def test_one_bad_id_and_nothing_is_approved() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    with pytest.raises(UnknownEventError):
        stage.approve(event, "00000000-0000-0000-0000-000000000000", by="web_0")

    assert stage.status(event) is EventStatus.SCHEDULED
    assert stage.event(event).approved_by is None


@pytest.mark.rule("R-16")
def test_an_event_that_has_left_the_document_cannot_be_approved() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("20m")

    with pytest.raises(UnknownEventError):
        stage.approve(event, by="web_0")


@pytest.mark.rule("R-17")
def test_approving_twice_counts_once() -> None:
    stage = FleetHarness(WEB)
    first, second = stage.cause("restart", "web_0", "web_1")
    stage.approve(first, by="web_0")
    version = stage.scope("web").version

    stage.approve(first, first, by="web_1")

    assert stage.story(first) == ["scheduled", "approved", "started"]
    assert stage.event(first).approved_by == "web_0"
    assert stage.scope("web").version == version
    assert stage.status(second) is EventStatus.SCHEDULED


@pytest.mark.rule("R-19")
def test_an_approval_alone_changes_nothing_a_guest_can_see() -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")))
    first, _ = stage.cause("delete", "web_1", "web_2")
    before = stage.document("web_0")

    stage.approve(first, by="web_1")

    assert stage.event(first).approved_by == "web_1"
    assert stage.document("web_0") == before


@pytest.mark.rule("V-09")
def test_an_event_is_known_by_its_id_in_any_case() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.approve(event.lower(), by="web_0")

    assert stage.status(event) is EventStatus.STARTED


@pytest.mark.rule("L-11")
def test_the_number_starts_at_one_and_moves_exactly_with_the_document() -> None:
    stage = FleetHarness(WEB)
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
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("1h")
    before = stage.document("web_0")

    stage.restart()

    assert stage.document("web_0") == before
    assert stage.incarnation("web") == 4


@pytest.mark.rule("L-11")
def test_a_change_that_no_guest_sees_keeps_the_incarnation() -> None:
    stage = FleetHarness(WEB, watched=False)

    stage.cause("restart", "web_0")
    stage.cause("freeze", "web_1")
    stage.advance("1h")

    assert stage.incarnation("web") == 1


@pytest.mark.rule("L-12")
def test_one_operation_on_one_host_is_one_event() -> None:
    stage = FleetHarness(replace(WEB, count=7))

    shared, single = stage.cause("freeze", "web_0", "web_1", "web_5")

    assert stage.event(shared).resources == ("web_0", "web_5")
    assert stage.event(single).resources == ("web_1",)


@pytest.mark.rule("L-12")
def test_restarting_several_machines_of_one_host_is_an_event_each() -> None:
    stage = FleetHarness(replace(WEB, host=HostId("rack-7")))

    events = stage.cause("restart", "web_0", "web_1", "web_2")

    assert [stage.event(one).resources for one in events] == [("web_0",), ("web_1",), ("web_2",)]


@pytest.mark.rule("L-13")
def test_several_events_stand_side_by_side_in_the_order_they_were_made() -> None:
    stage = FleetHarness(WEB)
    (freeze,) = stage.cause("freeze", "web_0")
    restarts = stage.cause("restart", "web_2", "web_0")

    shown = stage.shown("web_1")

    assert [event.id for event in shown] == [freeze, *restarts]
    assert len({event.not_before for event in shown}) == 1
