"""An engine in memory with simulated machines and a manual clock, for tests without async code."""

import asyncio
import atexit
import re
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.commands import (
    AddMachines,
    Approve,
    Cancel,
    ChangeModel,
    Command,
    CreateSet,
    DeleteScopes,
    Schedule,
    SetApprovals,
    SetPower,
    StartRollout,
    StopRollout,
    Upgrade,
)
from fairwarning.core.document.render import render_document
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.fleet import visible_events
from fairwarning.core.history import HistoryEntry, to_history_entry
from fairwarning.core.model import (
    OPERATOR,
    ApprovalSettings,
    Event,
    EventId,
    EventStatus,
    EventType,
    HostId,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    VmName,
    derive_id,
)
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import InjectedMishap, Mishap, SimulatedDriver
from fairwarning.engine.clock import ManualClock, new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Driver, Entry, Store
from fairwarning.engine.requests import Caller, Plan
from fairwarning.engine.time_control import advance_to
from fairwarning.store.memory import MemoryStore

T = TypeVar("T")

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NEWEST = "2020-07-01"
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # Harnesses never run at the same time, so one loop serves all of them.
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end and return its result."""
    return _loop().run_until_complete(coroutine)


def span(text: str) -> timedelta:
    """Return the duration that ``1h30m`` or ``999ms`` stands for."""
    parts = re.findall(r"(\d+)(ms|[smhd])", text)
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())


class FleetHarness:
    """A fleet, with one method for each thing that a test does to it or asks of it."""

    def __init__(
        self,
        *blueprints: Blueprint,
        policy: Policy | None = None,
        store: Store | None = None,
        azure_timings: bool = False,
        driver: Driver | None = None,
        watched: bool = True,
        start: datetime = NOON,
        clock: ManualClock | None = None,
        uptime: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.driver = SimulatedDriver(azure_timings=azure_timings)
        self.clock = clock or ManualClock(start)
        self.engine = Engine(self.store, self.clock, driver or self.driver, policy or Policy(), uptime=uptime)
        self._ids = 0
        self._uptime = uptime
        run(self.engine.open())
        for blueprint in blueprints:
            self.make(blueprint, watched=watched)

    def do(self, command: Command) -> tuple[Change, ...]:
        """Carry out a command, and look at the impacts that it begins."""
        caller = Caller(OPERATOR, new_request_id())
        result = run(self.engine.submit(caller, lambda view: Plan((command,))))
        run(self.engine.tick())
        return result.changes

    # -- commands of operators and users

    def make(self, blueprint: Blueprint, *, watched: bool = True) -> None:
        """Create a set; if ``watched``, one machine in each of its scopes polls."""
        self.do(CreateSet(seed="seed", blueprint=blueprint))
        if watched:
            for scope_id in self.engine.directory.scopes_of_set(blueprint.name):
                for machine in list(self.scope(scope_id).machines.values())[:1]:
                    run(self.engine.poll(machine.ref))

    def grow(self, scope: str, count: int = 1) -> None:
        """Add machines to a set."""
        self.do(AddMachines(seed="more", scope=ScopeId(scope), number=count))

    def cause(
        self,
        cause: str,
        *machines: str,
        host: str | None = None,
        notice: str | None = None,
        kind: EventType | None = None,
        force: bool = False,
    ) -> tuple[EventId, ...]:
        """Schedule a cause and return the new events."""
        command = Schedule(
            id=self.new_id(),
            cause=cause,
            machines=tuple(self.ref(name) for name in machines)
            if host is None
            else self.engine.directory.machines_on_host(host),
            host=None if host is None else HostId(host),
            notice=None if notice is None else span(notice),
            kind=kind,
            force=force,
        )
        known = {event.id for scope in self.engine.scopes().values() for event in scope.events.values()}
        return tuple(event for event in events_of(self.do(command)) if event not in known)

    def remove(self, set_name: str, *, force: bool = False) -> tuple[EventId, ...]:
        """Delete a whole set and return its events."""
        scopes = self.engine.directory.scopes_of_set(set_name)
        return events_of(self.do(DeleteScopes(id=self.new_id(), scopes=scopes, force=force)))

    def approve(self, *ids: str, by: str | None = None) -> None:
        """Approve events, as one of the machines or as the operator of the first event's scope."""
        approved = tuple(EventId(event) for event in ids)
        if by is None:
            scope, _ = self.engine.directory.event(ids[0])
            self.do(Approve(scope=scope, ids=approved))
        else:
            ref = self.ref(by)
            self.do(Approve(scope=ref.scope, ids=approved, machine=ref.name, by=ref.name))

    def cancel(self, event_id: str) -> None:
        """Cancel an event."""
        scope, known = self.engine.directory.event(event_id)
        self.do(Cancel(scope=scope, id=known))

    def stop(self, *machines: str) -> None:
        """Stop machines."""
        for name in machines:
            self.do(SetPower(machine=self.ref(name), power=PowerState.STOPPED))

    def change_notice(self, set_name: str, notice: str | None) -> None:
        """Change the terminate profile of a set's model."""
        scopes = self.engine.directory.scopes_of_set(set_name)
        self.do(ChangeModel(scopes=scopes, terminate_notice=None if notice is None else span(notice)))

    def upgrade(self, *machines: str) -> None:
        """Bring instances to the latest model of their set."""
        self.do(Upgrade(machines=tuple(self.ref(name) for name in machines)))

    def set_approvals(self, scope: str, approvals: ApprovalSettings) -> None:
        """Change the automatic approvals of a scope."""
        self.do(SetApprovals(scope=ScopeId(scope), approvals=approvals))

    def walk(self, scope: str, cause: str = "host-update", notice: str | None = None) -> None:
        """Start a rollout in a scope."""
        length = None if notice is None else span(notice)
        self.do(StartRollout(id=self.new_id(), scope=ScopeId(scope), cause=cause, notice=length))

    def stop_walk(self, scope: str) -> None:
        """Stop the rollout of a scope."""
        self.do(StopRollout(scope=ScopeId(scope)))

    # -- guests, machines and time

    def poll(self, *machines: str) -> None:
        """Poll the document as each of these machines."""
        for name in machines:
            run(self.engine.poll(self.ref(name)))
        # A poll is answered before its time is stored; wait, so that the next step sees it.
        run(self.engine.flush_polls())

    def advance(self, by: str) -> None:
        """Advance the clock by a duration, stopping at each deadline."""
        self.wait_until(self.now + span(by))

    def wait_until(self, when: datetime) -> None:
        """Advance the clock to an instant, stopping at each deadline."""
        run(advance_to(self.engine, self.clock, when))

    def break_machine(self, name: str, mishap: Mishap, attempts: int = 1) -> None:
        """Let the next attempts to act on a machine go wrong."""
        self.driver.mishaps[VmName(name)] = InjectedMishap(mishap, attempts)

    def restart(self) -> None:
        """Close the engine and open another one on the same store."""
        run(self.engine.close())
        driver, policy = self.engine.reconciler.driver, self.engine.policy
        self.engine = Engine(self.store, self.clock, driver, policy, uptime=self._uptime)
        run(self.engine.open())

    def read(self, event: EventId, *names: str) -> None:
        """Let guests of these machines read an event."""
        run(self._read(event, names))

    async def _read(self, event: EventId, names: Iterable[str]) -> None:
        for name in names:
            self.engine.record_read(VmName(name), [self.event(event)])
        await self.engine.flush_polls()

    # -- state

    @property
    def now(self) -> datetime:
        """The time of the manual clock."""
        return self.clock.now()

    def ref(self, name: str) -> MachineRef:
        """Return the reference of the machine ``name``."""
        return self.engine.directory.machine(name)

    def machine(self, name: str) -> Machine:
        """Return a machine."""
        return self.engine.machine(self.ref(name))

    def scope(self, scope: str) -> Scope:
        """Return a scope."""
        return self.engine.scope(ScopeId(scope))

    def machines(self, scope: str) -> list[str]:
        """Return the names of a scope's machines, in order."""
        return [str(name) for name in self.scope(scope).machines]

    def incarnation(self, scope: str) -> int:
        """Return the incarnation of a scope's document."""
        return self.scope(scope).incarnation

    def event(self, event_id: str) -> Event:
        """Return a pending event."""
        scope, known = self.engine.directory.event(event_id)
        return self.scope(scope).events[known]

    def status(self, event_id: str) -> EventStatus:
        """Return the status of an event."""
        try:
            return self.event(event_id).status
        except UnknownEventError:
            return EventStatus.GONE

    def statuses(self, *ids: str) -> list[EventStatus]:
        """Return the status of each event."""
        return [self.status(event) for event in ids]

    def shown(self, machine: str) -> tuple[Event, ...]:
        """Return the events that a machine is shown."""
        ref = self.ref(machine)
        return visible_events(self.scope(ref.scope), ref.name)

    def pending(self, scope: str) -> tuple[Event, ...]:
        """Return the pending events of a scope, shown or not."""
        return tuple(self.scope(scope).events.values())

    def document(self, machine: str, version: str = NEWEST) -> bytes:
        """Return the document of a machine."""
        scope = self.scope(self.ref(machine).scope)
        return render_document(
            scope.incarnation, self.shown(machine), EVENT_VERSIONS[version], scope.facts.kind
        )

    def journal(self) -> tuple[Entry, ...]:
        """Return the whole journal."""
        return tuple(run(self.store.journal(limit=1_000_000)))

    def history(self, event_id: str | None = None) -> list[HistoryEntry]:
        """Return the journal as people read it, of one event or of all."""
        lines = (to_history_entry(entry.seq, entry.at, entry.change) for entry in self.journal())
        return [one for one in lines if one is not None and event_id in (None, one.event)]

    def story(self, event_id: str) -> list[str]:
        """Return the kinds of an event's history, in order."""
        return [entry.kind for entry in self.history(event_id)]

    def new_id(self) -> EventId:
        """Return an id that this harness has not used."""
        self._ids += 1
        return derive_id("stage", str(self._ids))


def events_of(changes: Iterable[Change]) -> tuple[EventId, ...]:
    """Return the ids of the changed events, each once, in order."""
    return tuple(dict.fromkeys(change.event.id for change in changes if isinstance(change, EventChanged)))
