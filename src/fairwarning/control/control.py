"""Every action that a caller can ask for, once.

An API translates a request into one call of ``Control`` and renders what the call returns. A call is one
request to the engine and at most one commit (an inventory is applied in parts). The names in it are resolved
in the function that fills the draft, which runs once per try.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, timedelta, tzinfo
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from fairwarning.control.draft import Draft, authorise
from fairwarning.control.inventory import (
    InventorySync,
    check_kinds,
    check_removals,
    count_changes,
    inventory_requests,
)
from fairwarning.control.maintenance import Maintenances
from fairwarning.control.names import machines_or_host, members, pending_event, scopes_of
from fairwarning.control.refusals import Redact, Refusals, Subject, refusal_note, unredacted
from fairwarning.control.results import Announced, Approved, Created, changed_events
from fairwarning.core import barrier
from fairwarning.core.announce import events_caused_by, unpolled_hint
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, EventChanged, EventMilestone, MachineChanged, ScopeMade
from fairwarning.core.errors import ContendedError, FairWarningError, ReportsRefusedError, StorageError
from fairwarning.core.fleet import FleetState
from fairwarning.core.history import CommandRefused
from fairwarning.core.inputs import field_context
from fairwarning.core.inventory import InventoryScope, InventoryVersion, record_inventory
from fairwarning.core.maintenance.values import HostLabels, MaintenanceBudget
from fairwarning.core.maintenance.waits import waits
from fairwarning.core.model import (
    NO_SCOPE,
    ApprovalSettings,
    Event,
    EventId,
    EventType,
    HostId,
    MachineRef,
    PowerState,
    Principal,
    ScopeId,
)
from fairwarning.core.policy import Action, Policy
from fairwarning.core.stored.kinds import INVENTORY
from fairwarning.engine.clock import new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.faults import ActiveFault
from fairwarning.engine.ports import ReportedDriver
from fairwarning.engine.requests import Caller, Plan, Result, View
from fairwarning.engine.time_control import TimeControl
from fairwarning.formats.instants import for_people

T = TypeVar("T")

#: Adds the commands of a request to a draft; called once per try.
Fill = Callable[[Draft], None]

#: Opens the metadata endpoints of new machines.
OpenEndpoints = Callable[[Sequence[MachineRef]], Awaitable[None]]


class Unset(Enum):
    """Stands for a setting that keeps its value."""

    UNSET = "unset"


async def _open_nothing(machines: Sequence[MachineRef]) -> None:
    """Open nothing: the service has no metadata API."""


class Control:
    """What callers can ask of an engine.

    ``open_endpoints`` opens the metadata endpoints of new machines before their request is answered.
    """

    def __init__(
        self, engine: Engine, open_endpoints: OpenEndpoints = _open_nothing, zone: tzinfo = UTC
    ) -> None:
        self.engine = engine
        #: The time zone in which operators write and read instants.
        self.zone = zone
        self.time_control = TimeControl(engine)
        self.maintenances = Maintenances(self)
        self._open_endpoints = open_endpoints
        self._refusals = Refusals(engine.clock.now)

    async def carry_out(
        self, principal: Principal, fill: Fill, asked: str = "request", *, redact: Redact = unredacted
    ) -> Result:
        """Carry out what ``fill`` puts into a draft, as one commit; return once it is stored.

        ``asked`` is what the history says about a request that is refused before it has a command; ``redact``
        removes what the history must not say about a refused request.
        """
        _, result = await self.submit(principal, asked, fill, redact)
        return result

    async def look_up(
        self,
        read: Callable[[], Awaitable[T]],
        is_unknown: Callable[[FairWarningError], bool] = lambda problem: problem.status_hint == 404,
    ) -> T:
        """Return what ``read`` finds; what is unknown is looked up again once the journal is followed."""
        try:
            return await read()
        except FairWarningError as problem:
            if not is_unknown(problem) or not await self.engine.catch_up():
                raise
        return await read()

    # -- events

    async def cause(
        self,
        principal: Principal,
        cause: str,
        machines: Sequence[str] = (),
        *,
        host: str | None = None,
        notice: timedelta | None = None,
        kind: EventType | None = None,
        force: bool = False,
    ) -> Announced:
        """Cause events on the machines of these names, or on all machines of a host."""

        def fill(draft: Draft) -> EventId:
            refs = machines_or_host(draft.view, machines, host)
            on_host = None if host is None else HostId(host)
            if on_host is not None and kind is None and not force and self.maintenances.has(cause):
                return barrier.command_of(draft.maintain(cause, refs, host=on_host, notice=notice))
            return draft.cause(cause, refs, host=on_host, notice=notice, kind=kind, force=force)

        return await self._announce(principal, cause, fill)

    async def approve(self, principal: Principal, *ids: str) -> Approved:
        """Approve events, all of them or none; a guest approves events of its own scope."""

        def fill(draft: Draft) -> list[Event]:
            if principal.machine is not None:
                scope = draft.view.scope(principal.machine.scope)
                keys = tuple(EventId(event_id.upper()) for event_id in ids)
                draft.approve(scope.id, *keys)
                return [scope.events[key] for key in keys if key in scope.events]
            events = [pending_event(draft, Action.APPROVE, event_id) for event_id in ids]
            for event in events:
                draft.approve(event.scope, event.id)
            return events

        events, result = await self.submit(principal, Action.APPROVE, fill)
        after, ids_asked = changed_events(result.changes), {event.id for event in events}
        counted = any(
            isinstance(change, EventChanged)
            and change.what is EventMilestone.APPROVED
            and change.event.id in ids_asked
            for change in result.changes
        )
        return Approved(tuple(after.get(event.id, event) for event in events), counted)

    def waits_for(self, events: Iterable[Event]) -> Mapping[EventId, str]:
        """Return what waiting events wait for besides approvals and notices of their own, by their ids."""
        waiting = {event.scope for event in events if event.waiting}
        scopes = self.engine.directory.together(waiting)
        fleet = FleetState(scopes, self.engine.policy, stored=self.engine.stored)
        now = self.engine.clock.now()
        return dict(waits(fleet, now, lambda instant: for_people(instant, self.zone)))

    async def cancel(self, principal: Principal, event_id: str) -> Event:
        """Cancel an event that has not started, and return it with the status Gone."""

        def fill(draft: Draft) -> Event:
            event = pending_event(draft, Action.CANCEL, event_id)
            draft.cancel(event.scope, event.id)
            return event

        event, result = await self.submit(principal, Action.CANCEL, fill)
        return changed_events(result.changes)[event.id]

    async def complete(
        self, principal: Principal, event_id: str, machines: Sequence[str], moved_to: str | None = None
    ) -> Event:
        """Report the impact of an event as done on some machines, or on all if none is named.

        ``moved_to`` is the host on which these machines are now.
        """
        host = None if moved_to is None else HostId(moved_to)

        def fill(draft: Draft) -> Event:
            event = pending_event(draft, Action.REPORT, event_id)
            draft.complete(event_id, machines, self.reported_driver().reported, host)
            return event

        return await self._report(principal, fill)

    async def fail(self, principal: Principal, event_id: str, machine: str, reason: str) -> Event:
        """Report the impact of an event as failed on a machine."""

        def fill(draft: Draft) -> Event:
            event = pending_event(draft, Action.REPORT, event_id)
            draft.fail(event_id, machine, reason, self.reported_driver().reported)
            return event

        return await self._report(principal, fill)

    async def start_rollout(
        self, principal: Principal, scope: str, cause: str, notice: timedelta | None = None
    ) -> Announced:
        """Start maintenance of a scope, and return the events of its first domain."""

        def fill(draft: Draft) -> str:
            with field_context("scope"):
                scope_id = draft.view.scope(ScopeId(scope)).id
            return draft.start_rollout(scope_id, cause, notice)

        rollout, result = await self.submit(principal, f"rollout {cause}", fill)
        events = changed_events(result.changes).values()
        return self._announced([event for event in events if event.walk == rollout])

    async def stop_rollout(self, principal: Principal, scope: str) -> None:
        """End a rollout and cancel its events that have not started."""

        def fill(draft: Draft) -> None:
            draft.stop_rollout(draft.view.scope(ScopeId(scope)).id)

        await self.submit(principal, Action.STOP_ROLLOUT, fill)

    # -- machines and sets

    async def create_set(self, principal: Principal, blueprint: Blueprint) -> Created:
        """Create a set of machines, and open their endpoints."""
        return await self._create(principal, Action.CREATE, lambda draft: draft.create_set(blueprint))

    async def add_machines(self, principal: Principal, scope: str, count: int) -> Created:
        """Add machines to a scope, and open their endpoints."""

        def fill(draft: Draft) -> None:
            draft.add_machines(draft.view.scope(ScopeId(scope)).id, count)

        return await self._create(principal, Action.ADD_MACHINES, fill)

    async def apply_inventory(
        self,
        principal: Principal,
        inventory: Sequence[InventoryScope],
        version: InventoryVersion,
        *,
        budgets: tuple[MaintenanceBudget, ...] = (),
        labels: HostLabels = MappingProxyType({}),
        replaces: str = "",
        remove_most: bool = False,
    ) -> InventorySync:
        """Bring the fleet in step with an inventory, in requests of limited size.

        Raises:
            OlderInventoryError: the fleet has a newer inventory than this, and not ``replaces``.
            NumberTakenError: the number of the version stands for another inventory.
            MassRemovalError: most of the machines would be removed, and ``remove_most`` does not say so.
            InvalidError: a scope exists and is of another kind.
        """
        now = self.engine.clock.now()
        # No line of the journal: a service manager may start a node that is refused again and again.
        record_inventory(INVENTORY.find(self.engine.stored), version, now, replaces)
        check_kinds(self.engine.scopes(), inventory)
        if not remove_most:
            check_removals(self.engine.scopes(), inventory)
        record = partial(
            Draft.record_inventory, version=version, replaces=replaces, budgets=budgets, labels=labels
        )
        await self.carry_out(principal, record, Action.APPLY_INVENTORY)
        # Only now is it known what is left to do: nodes with another version change nothing from here on.
        changes: list[Change] = []
        for scopes, gone in inventory_requests(self.engine.scopes(), inventory):
            fill = partial(Draft.apply_inventory, version=version, scopes=scopes, gone=gone)
            changes += (await self.carry_out(principal, fill, Action.APPLY_INVENTORY)).changes
        return count_changes(changes, self.engine.scopes(), inventory)

    async def delete_machine(self, principal: Principal, machine: str, *, force: bool = False) -> Announced:
        """Delete a machine, with the notice that its model sets unless ``force`` skips it."""

        def fill(draft: Draft) -> EventId:
            return draft.delete_machines([draft.view.machine(machine).ref], force=force)

        return await self._announce(principal, Action.DELETE, fill)

    async def delete_set(self, principal: Principal, name: str, *, force: bool = False) -> Announced:
        """Delete all machines of a set, with their notice, and then the set."""

        def fill(draft: Draft) -> EventId:
            return draft.delete_scopes([scope.id for scope in scopes_of(draft.view, name)], force=force)

        return await self._announce(principal, Action.DELETE, fill)

    async def set_power(self, principal: Principal, machine: str, power: PowerState) -> MachineRef:
        """Start or stop a machine."""

        def fill(draft: Draft) -> MachineRef:
            ref = draft.view.machine(machine).ref
            draft.set_power(ref, power)
            return ref

        ref, _ = await self.submit(principal, Action.SET_POWER, fill)
        return ref

    async def move(self, principal: Principal, machine: str, host: str) -> MachineRef:
        """Report that a machine is on another host."""

        def fill(draft: Draft) -> MachineRef:
            ref = draft.view.machine(machine).ref
            draft.move(ref, HostId(host))
            return ref

        ref, _ = await self.submit(principal, Action.MOVE, fill)
        return ref

    async def change_set(
        self,
        principal: Principal,
        name: str,
        *,
        terminate_notice: timedelta | Unset | None = Unset.UNSET,
        approvals: Callable[[ApprovalSettings], ApprovalSettings] | None = None,
    ) -> tuple[ScopeId, ...]:
        """Change the model of a set, the approval settings of its scopes, or both; return its scopes."""

        def fill(draft: Draft) -> tuple[ScopeId, ...]:
            scopes = scopes_of(draft.view, name)
            ids = tuple(scope.id for scope in scopes)
            if not isinstance(terminate_notice, Unset):
                draft.change_model(ids, terminate_notice=terminate_notice)
            if approvals is not None:
                for scope in scopes:
                    draft.set_approvals(scope.id, approvals(scope.facts.approvals))
            return ids

        ids, _ = await self.submit(principal, Action.CHANGE, fill)
        return ids

    async def upgrade(
        self, principal: Principal, name: str, machines: Sequence[str] | None = None
    ) -> tuple[MachineRef, ...]:
        """Give the latest model of a set to instances of it, or to all; return them."""

        def fill(draft: Draft) -> tuple[MachineRef, ...]:
            scopes = scopes_of(draft.view, name)
            if machines is None:
                refs = tuple(ref for scope in scopes for ref in scope.refs())
            else:
                refs = members(draft.view, scopes, machines)
            draft.upgrade(refs)
            return refs

        refs, _ = await self.submit(principal, Action.UPGRADE, fill)
        return refs

    # -- polls, faults and time: what no command changes

    async def poll(self, principal: Principal, machine: MachineRef) -> None:
        """Record a poll of a machine."""
        authorise(principal, Action.POLL, self.engine.policy, machine.scope)
        await self.engine.poll(machine)

    async def set_fault(
        self, principal: Principal, machine: str, fault: str, lasts: str | None = None, delay: str = "2s"
    ) -> MachineRef:
        """Make the endpoint of a machine misbehave, for a while or until the fault is cleared."""
        ref = await self._machine(principal, Action.SET_FAULT, machine)
        async with self._refusals_noted(principal, Action.SET_FAULT, ref):
            now = asyncio.get_running_loop().time()
            active = ActiveFault.parse(fault, lasts, delay, now)
            await self.engine.faults.set(ref, active, str(principal))
        return ref

    async def clear_fault(self, principal: Principal, machine: str) -> MachineRef:
        """Make the endpoint of a machine work again."""
        ref = await self._machine(principal, Action.CLEAR_FAULT, machine)
        await self.engine.faults.clear(ref, str(principal))
        return ref

    async def advance(self, principal: Principal, by: timedelta) -> None:
        """Move a manual clock forward, stopping at every deadline on the way."""
        async with self._refusals_noted(principal, Action.MOVE_CLOCK):
            await self.time_control.advance(by, str(principal))

    async def to_next_deadline(self, principal: Principal) -> None:
        """Move a manual clock to the next deadline, if there is one."""
        async with self._refusals_noted(principal, Action.MOVE_CLOCK):
            await self.time_control.to_next_deadline(str(principal))

    async def set_speed(self, principal: Principal, speed: float) -> None:
        """Change how fast durations pass from now on."""
        async with self._refusals_noted(principal, Action.SET_SPEED):
            await self.time_control.set_speed(speed, str(principal))

    # -- how a request is carried out

    def preview(self, principal: Principal, asked: str, fill: Callable[[Draft], T]) -> tuple[T, Result]:
        """Return what ``submit`` would return, and change nothing."""
        request = self._request(principal, asked, fill, unredacted)
        result = self.engine.preview(request.build)
        return request.filled, result

    def _request(
        self, principal: Principal, asked: str, fill: Callable[[Draft], T], redact: Redact
    ) -> "_DraftedRequest[T]":
        caller = Caller(principal, new_request_id())
        return _DraftedRequest(caller, self.engine.policy, asked, fill, self._refusals, redact)

    async def submit(
        self, principal: Principal, asked: str, fill: Callable[[Draft], T], redact: Redact = unredacted
    ) -> tuple[T, Result]:
        """Carry out a request; return what ``fill`` returned in its last try, and the result."""
        request = self._request(principal, asked, fill, redact)
        refused = False
        try:
            result = await self.engine.submit(request.caller, request.build, request.note_refusal)
        except FairWarningError as error:
            refused = not isinstance(error, ContendedError | StorageError)
            raise
        finally:
            if not refused:
                request.take_refusal_back()
        return request.filled, result

    async def _announce(
        self, principal: Principal, asked: str, fill: Callable[[Draft], EventId]
    ) -> Announced:
        first, result = await self.submit(principal, asked, fill)
        return self._announced(events_caused_by(first, result.changes))

    def _announced(self, events: Iterable[Event]) -> Announced:
        announced = tuple(events)
        return Announced(announced, unpolled_hint(self.engine.scopes(), announced, self.engine.policy))

    async def _report(self, principal: Principal, fill: Callable[[Draft], Event]) -> Event:
        event, result = await self.submit(principal, Action.REPORT, fill)
        return changed_events(result.changes).get(event.id, event)

    def reported_driver(self) -> ReportedDriver:
        """Return the driver, if operators report on impacts."""
        driver = self.engine.reconciler.driver
        if not isinstance(driver, ReportedDriver):
            raise ReportsRefusedError(driver.name)
        return driver

    async def _create(self, principal: Principal, asked: str, fill: Fill) -> Created:
        changes = (await self.carry_out(principal, fill, asked)).changes
        created = Created(
            tuple(change.scope for change in changes if isinstance(change, ScopeMade)),
            tuple(change.machine.ref for change in changes if isinstance(change, MachineChanged)),
        )
        await self._open_endpoints(created.machines)
        return created

    async def _machine(self, principal: Principal, action: Action, name: str) -> MachineRef:
        async with self._refusals_noted(principal, action):
            return self.engine.directory.machine(name)

    @asynccontextmanager
    async def _refusals_noted(
        self, principal: Principal, action: Action, *machines: MachineRef
    ) -> AsyncIterator[None]:
        """Authorise an action without commands, and note a refusal of it."""
        scope = machines[0].scope if machines else NO_SCOPE
        try:
            authorise(principal, action, self.engine.policy, scope or None)
            yield
        except (ContendedError, StorageError):
            raise
        except FairWarningError as error:
            subject = Subject(asked=action, scope=scope, machines=machines)
            left_out = self._refusals.left_out(principal)
            if left_out is not None:
                await self.engine.remark(refusal_note(principal, subject, error, left_out))
            raise


class _DraftedRequest(Generic[T]):
    """A request and its last try: the draft, and what ``fill`` returned."""

    __slots__ = (
        "_asked",
        "_fill",
        "_left_out",
        "_policy",
        "_redact",
        "_refusals",
        "_refused",
        "caller",
        "draft",
        "filled",
    )

    draft: Draft
    filled: T

    def __init__(
        self,
        caller: Caller,
        policy: Policy,
        asked: str,
        fill: Callable[[Draft], T],
        refusals: Refusals,
        redact: Redact,
    ) -> None:
        self.caller = caller
        self._policy = policy
        self._asked = asked
        self._fill = fill
        self._refusals = refusals
        self._redact = redact
        self._refused = False
        self._left_out: int | None = None

    def build(self, view: View) -> Plan:
        """Make the plan of one try."""
        self.draft = Draft(self.caller, view, self._policy, self._asked)
        self.filled = self._fill(self.draft)
        return self.draft.plan()

    def note_refusal(self, error: FairWarningError) -> CommandRefused | None:
        """Return the journal's note; however often the request is tried, it counts as one refusal."""
        principal = self.caller.principal
        if not self._refused:
            self._refused, self._left_out = True, self._refusals.left_out(principal)
        if self._left_out is None:
            return None
        return refusal_note(principal, self.draft.subject, error, self._left_out, self._redact)

    def take_refusal_back(self) -> None:
        """Do not count a refusal in an earlier try: the request was carried out, or could not be stored."""
        if self._refused:
            self._refusals.take_back(self.caller.principal, self._left_out)
