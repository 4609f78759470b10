"""What one decider without any company would say: the oracle of the audits.

``SerialState`` is written for plainness: every question is answered by looking at every scope.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from fairwarning.core.changes import (
    Change,
    PollsRecorded,
    ScopeMade,
    ScopeRemoved,
    TextChanged,
    evolve,
    touched,
)
from fairwarning.core.decide import Decision, decide
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import Scope, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.engine.directory import IndexedBy
from fairwarning.engine.fold import FoldView, ReadRecorder, scopes_to_decide_on
from fairwarning.engine.ports import Line
from fairwarning.engine.requests import Build, NoteRefusal, Plan
from fairwarning.formats.hidden_characters import readable


@dataclass(frozen=True, slots=True)
class SerialState:
    """All aggregates after a line of the journal."""

    scopes: Mapping[ScopeId, Scope] = field(default_factory=dict)
    last_incarnations: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    polled: Mapping[ScopeId, datetime] = field(default_factory=dict)

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        return self.scopes.get(scope_id)

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        return tuple(sorted(scope_id for scope_id, scope in self.scopes.items() if key in keys(by, scope)))

    def text(self, key: str) -> str | None:
        return self.texts.get(key)

    def last_incarnation(self, set_id: str) -> int:
        return self.last_incarnations.get(set_id, 0)

    def after(self, lines: Sequence[Line]) -> "SerialState":
        """Return the state after the lines of one request."""
        changes = [line for line in lines if isinstance(line, Change)]
        evolved = evolve(self.scopes, changes)
        remade = {change.scope for change in changes if isinstance(change, ScopeMade)}
        scopes = {one: scope for one, scope in evolved.items() if one not in remade}
        scopes |= {one: evolved[one] for one in touched(changes) if one in remade and one in evolved}
        last_incarnations, texts = dict(self.last_incarnations), dict(self.texts)
        for line in lines:
            if isinstance(line, ScopeRemoved):
                last = last_incarnations.get(line.set_id, 0)
                last_incarnations[line.set_id] = max(last, line.incarnation)
            elif isinstance(line, TextChanged) and line.text is None:
                texts.pop(line.key, None)
            elif isinstance(line, TextChanged) and line.text is not None:
                texts[line.key] = line.text
        return SerialState(scopes, last_incarnations, texts, _polls(self.polled, lines, scopes))

    def all_scopes(self) -> Iterable[Scope]:
        """Return all scopes."""
        return self.scopes.values()

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        return (key for key in sorted(self.texts) if key.startswith(prefix))


def keys(by: IndexedBy, scope: Scope) -> set[str]:
    """Return what a scope is found by."""
    match by:
        case IndexedBy.MACHINE:
            return {str(name) for name in scope.machines}
        case IndexedBy.HOST:
            return {str(machine.host) for machine in scope.machines.values()}
        case IndexedBy.SET:
            return {scope.facts.set_id}
        case IndexedBy.EVENT:
            return {str(event_id) for event_id in scope.events}
        case IndexedBy.BARRIER:
            return {str(event.barrier) for event in scope.events.values()}


def _polls(
    before: Mapping[ScopeId, datetime], lines: Iterable[Line], scopes: Mapping[ScopeId, Scope]
) -> Mapping[ScopeId, datetime]:
    polled = dict(before)
    for line in lines:
        if isinstance(line, PollsRecorded):
            polled |= {one: max(line.at, polled.get(one, line.at)) for one in line.scopes}
        elif isinstance(line, ScopeMade | ScopeRemoved):
            polled.pop(line.scope, None)
    return {one: at for one, at in polled.items() if one in scopes}


@dataclass(frozen=True, slots=True)
class SerialAnswer:
    """What came of a request: its journal lines, and the error if it was refused."""

    lines: tuple[Line, ...] = ()
    refusal: str | None = None


def make_plan(state: SerialState, build: Build) -> Plan:
    """Return the plan of a request on a state."""
    return build(FoldView(ReadRecorder(state)))


def asks_by_predicate(state: SerialState, build: Build) -> bool:
    """Whether a request asks which machines are on a host, or have a name."""
    reads = ReadRecorder(state)
    with suppress(FairWarningError):
        build(FoldView(reads))
    return reads.by_predicate


def decide_serially(
    state: SerialState, build: Build, note_refusal: NoteRefusal, policy: Policy, at: datetime
) -> SerialAnswer:
    """Decide one request on a state, with nothing before it and nothing beside it."""
    try:
        plan = make_plan(state, build)
        decision = Decision()
        if plan.commands:
            together = scopes_to_decide_on(state, plan.commands)
            fleet = FleetState(together, policy, state.last_incarnations, state.text)
            decision = decide(fleet, plan.commands, at)
        changes = decision.changes
        wanted = {
            readable(key): None if text is None else readable(text)
            for key, text in {**decision.values, **plan.texts(changes)}.items()
        }
        texts = {key: text for key, text in wanted.items() if state.texts.get(key) != text}
    except FairWarningError as refusal:
        note = note_refusal(refusal)
        return SerialAnswer(() if note is None else (note,), f"{type(refusal).__name__}: {refusal}")
    changed = tuple(TextChanged(key=key, text=text) for key, text in texts.items())
    return SerialAnswer((*changes, *changed, *plan.notes))
