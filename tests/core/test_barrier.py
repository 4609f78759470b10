"""When events start: alone, with the events of one host, with the deletes of one scale set."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.control.control import Control
from fairwarning.core.barrier import startable_events
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    HostId,
    ScopeId,
    ScopeKind,
    VmName,
)
from tests.fleet_harness import NOON, FleetHarness, span

SHARED = BarrierId("deletes:web")
TENANTS = (
    Blueprint(name="red", kind=ScopeKind.STANDALONE, host=HostId("rack-7")),
    Blueprint(name="blue", kind=ScopeKind.STANDALONE, host=HostId("rack-7")),
    Blueprint(name="green", kind=ScopeKind.STANDALONE, host=HostId("rack-7")),
)


def waiting(name: str, not_before: datetime, approved: bool, barrier: BarrierId = SHARED) -> Event:
    return Event(
        id=EventId(name),
        scope=ScopeId("web"),
        cause="delete",
        kind=EventType.TERMINATE,
        source=EventSource.USER,
        resources=(VmName(name),),
        description="",
        duration=-1,
        created_at=NOON,
        not_before=not_before,
        barrier=barrier,
        approved_by=name if approved else None,
    )


def pending(rows: Mapping[str, tuple[str, bool]]) -> list[Event]:
    return [waiting(name, NOON + span(notice), approved) for name, (notice, approved) in rows.items()]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize(
    ("events", "after", "starting"),
    [
        pytest.param({"1": ("5m", False), "2": ("6m", True)}, "1m", [], id="one approval of two holds both"),
        pytest.param({"1": ("5m", True), "2": ("6m", True)}, "1m", ["1", "2"], id="both approved start both"),
        pytest.param(
            {"1": ("5m", False), "2": ("6m", True)}, "5m", ["1", "2"], id="the unapproved one runs out"
        ),
        pytest.param({"1": ("5m", True), "2": ("6m", False)}, "5m", ["1"], id="its own time is up first"),
        pytest.param({"1": ("5m", False), "2": ("5m", False)}, "4m59s", [], id="no approval and notice left"),
        pytest.param({"1": ("5m", False), "2": ("5m", False)}, "5m", ["1", "2"], id="both run out together"),
    ],
)
def test_a_barrier_releases(
    events: Mapping[str, tuple[str, bool]], after: str, starting: Sequence[str]
) -> None:
    assert [event.id for event in startable_events(pending(events), NOON + span(after))] == starting


def test_events_behind_different_barriers_do_not_wait_for_each_other() -> None:
    held = waiting("1", NOON + span("5m"), approved=False)
    free = waiting("2", NOON + span("5m"), approved=True, barrier=BarrierId("event:2"))

    assert startable_events([held, free], NOON) == (free,)


@pytest.mark.rule("L-02")
@pytest.mark.rule("T-14")
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=6), st.integers(0, 6))
def test_whatever_waits_behind_a_barrier_starts_as_the_formula_says(
    rows: Sequence[tuple[int, bool]], minute: int
) -> None:
    now = NOON + span(f"{minute}m")
    events = [
        waiting(str(number), NOON + span(f"{notice}m"), approved)
        for number, (notice, approved) in enumerate(rows)
    ]

    starting = startable_events(events, now)

    for event in events:
        due = event.not_before <= now
        allowed = event.approved_by is not None and all(
            other.approved_by is not None or other.not_before <= now for other in events
        )
        assert (event in starting) == (due or allowed)


@pytest.mark.rule("L-02")
def test_the_host_waits_until_every_tenant_has_approved() -> None:
    stage = FleetHarness(*TENANTS)
    red, blue, green = stage.cause("host-reboot", "red", "blue", "green")

    stage.approve(red, by="red")
    stage.approve(blue, by="blue")

    assert stage.statuses(red, blue, green) == [EventStatus.SCHEDULED] * 3

    stage.approve(green, by="green")

    assert stage.statuses(red, blue, green) == [EventStatus.STARTED] * 3


@pytest.mark.rule("L-22")
def test_an_approved_event_says_what_it_waits_for() -> None:
    stage = FleetHarness(*TENANTS)
    red, blue, green = stage.cause("host-reboot", "red", "blue", "green")
    control = Control(stage.engine)

    stage.approve(red, by="red")
    first = control.waits_for([stage.event(red), stage.event(blue)])
    stage.approve(blue, by="blue")
    second = control.waits_for([stage.event(red)])
    stage.approve(green, by="green")
    third = control.waits_for([stage.event(red)])

    assert first == {red: "2 other events on host rack-7"}
    assert second == dict.fromkeys((red, blue), "1 other event on host rack-7")
    assert third == {}


@pytest.mark.rule("L-22")
def test_an_approved_delete_says_that_it_waits_for_other_deletes() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    first, _ = stage.cause("delete", "web_0", "web_1")

    stage.approve(first, by="web_0")

    assert Control(stage.engine).waits_for([stage.event(first)]) == {first: "1 other delete of web"}


@pytest.mark.rule("L-02")
def test_the_host_waits_for_a_silent_tenant_no_longer_than_its_notice() -> None:
    stage = FleetHarness(*TENANTS)
    events = stage.cause("host-reboot", "red", "blue", "green")
    stage.approve(events[0], by="red")

    stage.advance("14m59s")

    assert stage.statuses(*events) == [EventStatus.SCHEDULED] * 3

    stage.advance("1s")

    assert stage.statuses(*events) == [EventStatus.STARTED] * 3


@pytest.mark.rule("L-02")
def test_a_cancelled_event_holds_up_no_other_event_of_the_host() -> None:
    stage = FleetHarness(*TENANTS)
    red, blue, green = stage.cause("host-reboot", "red", "blue", "green")
    stage.approve(red, by="red")
    stage.approve(blue, by="blue")

    stage.cancel(green)

    assert stage.statuses(red, blue, green) == [EventStatus.STARTED, EventStatus.STARTED, EventStatus.GONE]


@pytest.mark.rule("L-02")
def test_two_maintenances_of_one_host_do_not_wait_for_each_other() -> None:
    stage = FleetHarness(*TENANTS)
    (red,) = stage.cause("host-reboot", "red")
    (blue,) = stage.cause("host-reboot", "blue")

    stage.approve(red, by="red")

    assert stage.statuses(red, blue) == [EventStatus.STARTED, EventStatus.SCHEDULED]


@pytest.mark.rule("L-02")
def test_a_barrier_across_scopes_survives_a_restart() -> None:
    stage = FleetHarness(*TENANTS)
    red, blue, green = stage.cause("host-reboot", "red", "blue", "green")
    stage.approve(red, by="red")
    stage.approve(blue, by="blue")

    stage.restart()
    stage.approve(green, by="green")

    assert stage.statuses(red, blue, green) == [EventStatus.STARTED] * 3


@pytest.mark.rule("R-18")
def test_a_tenant_neither_sees_nor_approves_its_neighbours_event() -> None:
    stage = FleetHarness(*TENANTS)
    red, blue, _ = stage.cause("host-reboot", "red", "blue", "green")

    assert [event.id for event in stage.shown("red")] == [red]
    assert [event.id for event in stage.shown("blue")] == [blue]
