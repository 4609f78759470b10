"""Every transition of an event, allowed or not."""

from dataclasses import replace
from datetime import datetime
from itertools import product

import pytest

from fairwarning.core.barrier import of_event
from fairwarning.core.errors import IllegalTransitionError
from fairwarning.core.lifecycle import TRANSITIONS, Signal, advance
from fairwarning.core.model import Event, EventId, EventSource, EventStatus, EventType, ScopeId, VmName
from tests.fleet_harness import span

ID = EventId("3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01")
FORBIDDEN = [pair for pair in product(EventStatus, Signal) if pair not in TRANSITIONS]
ORDER = [EventStatus.SCHEDULED, EventStatus.STARTED, EventStatus.GONE]


def an_event(status: EventStatus, now: datetime) -> Event:
    return Event(
        id=ID,
        scope=ScopeId("web"),
        cause="restart",
        kind=EventType.REBOOT,
        source=EventSource.USER,
        resources=(VmName("web_0"),),
        description="",
        duration=-1,
        created_at=now,
        not_before=now + span("15m"),
        barrier=of_event(ID),
        status=status,
    )


@pytest.mark.rule("L-01")
@pytest.mark.parametrize(("status", "signal"), TRANSITIONS)
def test_no_way_leads_back(status: EventStatus, signal: Signal, noon: datetime) -> None:
    after = advance(an_event(status, noon), signal, noon)

    assert ORDER.index(after.status) >= ORDER.index(status)


@pytest.mark.rule("L-01")
@pytest.mark.parametrize(("status", "signal"), FORBIDDEN)
def test_a_move_that_is_not_in_the_table_is_refused(
    status: EventStatus, signal: Signal, noon: datetime
) -> None:
    event = an_event(status, noon)

    with pytest.raises(IllegalTransitionError, match=f"is {status}; it cannot be {signal}") as refusal:
        advance(event, signal, noon)

    assert refusal.value.event is event
    assert refusal.value.status_hint == 409


@pytest.mark.rule("R-19")
def test_an_approval_is_no_move(noon: datetime) -> None:
    event = an_event(EventStatus.SCHEDULED, noon)

    assert advance(event, Signal.APPROVED, noon) == event


@pytest.mark.rule("R-17")
def test_approving_what_has_started_changes_nothing(noon: datetime) -> None:
    event = an_event(EventStatus.STARTED, noon)

    assert advance(event, Signal.APPROVED, noon) == event


@pytest.mark.rule("L-18")
@pytest.mark.parametrize(("status", "signal"), TRANSITIONS)
def test_a_move_changes_the_status_and_nothing_a_guest_was_promised(
    status: EventStatus, signal: Signal, noon: datetime
) -> None:
    before = an_event(status, noon)

    after = advance(before, signal, noon + span("1m"))

    assert replace(after, status=status, started_at=before.started_at) == before


def test_a_started_event_remembers_when_it_started(noon: datetime) -> None:
    started = advance(an_event(EventStatus.SCHEDULED, noon), Signal.RELEASED, noon + span("3m"))

    assert started.started_at == noon + span("3m")


def test_a_failed_impact_leaves_the_event_started(noon: datetime) -> None:
    event = an_event(EventStatus.STARTED, noon)

    assert advance(event, Signal.FAILED, noon).status is EventStatus.STARTED
