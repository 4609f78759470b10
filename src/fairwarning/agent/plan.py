"""What the agent should do next, decided from what it has seen and what it remembers.

Nothing here talks to the network, runs a hook or reads a clock. ``loop`` does what ``plan`` says, writes down
how it went and asks again; a crash between any two of these leads to the same question with the same answer.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from fairwarning.agent.coordination import ALONE, CoordinationMode, Peers, objection, same
from fairwarning.agent.rules import Consent, Rule, choose
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId, EventType

#: Recovering is tried again until it works, each time after twice the pause, up to this many doublings.
LONGEST_PAUSE = 5


class EventStep(StrEnum):
    """How far this machine has got with one event; every record starts and ends in the journal."""

    PREPARING = "preparing"
    READY = "ready"
    FAILED = "failed"
    RECOVERING = "recovering"


class Work(StrEnum):
    """What may be under way at this moment; forgotten in a crash, on purpose."""

    PREPARE = "prepare"
    APPROVE = "approve"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is remembered of one event from its first sight until the machine has recovered from it."""

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
    """What the agent remembers (``records``) and what it is doing right now (``busy``)."""

    records: Mapping[EventId, Record] = field(default_factory=lambda: MappingProxyType({}))
    busy: frozenset[tuple[EventId, Work]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """What the owner of the machine has decided."""

    rules: tuple[Rule, ...] = ()
    freeze_threshold: int = 9
    margin: timedelta = timedelta(0)
    pause: timedelta = timedelta(seconds=20)
    mode: CoordinationMode = CoordinationMode.OWN_ONLY
    takeover: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class PrepareAction:
    """Get the machine ready for the event."""

    event: ObservedEvent
    rule: Rule
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ApproveAction:
    """Tell the service that the event need not wait for this machine."""

    event: ObservedEvent
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RecoverAction:
    """The event has gone; put the machine back to work."""

    record: Record
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class WaitAction:
    """There is nothing to do about this event now."""

    event: ObservedEvent
    why: str = field(default="", compare=False)


Action: TypeAlias = PrepareAction | ApproveAction | RecoverAction | WaitAction


@dataclass(frozen=True, slots=True)
class _Case:
    """One event with everything that bears on it."""

    event: ObservedEvent
    record: Record | None
    rule: Rule
    busy: frozenset[Work]
    drained: frozenset[EventId]
    me: str
    policy: AgentPolicy
    around: Peers
    now: datetime


def plan(
    document: ObservedDocument | None,
    memory: Memory,
    me: str | None,
    policy: AgentPolicy,
    now: datetime,
    around: Peers = ALONE,
) -> tuple[Action, ...]:
    """Return what is due now: for each event at least one action, be it to wait.

    No document means no information (C-03): nothing is known to have gone, and nothing is done.
    """
    if document is None or me is None:
        why = (
            "no document has been read yet"
            if document is None
            else "the name of this machine is not known yet"
        )
        return tuple(WaitAction(record.event, why) for record in memory.records.values())
    listed = {event.key: event for event in document.events}
    drained_for = frozenset(key for key, record in memory.records.items() if key in listed and record.drains)
    actions: list[Action] = []
    for key, event in listed.items():
        record = memory.records.get(key)
        if record is None and not any(same(name, me) for name in event.resources):
            actions.append(
                WaitAction(event, f"it names {', '.join(event.resources) or 'nobody'}, not this machine")
            )
            continue
        rule = choose(event, policy.rules, policy.freeze_threshold)
        case = _Case(event, record, rule, _at(memory, key), drained_for, me, policy, around, now)
        actions.extend(_present(case))
    for key, record in memory.records.items():
        if key not in listed:
            actions.append(_gone(record, _at(memory, key), drained_for, policy.pause, now))
    return tuple(actions)


def deadline(event: ObservedEvent, margin: timedelta, now: datetime) -> datetime | None:
    """Return when preparing must have ended: a margin before the event may start, if that is known (C-09)."""
    if event.not_before is None or event.started:
        return None
    for limit in (event.not_before - margin, event.not_before):
        if limit > now:
            return limit
    return None


def drained(memory: Memory) -> bool:
    """Whether work has been taken off this machine, or is being taken off."""
    return any(record.drains for record in memory.records.values())


def _at(memory: Memory, key: EventId) -> frozenset[Work]:
    return frozenset(work for busy, work in memory.busy if busy == key)


def _present(case: _Case) -> Iterator[Action]:
    preparing = _preparation(case)
    if preparing is not None:
        yield preparing
    objecting = _obstacle(case)
    if objecting is None:
        yield ApproveAction(case.event, f"rule {case.rule.name} approves {case.rule.approve}")
    elif preparing is None:
        yield WaitAction(case.event, objecting)


def _preparation(case: _Case) -> Action | None:
    record, event = case.record, case.event
    if case.busy & {Work.PREPARE, Work.RECOVER}:
        return None
    if record is None:
        # C-12: a status that is not known starts nothing. C-09: Started may be the first that is seen.
        return PrepareAction(event, case.rule, "it is new") if event.scheduled or event.started else None
    if record.step is EventStep.RECOVERING:
        return _recovery(
            record, case.drained, case.policy.pause, case.now, "the event is back: recovers first"
        )
    if record.step is EventStep.PREPARING:
        return PrepareAction(event, case.rule, "preparing was interrupted")
    if _uncovered(case):
        return PrepareAction(event, case.rule, f"rule {case.rule.name} covers it now")
    tries = case.rule.tries if event.scheduled else 0
    if (
        record.step is EventStep.FAILED
        and record.attempts < tries
        and case.now >= record.at + case.policy.pause
    ):
        return PrepareAction(event, case.rule, f"try {record.attempts + 1} of {tries}")
    return None


def _uncovered(case: _Case) -> bool:
    """Whether the rules were changed so that an event that was only watched is now prepared for."""
    return case.record is not None and case.rule.drains and not case.record.drains and case.event.scheduled


def _gone(
    record: Record, busy: frozenset[Work], drained: frozenset[EventId], pause: timedelta, now: datetime
) -> Action:
    if busy:
        return WaitAction(record.event, f"it has gone; {', '.join(sorted(busy))} is still under way")
    unseen = "" if record.event.started else " without having been seen to start"
    return _recovery(record, drained, pause, now, f"it has gone{unseen}")


def _recovery(
    record: Record, drained: frozenset[EventId], pause: timedelta, now: datetime, why: str
) -> Action:
    # Putting the machine back to work for one event must not undo what another one still needs (C-10).
    needed = sorted(drained - {record.event.key})
    if record.drains and needed:
        return WaitAction(record.event, f"it has gone; recovers when {', '.join(needed)} has gone too")
    if record.step is EventStep.RECOVERING and record.attempts:
        again = record.at + pause * 2 ** min(record.attempts - 1, LONGEST_PAUSE)
        if now < again:
            return WaitAction(record.event, f"recovering failed: {record.problem}; again at {again:%H:%M:%S}")
    return RecoverAction(record, why)


def _obstacle(case: _Case) -> str | None:
    """Return the first thing that stands between this event and its approval."""
    return next((why for check in _OBSTACLES if (why := check(case)) is not None), None)


def _not_named(case: _Case) -> str | None:
    named = any(same(name, case.me) for name in case.event.resources)
    return None if named else "it does not name this machine any more"


def _nothing_to_approve(case: _Case) -> str | None:
    # C-12: advice to drain; there is nothing that would wait for an answer.
    return (
        "it is a recommendation: nothing to approve" if case.event.known_kind is EventType.REBALANCE else None
    )


def _not_waiting(case: _Case) -> str | None:
    if case.event.started:
        return "it has started; this machine stays as it is until the event has gone"
    return None if case.event.scheduled else f"its status {case.event.status!r} is not known"


def _already_said(case: _Case) -> str | None:
    if Work.APPROVE in case.busy:
        return "the approval is on its way"
    if case.record is None:
        return None
    if case.record.refused:
        return f"the server refused the approval: {case.record.refused}"
    return "approved; it has not started yet" if case.record.approved else None


def _never(case: _Case) -> str | None:
    return f"rule {case.rule.name} never approves" if case.rule.approve is Consent.NEVER else None


def _unprepared(case: _Case) -> str | None:
    if case.rule.approve is Consent.IMMEDIATELY:
        return None
    record = case.record
    if record is None or record.step is EventStep.PREPARING or Work.PREPARE in case.busy or _uncovered(case):
        return "this machine is not ready: preparing"
    if record.step is EventStep.RECOVERING:
        return "this machine is not ready: recovering"
    if record.step is EventStep.FAILED and case.rule.approve is not Consent.ALWAYS:
        return f"preparing failed, so it is not approved: {record.problem}"
    return None


def _unagreed(case: _Case) -> str | None:
    ready_at = case.now if case.record is None else case.record.at
    policy = case.policy
    return objection(case.event, case.me, policy.mode, case.around, ready_at, policy.takeover, case.now)


def _held(case: _Case) -> str | None:
    return case.around.hold


_OBSTACLES: tuple[Callable[[_Case], str | None], ...] = (
    _not_named,
    _nothing_to_approve,
    _not_waiting,
    _already_said,
    _never,
    _unprepared,
    _unagreed,
    _held,
)
