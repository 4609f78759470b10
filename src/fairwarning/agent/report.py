"""Reports for people: what the settings would do, what the journal holds, and why the agent waits."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from shutil import which

from fairwarning.agent.coordination import CoordinationMode, Peers, other_machines
from fairwarning.agent.hooks import HookContext, program
from fairwarning.agent.jobs import CHECK_TIMEOUT, ask_peers
from fairwarning.agent.plan import (
    Action,
    ApproveAction,
    EventStep,
    Memory,
    PrepareAction,
    Record,
    RecoverAction,
    WaitAction,
    Work,
    deadline,
    plan,
)
from fairwarning.agent.rules import choose
from fairwarning.agent.settings import AgentSettings
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId, EventType
from fairwarning.formats.suggestions import did_you_mean

#: The verb for each action.
_VERBS: Mapping[type[Action], str] = {
    PrepareAction: "prepare",
    ApproveAction: "approve",
    RecoverAction: "recover",
    WaitAction: "wait",
}
#: The longest notice that each type of event gives.
_NOTICE: Mapping[EventType, timedelta] = {
    EventType.FREEZE: timedelta(minutes=15),
    EventType.REBOOT: timedelta(minutes=15),
    EventType.REDEPLOY: timedelta(minutes=10),
    EventType.PREEMPT: timedelta(seconds=30),
    EventType.TERMINATE: timedelta(minutes=5),
    EventType.REBALANCE: timedelta(0),
}


def rehearse(settings: AgentSettings, machine: str, now: datetime) -> Iterator[str]:
    """Yield what each type of event would trigger; hooks run dry."""
    for event in _examples(machine, now):
        policy = settings.policy
        rule = choose(event, policy.rules, policy.freeze_threshold)
        length = "" if event.duration is None else f" of {event.duration} s"
        yield f"{event.kind}{length}: rule {rule.name}, approve {rule.approve}"
        steps = settings.steps_of(rule.name)
        limit = deadline(event, policy.margin, now)
        for hook in steps.prepare:
            outcome = hook.run(HookContext(event, "prepare", machine, limit, True), None, lambda: now)
            yield f"  prepare: {outcome.message}"
        for hook in steps.recover:
            outcome = hook.run(HookContext(event, "recover", machine, None, True), None, lambda: now)
            yield f"  recover: {outcome.message}"
        if not (steps.prepare or steps.recover):
            yield "  nothing to run"


def problems(settings: AgentSettings, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what would fail when an event comes: unknown event types, programs that are not installed."""
    known = {kind.casefold() for kind in EventType}
    for rule in settings.policy.rules:
        for name in sorted(rule.types - known):
            hint = did_you_mean(name, EventType, most=1) or f" (known are {', '.join(EventType)})"
            yield f"{rule.name}: unknown event type {name!r}{hint}"
        steps = settings.steps_of(rule.name)
        for hook in (*steps.prepare, *steps.recover):
            needed = hook.program()
            if needed is not None and not _installed(needed, environment):
                yield f"{rule.name}: {hook.describe()}: program {needed} not found"
    if settings.check and not _installed(settings.check[0], environment):
        yield f"agent.check: program {settings.check[0]} not found"


def _installed(program_name: str, environment: Mapping[str, str]) -> bool:
    return which(program_name, path=environment.get("PATH")) is not None


def status(records: Mapping[EventId, Record], running: bool) -> Iterator[str]:
    """Yield the records of the journal, one line per event."""
    yield "an agent is running" if running else "no agent is running"
    for key, record in records.items():
        event = record.event
        words = [f"{key} {event.kind} of {', '.join(event.resources)}:", record.step.value]
        words += ["approved"] if record.approved else []
        words += [f"({record.problem})"] if record.problem else []
        yield f"{' '.join(words)}, since {record.at:%Y-%m-%d %H:%M:%S} by rule {record.rule}"
    if not records:
        yield "no events in the journal"


def explain(
    document: ObservedDocument | None,
    records: Mapping[EventId, Record],
    me: str | None,
    settings: AgentSettings,
    now: datetime,
    running: bool,
    environment: Mapping[str, str],
) -> Iterator[str]:
    """Yield what is done about each event now, and why."""
    busy: frozenset[tuple[EventId, Work]] = frozenset()
    if running:
        # A step that the journal shows as begun is running in that agent.
        steps = {EventStep.PREPARING: Work.PREPARE, EventStep.RECOVERING: Work.RECOVER}
        busy = frozenset((key, steps[record.step]) for key, record in records.items() if record.step in steps)
    peers, memory = _ask_peers(document, me, settings, now), Memory(records=records, busy=busy)
    actions = plan(document, memory, me, settings.policy, now, peers)
    if settings.check and any(isinstance(action, ApproveAction) for action in actions):
        result = program.run(settings.check, CHECK_TIMEOUT, environment)
        hold = None if result.ok else f"the check says hold: {result.message}"
        actions = plan(document, memory, me, settings.policy, now, replace(peers, hold=hold))
    for action in actions:
        event = action.record.event if isinstance(action, RecoverAction) else action.event
        yield f"{event.key} {event.kind} {event.status}: {_VERBS[type(action)]}: {action.why}"
    if not actions:
        yield "no events"


def _ask_peers(
    document: ObservedDocument | None, me: str | None, settings: AgentSettings, now: datetime
) -> Peers:
    if document is None or me is None or settings.policy.mode is CoordinationMode.OWN_ONLY:
        return Peers()
    names = {
        name for event in document.events for name in other_machines(event, me) if name in settings.peers
    }
    reports = ask_peers({name: settings.peers[name] for name in sorted(names)})
    ready = {(key, name): now for name, keys in reports.ready.items() for key in keys}
    return Peers(ready=ready, known=frozenset(settings.peers))


def _examples(machine: str, now: datetime) -> Iterator[ObservedEvent]:
    for kind, notice in _NOTICE.items():
        for duration in (5, 30) if kind is EventType.FREEZE else (None,):
            yield ObservedEvent(
                id=EventId("00000000-0000-0000-0000-000000000000"),
                status="Scheduled",
                kind=kind.value,
                resources=(machine,),
                not_before=now + notice,
                source="Platform",
                description="an example",
                duration=duration,
            )
