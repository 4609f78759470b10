"""Stories that run on every store: what happens in two scopes, and when."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime

from fairwarning.core.changes import EventChanged, EventMilestone, MachineChanged
from fairwarning.core.model import EventStatus, ScopeId
from fairwarning.engine.ports import Store
from tests.store.stores import event, machine, made

WEB, DB = ScopeId("web"), ScopeId("db")
NOON = datetime(2026, 11, 16, 12, 0, 0, 250, tzinfo=UTC)

Story = Callable[[Store], Coroutine[None, None, None]]
Stage = Callable[[Story], None]


def happened(number: int, what: EventMilestone = EventMilestone.SCHEDULED) -> EventChanged:
    return EventChanged(scope=WEB, event=event("web", number, "a"), what=what, by="operator")


def gone(number: int) -> EventChanged:
    over = replace(event("web", number, "a"), status=EventStatus.GONE)
    return EventChanged(scope=WEB, event=over, what=EventMilestone.FINISHED, by="platform")


DB_MADE = made("db")
DB_MOVED = (MachineChanged(scope=DB, machine=machine("db", "x")),)
