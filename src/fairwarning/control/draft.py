"""The commands of one request, while they are collected.

A draft exists for one try of a request: ``Control`` makes it from the state that the request is decided on.
The function that fills it may look at that state through ``view``. All ids derive from the id of the request,
so every try makes the same ids. The caller is authorised for every command; ``subject`` is what the journal
says about the request if it is refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from fairwarning.control.refusals import Subject
from fairwarning.core import barrier
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change
from fairwarning.core.commands import (
    AddMachines,
    ApplyInventory,
    Approve,
    Cancel,
    ChangeModel,
    Command,
    CreateSet,
    DeleteScopes,
    ForgetMaintenances,
    Maintain,
    MoveMachine,
    Postpone,
    Protect,
    RecordInventory,
    ReportOutcomes,
    Schedule,
    SetApprovals,
    SetHold,
    SetPower,
    SetTags,
    SetTagsOfSet,
    StartRollout,
    StopRollout,
    Upgrade,
)
from fairwarning.core.errors import ForbiddenError, IllegalTransitionError, ImpactOverError, InvalidError
from fairwarning.core.fleet import Impact, Observation, outstanding_impacts
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.maintenance.values import Hold, HostLabels, MaintenanceBudget, OnSilence
from fairwarning.core.model import (
    NO_SCOPE,
    ApprovalSettings,
    BarrierId,
    Event,
    EventId,
    EventType,
    EvictionPolicy,
    HostId,
    MachineRef,
    PowerState,
    Principal,
    ScopeId,
    VmName,
    in_group,
)
from fairwarning.core.policy import Action, Policy, check_available, may
from fairwarning.core.stored.kinds import BUDGETS, HOLD, HOLD_OF_HOST, kind_of
from fairwarning.engine.requests import Caller, Plan, Texts, View, derived_id

#: Returns texts to store with a request, given what it changes.
TextsAfter = Callable[[tuple[Change, ...]], Texts]

#: Returns what an operator's report about an impact means; the text says why the impact failed.
Reported = Callable[[Impact, str | None], Observation]


def authorise(principal: Principal, action: Action, policy: Policy, target: ScopeId | None = None) -> None:
    """Refuse what the caller may not do, and what this server does not do.

    Raises:
        ForbiddenError: the caller may not do this.
        EmulatorOnlyError: only the emulator can do this.
        MachinesListedError: only the inventory does this.
    """
    if not may(principal, action, target):
        raise ForbiddenError(principal, action)
    check_available(action, policy)


class Draft:
    """The commands of one request, and the texts to store with them."""

    def __init__(self, caller: Caller, view: View, policy: Policy, asked: str = "request") -> None:
        self.view = view
        self._policy = policy
        self.subject = Subject(asked=asked)
        self._caller = caller
        self._commands: list[Command] = []
        self._texts: list[TextsAfter] = []
        self._notes: list[ActionNote] = []

    @property
    def by(self) -> str:
        """The caller, as the history shows it."""
        return str(self._caller.principal)

    def about(
        self,
        asked: str,
        *,
        scope: ScopeId = NO_SCOPE,
        event: EventId | None = None,
        machines: tuple[MachineRef, ...] = (),
    ) -> None:
        """Say what the request asks for; once it has a command, its subject stays."""
        if not self._commands:
            self.subject = Subject(asked=asked, scope=scope, event=event, machines=machines)

    # -- events

    def cause(
        self,
        cause: str,
        machines: Iterable[MachineRef],
        *,
        host: HostId | None = None,
        notice: timedelta | None = None,
        kind: EventType | None = None,
        force: bool = False,
    ) -> EventId:
        """Cause events on machines; return the id from which the ids of the events derive."""
        refs = tuple(machines)
        scopes = {ref.scope for ref in refs}
        self.about(cause, scope=refs[0].scope if refs else NO_SCOPE, machines=refs)
        self._authorise(Action.DELETE if cause == "delete" else Action.CAUSE, scopes)
        event_id = self._new_id()
        self._add(
            Schedule(
                id=event_id,
                cause=cause,
                machines=refs,
                host=host,
                notice=notice,
                kind=kind,
                force=force,
                by=self.by,
            )
        )
        return event_id

    def maintain(
        self,
        cause: str,
        machines: Iterable[MachineRef],
        *,
        id: BarrierId | None = None,
        host: HostId | None = None,
        notice: timedelta | None = None,
        opens: datetime | None = None,
        closes: datetime | None = None,
        on_silence: OnSilence = OnSilence.PROCEED,
        over_budget: bool = False,
    ) -> BarrierId:
        """Announce a maintenance of a host or of machines; return its id."""
        refs = tuple(machines)
        self.about(cause, scope=refs[0].scope if refs else NO_SCOPE, machines=refs)
        self._authorise(Action.MAINTAIN, {ref.scope for ref in refs})
        if id is None:
            new_id = self._new_id()
            id = barrier.of_batch(new_id) if host is None else barrier.of_host(host, new_id)
        self._add(
            Maintain(
                id=id,
                cause=cause,
                machines=refs,
                host=host,
                notice=notice,
                opens=opens,
                closes=closes,
                on_silence=on_silence,
                over_budget=over_budget,
                by=self.by,
            )
        )
        return id

    def forget_maintenances(self, ids: Iterable[BarrierId], before: datetime) -> None:
        """Remove maintenances that were over before an instant."""
        self._ask(Action.MAINTAIN, ())
        self._add(ForgetMaintenances(tuple(ids), before))

    def postpone(self, barrier: BarrierId, scopes: Iterable[ScopeId], until: datetime) -> None:
        """Give what waits behind a barrier a later NotBefore."""
        ids = tuple(scopes)
        self._ask(Action.POSTPONE, ids)
        self._add(Postpone(barrier=barrier, scopes=ids, until=until, by=self.by))

    def set_hold(self, hold: Hold | None, host: str | None = None) -> None:
        """Hold the fleet or one host; None ends the hold."""
        self._ask(Action.HOLD, ())
        key = HOLD.key() if host is None else HOLD_OF_HOST.key(host)
        if hold is None and self.view.text(key) is None:
            return
        self._add(SetHold(hold, None if host is None else HostId(host)))
        subject = "the fleet" if host is None else f"host {host}"
        reason = f" ({hold.reason})" if hold is not None and hold.reason else ""
        deed = OperatorAction.UNHELD if hold is None else OperatorAction.HELD
        self._notes.append(ActionNote(deed=deed, detail=f"{subject}{reason}", by=self.by))

    def approve(self, scope: ScopeId, *ids: EventId) -> None:
        """Approve events of a scope, all of them or none; a guest approves only what it sees."""
        machine = self._caller.principal.machine
        machines = () if machine is None else (machine,)
        self.about("approve", scope=scope, event=ids[0] if ids else None, machines=machines)
        self._authorise(Action.APPROVE, (scope,))
        self._add(
            Approve(scope=scope, ids=ids, machine=None if machine is None else machine.name, by=self.by)
        )

    def cancel(self, scope: ScopeId, event_id: EventId) -> None:
        """Cancel an event that has not started."""
        self.about("cancel", scope=scope, event=event_id)
        self._authorise(Action.CANCEL, (scope,))
        self._add(Cancel(scope=scope, id=event_id, by=self.by))

    def start_rollout(self, scope: ScopeId, cause: str, notice: timedelta | None = None) -> str:
        """Start maintenance of a scope, one domain after another; return the id of the rollout."""
        self.about(f"rollout {cause}", scope=scope)
        self._authorise(Action.START_ROLLOUT, (scope,))
        rollout_id = self._new_id()
        self._add(StartRollout(id=rollout_id, scope=scope, cause=cause, notice=notice, by=self.by))
        return rollout_id

    def stop_rollout(self, scope: ScopeId) -> None:
        """End a rollout and cancel its events that have not started."""
        self._ask(Action.STOP_ROLLOUT, (scope,))
        self._add(StopRollout(scope=scope, by=self.by))

    # -- reports about impacts

    def complete(
        self, event_id: str, machines: Sequence[str], reported: Reported, moved_to: HostId | None = None
    ) -> None:
        """Report the impact of an event as done on some machines, or on all if none is named.

        ``moved_to`` is the host on which these machines are now.
        """
        event = self._started_event(event_id, "completed")
        names = {_listed(event, name, "machines") for name in machines} or set(event.resources)
        if moved_to is not None:
            for ref in self.view.scope(event.scope).refs():
                if ref.name in names:
                    self.move(ref, moved_to)
        self._report(event, [reported(impact, None) for impact in self._impacts(event, names)])

    def complete_all(self, events: Iterable[Event], moved: Mapping[str, str], reported: Reported) -> None:
        """Report the impacts of started events as done; ``moved`` says on which hosts machines are now."""
        left = dict(moved)
        for event in events:
            impacts = self._impacts(event, set(event.undone))
            for impact in impacts:
                for name in (impact.machine.full, impact.machine.name):
                    if name in left:
                        self.move(impact.machine, HostId(left.pop(name)))
            self._report(event, [reported(impact, None) for impact in impacts])
        if left:
            raise InvalidError("moved", f"{', '.join(left)} is not one of the machines")

    def fail(self, event_id: str, machine: str, reason: str, reported: Reported) -> None:
        """Report the impact of an event as failed on a machine."""
        event = self._started_event(event_id, "failed")
        impacts = self._impacts(event, {_listed(event, machine, "machine")})
        if not impacts:
            raise ImpactOverError(event, machine)
        self._report(event, [reported(impact, reason) for impact in impacts])

    def _started_event(self, event_id: str, report: str) -> Event:
        event = self.view.event(event_id)
        if event.waiting:
            raise IllegalTransitionError(event, report)
        return event

    def _impacts(self, event: Event, names: set[VmName]) -> list[Impact]:
        """Return the impacts of an event on these machines that are not over; a report has no speed."""
        impacts = outstanding_impacts(self.view.scope(event.scope), Policy())
        return [impact for impact in impacts if impact.event == event.id and impact.machine.name in names]

    def _report(self, event: Event, observations: list[Observation]) -> None:
        self._ask(Action.REPORT, (event.scope,))
        if observations:
            report = ReportOutcomes(scope=event.scope, observations=tuple(observations), by=self.by)
            self._add(report)

    # -- machines and sets

    def create_set(self, blueprint: Blueprint) -> None:
        """Create a set of machines."""
        self._ask(Action.CREATE, (ScopeId(in_group(blueprint.group, blueprint.name)),))
        self._add(CreateSet(seed=self._new_id(), blueprint=blueprint, by=self.by))

    def add_machines(
        self,
        scope: ScopeId,
        count: int = 1,
        *,
        names: tuple[str, ...] = (),
        spot: bool | None = None,
        eviction: EvictionPolicy | None = None,
        tags: tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        """Add machines to a scope; a setting that is None is taken from the machines of the scope."""
        self._ask(Action.ADD_MACHINES, (scope,))
        self._add(
            AddMachines(
                seed=self._new_id(),
                scope=scope,
                number=count,
                names=names,
                spot=spot,
                eviction=eviction,
                tags=tags,
                by=self.by,
            )
        )

    def record_inventory(
        self,
        version: InventoryVersion,
        replaces: str = "",
        budgets: tuple[MaintenanceBudget, ...] = (),
        labels: HostLabels = MappingProxyType({}),
    ) -> None:
        """Store the version of the inventory that is applied next, unless the fleet has a newer one."""
        self._ask(Action.APPLY_INVENTORY, ())
        # Places are counted anew by the new budgets, so every scope with events is needed.
        changed = budgets != (BUDGETS.find(self.view.text) or ())
        scopes = (scope.id for scope in self.view.scopes() if scope.events) if changed else ()
        self._add(RecordInventory(version, replaces, budgets, labels, tuple(scopes)))

    def apply_inventory(
        self, version: InventoryVersion, scopes: Sequence[InventoryScope], gone: Sequence[ScopeId]
    ) -> None:
        """Bring scopes in step with the inventory of the fleet, and remove scopes that it does not have."""
        self._ask(Action.APPLY_INVENTORY, ())
        self._add(ApplyInventory(version, tuple(scopes), tuple(gone)))

    def delete_machines(self, machines: Iterable[MachineRef], *, force: bool = False) -> EventId:
        """Delete machines, with their notice."""
        return self.cause("delete", machines, force=force)

    def delete_scopes(self, scopes: Iterable[ScopeId], *, force: bool = False) -> EventId:
        """Delete all machines of some scopes, with their notice, and then the scopes."""
        ids = tuple(scopes)
        self._ask(Action.DELETE, ids)
        event_id = self._new_id()
        self._add(DeleteScopes(id=event_id, scopes=ids, force=force, by=self.by))
        return event_id

    def set_power(self, machine: MachineRef, power: PowerState, *, allocated: bool = False) -> None:
        """Start or stop a machine; a stopped machine may stay allocated."""
        self._ask(Action.SET_POWER, (machine.scope,), machine)
        self._add(SetPower(machine=machine, power=power, allocated=allocated, by=self.by))

    def move(self, machine: MachineRef, host: HostId) -> None:
        """Report that a machine is on another host."""
        self._ask(Action.MOVE, (machine.scope,), machine)
        self._add(MoveMachine(machine=machine, host=host, by=self.by))

    def change_model(
        self,
        scopes: Iterable[ScopeId],
        *,
        terminate_notice: timedelta | None,
        image_notice: bool = False,
        upgrades_itself: bool | None = None,
    ) -> None:
        """Change the model of a scale set."""
        ids = tuple(scopes)
        self._ask(Action.CHANGE, ids)
        self._add(
            ChangeModel(
                scopes=ids,
                terminate_notice=terminate_notice,
                image_notice=image_notice,
                upgrades_itself=upgrades_itself,
                by=self.by,
            )
        )

    def upgrade(self, machines: Iterable[MachineRef]) -> None:
        """Give instances the latest model of their set."""
        refs = tuple(machines)
        self._ask(Action.UPGRADE, dict.fromkeys(ref.scope for ref in refs), *refs)
        self._add(Upgrade(machines=refs, by=self.by))

    def protect(self, machine: MachineRef, *, protected: bool) -> None:
        """Protect an instance from scale-in, or end its protection."""
        self._ask(Action.PROTECT, (machine.scope,), machine)
        self._add(Protect(machine=machine, protected=protected, by=self.by))

    def set_tags(
        self, machine: MachineRef, tags: tuple[tuple[str, str], ...], *, refreshed: bool = False
    ) -> None:
        """Replace the tags of a machine; ``refreshed`` tags have what has changed of those of its set."""
        self._ask(Action.SET_TAGS, (machine.scope,), machine)
        self._add(SetTags(machine=machine, tags=tags, refreshed=refreshed, by=self.by))

    def set_tags_of_set(self, scopes: Iterable[ScopeId], tags: tuple[tuple[str, str], ...]) -> None:
        """Replace the tags of a scale set."""
        ids = tuple(scopes)
        self._ask(Action.SET_TAGS, ids)
        self._add(SetTagsOfSet(scopes=ids, tags=tags, by=self.by))

    def set_approvals(self, scope: ScopeId, approvals: ApprovalSettings) -> None:
        """Change which events a scope approves by itself."""
        self._ask(Action.CHANGE, (scope,))
        self._add(SetApprovals(scope=scope, approvals=approvals, by=self.by))

    # -- texts of other packages

    def put_texts(self, texts: Texts) -> None:
        """Store texts with the request; None removes a text."""
        self.put_texts_after(lambda changes: texts)

    def put_texts_after(self, texts: TextsAfter) -> None:
        """Store texts that depend on what the request changes."""
        self._texts.append(texts)

    def new_id(self, purpose: str) -> EventId:
        """Return an id for something other than a command, the same in every try."""
        return derived_id(self._caller, purpose)

    def plan(self) -> Plan:
        """Return what was collected."""
        return Plan(tuple(self._commands), self._all_texts, tuple(self._notes))

    def _all_texts(self, changes: tuple[Change, ...]) -> Texts:
        texts: dict[str, str | None] = {}
        for after in self._texts:
            texts |= after(changes)
        for kind in dict.fromkeys(map(kind_of, texts)):
            if kind.action is None:
                raise ForbiddenError(self._caller.principal, f"write the {kind.name}")
            authorise(self._caller.principal, kind.action, self._policy)
        return texts

    def _ask(self, action: Action, scopes: Iterable[ScopeId], *machines: MachineRef) -> None:
        """State an action that the history shows under its own name, and authorise it."""
        ids = tuple(scopes)
        self.about(action, scope=ids[0] if ids else NO_SCOPE, machines=machines)
        self._authorise(action, ids)

    def _authorise(self, action: Action, scopes: Iterable[ScopeId]) -> None:
        for scope in tuple(scopes) or (None,):
            authorise(self._caller.principal, action, self._policy, scope)

    def _add(self, command: Command) -> None:
        self._commands.append(command)

    def _new_id(self) -> EventId:
        return derived_id(self._caller, str(len(self._commands)))


def _listed(event: Event, name: str, field: str) -> VmName:
    """Return the machine of an event that ``name`` or ``scope/name`` stands for."""
    scope, _, plain = name.rpartition("/")
    if plain not in event.resources or scope not in ("", event.scope):
        raise InvalidError(field, f"event {event.id} does not list {name}")
    return VmName(plain)
