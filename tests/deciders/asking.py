"""Requests by chance, of every kind, about few names, so that they meet often."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from random import Random

from fairwarning.control.refusals import Subject, refusal_note
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
    Maintain,
    MoveMachine,
    Poll,
    Postpone,
    Protect,
    RecordInventory,
    ReportOutcomes,
    Schedule,
    SetHold,
    SetPower,
    SetTags,
    StartRollout,
    StopRollout,
    Tick,
)
from fairwarning.core.errors import FairWarningError, UnknownScopeError
from fairwarning.core.fleet import Impact, Observation, Progress, outstanding_impacts
from fairwarning.core.history import CommandRefused
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.maintenance.values import Hold, MaintenanceBudget, OnSilence
from fairwarning.core.model import (
    OPERATOR,
    PLATFORM,
    EventId,
    EventType,
    HostId,
    MachineRef,
    PowerState,
    Principal,
    Scope,
    ScopeId,
    ScopeKind,
    derive_id,
)
from fairwarning.core.policy import Policy
from fairwarning.core.stored.kinds import MAINTENANCE
from fairwarning.engine.requests import Build, NoteRefusal, Plan, Texts, View, no_note
from tests.conftest import NOON
from tests.deciders.serial import SerialState

NAMES, HOSTS, KEYS = "abcd", ("H1", "H2"), ("operation:x", "operation:y")


def note_refusal(error: FairWarningError) -> CommandRefused:
    """Return the journal's note about a refused request of an operator."""
    return refusal_note(OPERATOR, Subject(asked="request"), error, 0)


def done(impact: Impact) -> Observation:
    """Return the observation that an impact is done; what is to be deleted is gone."""
    exists = impact.kind is not EventType.TERMINATE
    return Observation(event=impact.event, machine=impact.machine.name, progress=Progress.DONE, exists=exists)


class Request:
    """What a client asks for, and as whom."""

    def __init__(
        self, build: Build, principal: Principal = OPERATOR, note_refusal: NoteRefusal = no_note
    ) -> None:
        self.build = build
        self.principal = principal
        self.note_refusal = note_refusal


def fixed(*commands: Command) -> Build:
    """Return a build that looks at nothing."""
    return lambda view: Plan(commands)


