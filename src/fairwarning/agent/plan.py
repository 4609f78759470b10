"""What the agent does next, as a pure function of the document, the journal, the rules and the time.

``plan`` returns at least one action for every event: prepare, approve, recover, or wait. The loop carries
the actions out, writes the outcome into the journal and asks again. Because the plan depends on nothing
else, a crash between any two of these steps leads to the same plan.

Waiting is an action with a reason, because doing nothing is the answer that people ask about: why is this
event not approved? ``_OBSTACLES`` lists every reason not to approve, in the order of precedence; the first
one that applies is the reason in the log and in ``fairwarning agent explain``. A new condition is a new
function there, never a silent ``return``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from fairwarning.agent.coordination import NO_PEERS, CoordinationMode, Peers, is_same_machine, objection
from fairwarning.agent.rules import Consent, Rule, choose
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId, EventType

#: A failed recovery is repeated until it succeeds; the pause doubles with each failure, at most this often.
MAX_DOUBLINGS = 5


class EventStep(StrEnum):
    """The progress of this machine with one event, as written in the journal."""

    PREPARING = "preparing"
    READY = "ready"
    FAILED = "failed"
    RECOVERING = "recovering"


class Work(StrEnum):
    """A job that is running; not in the journal, so a crash starts it again."""

    PREPARE = "prepare"
    APPROVE = "approve"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The journal's record of one event, kept until the machine has recovered from it."""

    event: ObservedEvent
    rule: str
    step: EventStep
    at: datetime
    drains: bool = False
    attempts: int = 0
    approved: bool = False
    refused: str = ""
    problem: str = ""
    tokens: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The records of the journal, and the jobs that are running (``busy``)."""

    records: Mapping[EventId, Record] = field(default_factory=lambda: MappingProxyType({}))
    busy: frozenset[tuple[EventId, Work]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """The rules and settings that decide what the agent does."""

    rules: tuple[Rule, ...] = ()
    freeze_threshold: int = 9
    margin: timedelta = timedelta(0)
    pause: timedelta = timedelta(seconds=20)
    mode: CoordinationMode = CoordinationMode.OWN_ONLY
    takeover: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class PrepareAction:
    """Run the hooks that prepare the machine for an event."""

    event: ObservedEvent
    rule: Rule
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ApproveAction:
    """Approve an event."""

    event: ObservedEvent
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RecoverAction:
    """Run the hooks that return the machine to work; the event is over."""

    record: Record
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class WaitAction:
    """Do nothing about an event now."""

    event: ObservedEvent
    why: str = field(default="", compare=False)


Action: TypeAlias = PrepareAction | ApproveAction | RecoverAction | WaitAction


@dataclass(frozen=True, slots=True)
class _Case:
    """One event with everything that its actions depend on."""

    event: ObservedEvent
    record: Record | None
    rule: Rule
    busy: frozenset[Work]
    drained: frozenset[EventId]
    me: str
    policy: AgentPolicy
    peers: Peers
    now: datetime


def plan(
    document: ObservedDocument | None,
    memory: Memory,
    me: str | None,
    policy: AgentPolicy,
    now: datetime,
    peers: Peers = NO_PEERS,
) -> tuple[Action, ...]:
    """Return the actions that are due now, at least one per event.

    Without a document nothing is known (C-03): no event counts as over, and the agent waits.
    """
    if document is None or me is None:
        why = "no document has been read yet" if document is None else "the name of this machine is unknown"
        return tuple(WaitAction(record.event, why) for record in memory.records.values())
    listed = {event.key: event for event in document.events}
    drained_for = frozenset(key for key, record in memory.records.items() if key in listed and record.drains)
    actions: list[Action] = []
    for key, event in listed.items():
        record = memory.records.get(key)
        if record is None and not any(is_same_machine(name, me) for name in event.resources):
            actions.append(
                WaitAction(event, f"it names {', '.join(event.resources) or 'no machine'}, not this machine")
            )
            continue
        rule = choose(event, policy.rules, policy.freeze_threshold)
        case = _Case(event, record, rule, _running_work(memory, key), drained_for, me, policy, peers, now)
        actions.extend(_actions_for_listed(case))
    for key, record in memory.records.items():
        if key not in listed:
            actions.append(
                _action_for_gone(record, _running_work(memory, key), drained_for, policy.pause, now)
            )
    return tuple(actions)


def deadline(event: ObservedEvent, margin: timedelta, now: datetime) -> datetime | None:
    """Return when preparing must end: a margin before NotBefore, if that is known and ahead (C-09)."""
    if event.not_before is None or event.started:
        return None
    left = event.not_before - now
    if left > margin:
        return event.not_before - margin
    return event.not_before if left > timedelta(0) else None


def drained(memory: Memory) -> bool:
    """Whether this machine is drained or being drained."""
    return any(record.drains for record in memory.records.values())


def _running_work(memory: Memory, key: EventId) -> frozenset[Work]:
    return frozenset(work for event, work in memory.busy if event == key)


def _actions_for_listed(case: _Case) -> Iterator[Action]:
    preparation = _preparation(case)
    if preparation is not None:
        yield preparation
    obstacle = _obstacle(case)
    if obstacle is None:
        yield ApproveAction(case.event, f"rule {case.rule.name} approves {case.rule.approve}")
    elif preparation is None:
        yield WaitAction(case.event, obstacle)


def _preparation(case: _Case) -> Action | None:
    record, event = case.record, case.event
    if case.busy & {Work.PREPARE, Work.RECOVER}:
        return None
    if record is None:
        # C-12: an unknown status starts nothing. C-09: an event may be Started when it first appears.
        handled = event.scheduled or event.started
        return PrepareAction(event, case.rule, "the event is new") if handled else None
    if record.step is EventStep.RECOVERING:
        return _recovery(
            record, case.drained, case.policy.pause, case.now, "the event is back: recover first"
        )
    if record.step is EventStep.PREPARING:
        return PrepareAction(event, case.rule, "preparing was interrupted")
    if _newly_covered(case):
        return PrepareAction(event, case.rule, f"rule {case.rule.name} covers it now")
    tries = case.rule.tries if event.scheduled else 0
    if (
        record.step is EventStep.FAILED
        and record.attempts < tries
        and case.now >= record.at + case.policy.pause
    ):
        return PrepareAction(event, case.rule, f"try {record.attempts + 1} of {tries}")
    return None


def _newly_covered(case: _Case) -> bool:
    """Whether the rules have changed so that a drain now covers an event that was only watched."""
    return case.record is not None and case.rule.drains and not case.record.drains and case.event.scheduled


def _action_for_gone(
    record: Record, busy: frozenset[Work], drained: frozenset[EventId], pause: timedelta, now: datetime
) -> Action:
    if busy:
        return WaitAction(record.event, f"it is gone; {', '.join(sorted(busy))} is still running")
    start = "" if record.event.started else "; its start was not observed"
    return _recovery(record, drained, pause, now, f"it is gone{start}")


def _recovery(
    record: Record, drained: frozenset[EventId], pause: timedelta, now: datetime, why: str
) -> Action:
    # C-10: recovering from one event must not undo the drain that another event still needs.
    others = sorted(drained - {record.event.key})
    if record.drains and others:
        return WaitAction(
            record.event, f"it is gone; this machine recovers once {', '.join(others)} is gone too"
        )
    if record.step is EventStep.RECOVERING and record.attempts:
        retry_at = record.at + pause * 2 ** min(record.attempts - 1, MAX_DOUBLINGS)
        if now < retry_at:
            return WaitAction(
                record.event, f"recovering failed: {record.problem}; retry at {retry_at:%H:%M:%S}"
            )
    return RecoverAction(record, why)


def _obstacle(case: _Case) -> str | None:
    """Return the first reason not to approve an event; None if there is none."""
    return next((why for check in _OBSTACLES if (why := check(case)) is not None), None)


def _not_named(case: _Case) -> str | None:
    named = any(is_same_machine(name, case.me) for name in case.event.resources)
    return None if named else "it no longer names this machine"


def _nothing_to_approve(case: _Case) -> str | None:
    # C-12: a recommendation to drain; no impact waits for an approval.
    if case.event.known_kind is EventType.REBALANCE:
        return "it is a recommendation: there is nothing to approve"
    return None


def _not_waiting(case: _Case) -> str | None:
    if case.event.started:
        return "it has started; this machine stays as it is until the event is gone"
    return None if case.event.scheduled else f"its status {case.event.status!r} is unknown"


def _already_sent(case: _Case) -> str | None:
    if Work.APPROVE in case.busy:
        return "the approval is being sent"
    if case.record is None:
        return None
    if case.record.refused:
        return f"the server refused the approval: {case.record.refused}"
    return "approved; it has not started yet" if case.record.approved else None


def _never(case: _Case) -> str | None:
    return f"rule {case.rule.name} never approves" if case.rule.approve is Consent.NEVER else None


def _not_prepared(case: _Case) -> str | None:
    if case.rule.approve is Consent.IMMEDIATELY:
        return None
    record = case.record
    if (
        record is None
        or record.step is EventStep.PREPARING
        or Work.PREPARE in case.busy
        or _newly_covered(case)
    ):
        return "this machine is not ready: preparing"
    if record.step is EventStep.RECOVERING:
        return "this machine is not ready: recovering"
    if record.step is EventStep.FAILED and case.rule.approve is not Consent.ALWAYS:
        return f"preparing failed, so it is not approved: {record.problem}"
    return None


def _peers_not_ready(case: _Case) -> str | None:
    ready_at = case.now if case.record is None else case.record.at
    policy = case.policy
    return objection(case.event, case.me, policy.mode, case.peers, ready_at, policy.takeover, case.now)


def _held_by_check(case: _Case) -> str | None:
    return case.peers.hold


_OBSTACLES: tuple[Callable[[_Case], str | None], ...] = (
    _not_named,
    _nothing_to_approve,
    _not_waiting,
    _already_sent,
    _never,
    _not_prepared,
    _peers_not_ready,
    _held_by_check,
)