class Client:
    """Asks for what makes sense in a state, and now and then for what no longer does."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._seen: list[tuple[ScopeId, EventId]] = []
        self._now = NOON
        self._kinds: Mapping[Callable[[str, SerialState], Request | None], int] = {
            self._create: 9,
            self._delete: 6,
            self._host: 10,
            self._short_name: 3,
            self._one_machine: 16,
            self._approve: 22,
            self._approve_by_id: 4,
            self._cancel: 4,
            self._rollout: 4,
            self._add: 3,
            self._several: 7,
            self._text: 8,
            self._inventory: 6,
            self._poll: 2,
            self._report: 14,
            self._maintain: 12,
            self._postpone: 2,
            self._hold: 4,
            self._budgets: 4,
            self._tag: 3,
            self._tick: 4,
        }

    def ask(self, key: str, state: SerialState, now: datetime) -> Request | None:
        """Return a request; None if chance wanted one that makes no sense here."""
        self._now = now
        self._seen = [*self._seen, *_events(state)][-40:]
        (kind,) = self._chance.choices(list(self._kinds), list(self._kinds.values()))
        return kind(key, state)

    def _create(self, key: str, state: SerialState) -> Request:
        pick = self._chance.choice
        kind = pick((ScopeKind.SCALE_SET, ScopeKind.SCALE_SET, ScopeKind.AVAILABILITY_SET))
        blueprint = Blueprint(
            name=pick(NAMES),
            kind=kind,
            count=pick((0, 1, 2, 3)),
            zones=pick(((), (), ("1",), ("1", "2"), ("2",))) if kind is ScopeKind.SCALE_SET else (),
            host=pick((*map(HostId, HOSTS), None)),
            terminate_notice=pick((None, timedelta(minutes=5))),
        )
        return Request(fixed(CreateSet(seed=key, blueprint=blueprint)))

    def _delete(self, key: str, state: SerialState) -> Request:
        name, force = self._chance.choice(NAMES), self._chance.random() < 0.5
        command = partial(DeleteScopes, id=derive_id(key), force=force)
        most = self._chance.choice((1, None))

        def build(view: View) -> Plan:
            scopes = tuple(scope.id for scope in view.scopes_of_set(name))[:most]
            if not scopes:
                raise UnknownScopeError(name)
            return Plan((command(scopes=scopes),))

        return Request(build)

    def _host(self, key: str, state: SerialState) -> Request:
        host, cause = self._chance.choice(HOSTS), self._chance.choice(("host-reboot", "freeze"))

        def build(view: View) -> Plan:
            return Plan((Schedule(id=derive_id(key), cause=cause, machines=view.machines_on_host(host)),))

        return self._noted(build, Schedule(id=derive_id(key), cause=cause, machines=()))

    def _short_name(self, key: str, state: SerialState) -> Request:
        name = f"{self._chance.choice(NAMES)}_0"

        def build(view: View) -> Plan:
            machine = view.machine(name).ref
            return Plan((Schedule(id=derive_id(key), cause="redeploy", machines=(machine,)),))

        return self._noted(build, Schedule(id=derive_id(key), cause="redeploy", machines=()))

    def _one_machine(self, key: str, state: SerialState) -> Request | None:
        if (ref := self._machine(state)) is None:
            return None
        pick = self._chance.choice
        command: Command = pick(
            (
                Schedule(id=derive_id(key), cause="restart", machines=(ref,)),
                Schedule(id=derive_id(key), cause="delete", machines=(ref,), force=pick((True, False))),
                Protect(machine=ref, protected=pick((True, False))),
                SetPower(machine=ref, power=pick(list(PowerState))),
                MoveMachine(machine=ref, host=HostId(pick(HOSTS))),
                ChangeModel(scopes=(ref.scope,), terminate_notice=pick((None, timedelta(minutes=5)))),
            )
        )
        return self._noted(fixed(command), command)

    def _approve(self, key: str, state: SerialState) -> Request | None:
        if (event := self._event(state)) is None:
            return None
        command = Approve(scope=event[0], ids=(event[1],), by=key)
        return self._noted(fixed(command), command)

    def _approve_by_id(self, key: str, state: SerialState) -> Request | None:
        if (event := self._event(state)) is None:
            return None

        def build(view: View) -> Plan:
            found = view.event(event[1])
            return Plan((Approve(scope=found.scope, ids=(found.id,), by=key),))

        return Request(build)

    def _cancel(self, key: str, state: SerialState) -> Request | None:
        if (event := self._event(state)) is None:
            return None
        command = Cancel(scope=event[0], id=event[1])
        return self._noted(fixed(command), command)

    def _rollout(self, key: str, state: SerialState) -> Request | None:
        if (scope := self._scope(state)) is None:
            return None
        if self._chance.random() < 0.3:
            return Request(fixed(StopRollout(scope=scope.id)))
        return Request(fixed(StartRollout(id=key, scope=scope.id)))

    def _add(self, key: str, state: SerialState) -> Request | None:
        if (scope := self._scope(state)) is None:
            return None
        return Request(fixed(AddMachines(seed=key, scope=scope.id)))

    def _several(self, key: str, state: SerialState) -> Request | None:
        if (ref := self._machine(state)) is None:
            return None
        event = derive_id(key)
        freeze = Schedule(id=event, cause="freeze", machines=(ref,))
        name = self._chance.choice(NAMES)
        remake = CreateSet(seed=key, blueprint=Blueprint(name=name, count=0, zones=("1", "2")))
        counted = self._counted(self._chance.choice(KEYS))

        def make_again(view: View) -> Plan:
            scopes = tuple(scope.id for scope in view.scopes_of_set(name))
            delete = (DeleteScopes(id=event, scopes=scopes, force=True),) if scopes else ()
            return Plan((*delete, remake), counted(view))

        return Request(
            self._chance.choice(
                (
                    fixed(freeze, Approve(scope=ref.scope, ids=(event,))),
                    fixed(freeze, Cancel(scope=ref.scope, id=event)),
                    fixed(
                        Protect(machine=ref, protected=True), SetPower(machine=ref, power=PowerState.STOPPED)
                    ),
                    make_again,
                )
            )
        )

    def _text(self, key: str, state: SerialState) -> Request:
        name, chance = self._chance.choice(KEYS), self._chance.random()
        counted = self._counted(name)
        if chance < 0.2:
            return Request(lambda view: Plan((), lambda changes: {name: None}))
        if chance < 0.3:
            return Request(lambda view: Plan((), lambda changes: {name: "0"}))
        return Request(lambda view: Plan((), counted(view)))

    def _inventory(self, key: str, state: SerialState) -> Request:
        """Record an inventory, or apply one to a scope; a scope and the record are decided together."""
        version = InventoryVersion(digest=self._chance.choice("rstuvw"))
        if self._chance.random() < 0.4:
            return Request(fixed(RecordInventory(version)), PLATFORM)
        scopes = [scope for scope in state.scopes.values() if scope.facts.kind is ScopeKind.STANDALONE]
        gone = (self._chance.choice(scopes).id,) if scopes else ()
        return Request(fixed(ApplyInventory(version, (), gone)), PLATFORM)

    def _maintain(self, key: str, state: SerialState) -> Request:
        """Announce the maintenance of a host, or the one that its key stands for."""
        host, pick = HostId(self._chance.choice(HOSTS)), self._chance.choice
        id = pick((barrier.of_host(host, derive_id(key)), barrier.by_key(host, pick("kl"))))
        command = Maintain(
            id=id,
            cause=pick(("host-reboot", "host-update", "freeze")),
            machines=(),
            host=host,
            notice=pick((None, timedelta(0), timedelta(minutes=5))),
            opens=pick((None, None, self._now + timedelta(minutes=4))),
            closes=pick((None, None, self._now + timedelta(minutes=20))),
            on_silence=pick((OnSilence.PROCEED, *OnSilence)),
            over_budget=pick((False, True)),
        )

        def build(view: View) -> Plan:
            known = MAINTENANCE.find(view.text, id) is not None
            return Plan((command._replace(machines=() if known else view.machines_on_host(host)),))

        return self._noted(build, command)

    def _postpone(self, key: str, state: SerialState) -> Request | None:
        if (event := self._event(state)) is None:
            return None
        until = self._now + timedelta(minutes=self._chance.choice((2, 30)))

        def build(view: View) -> Plan:
            behind = view.event(event[1]).barrier
            return Plan((Postpone(behind, view.scopes_behind(behind), until),))

        return Request(build)

    def _hold(self, key: str, state: SerialState) -> Request:
        hold = Hold(reason=key, by="operator", since=self._now)
        host = self._chance.choice((None, *map(HostId, HOSTS)))
        return Request(fixed(SetHold(self._chance.choice((hold, None, None, None)), host)))

    def _budgets(self, key: str, state: SerialState) -> Request:
        pick = self._chance.choice
        each_scope = pick(((), (MaintenanceBudget(each="scope", most=pick((1, 1, 2))),)))
        each_tag = pick(((), (MaintenanceBudget(each="db", most=pick((1, 2))),)))
        version = InventoryVersion(digest=key)

        def build(view: View) -> Plan:
            scopes = tuple(scope.id for scope in view.scopes() if scope.events)
            return Plan((RecordInventory(version, budgets=(*each_scope, *each_tag), scopes=scopes),))

        return Request(build, PLATFORM)

    def _tag(self, key: str, state: SerialState) -> Request | None:
        if (ref := self._machine(state)) is None:
            return None
        return Request(fixed(SetTags(machine=ref, tags=(("db", self._chance.choice("xy")),))))

    def _poll(self, key: str, state: SerialState) -> Request | None:
        if (ref := self._machine(state)) is None:
            return None
        return Request(fixed(Poll(machine=ref)))

    def _report(self, key: str, state: SerialState) -> Request | None:
        busy = [scope for scope in state.scopes.values() if outstanding_impacts(scope, Policy())]
        if not busy:
            return None
        scope_id = self._chance.choice(busy).id

        def build(view: View) -> Plan:
            seen = tuple(map(done, outstanding_impacts(view.scope(scope_id), Policy())))
            return Plan((ReportOutcomes(scope=scope_id, observations=seen),))

        return Request(build, PLATFORM)

    def _tick(self, key: str, state: SerialState) -> Request | None:
        if (scope := self._scope(state)) is None:
            return None
        return Request(fixed(Tick(scopes=(scope.id,))), PLATFORM)

    def _noted(self, build: Build, command: Command) -> Request:
        """Return a request whose refusal is noted in the journal, or is not."""
        return Request(build, OPERATOR, self._chance.choice((no_note, note_refusal)))

    def _counted(self, key: str) -> Callable[[View], Callable[[tuple[Change, ...]], Texts]]:
        def counted(view: View) -> Callable[[tuple[Change, ...]], Texts]:
            number = int(view.text(key) or 0)
            return lambda changes: {key: str(number + 1)}

        return counted

    def _scope(self, state: SerialState) -> Scope | None:
        return self._chance.choice(list(state.scopes.values())) if state.scopes else None

    def _machine(self, state: SerialState) -> MachineRef | None:
        machines = [ref for scope in state.scopes.values() for ref in scope.refs()]
        return self._chance.choice(machines) if machines else None

    def _event(self, state: SerialState) -> tuple[ScopeId, EventId] | None:
        events = _events(state)
        if self._seen and (not events or self._chance.random() < 0.1):
            return self._chance.choice(self._seen)
        return self._chance.choice(events) if events else None


def _events(state: SerialState) -> list[tuple[ScopeId, EventId]]:
    return [(scope.id, event) for scope in state.scopes.values() for event in scope.events]
