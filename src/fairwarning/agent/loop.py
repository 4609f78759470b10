"""Carries out the plan: receives messages, asks ``plan`` what is due, starts jobs, records their outcome.

The loop has no threads and never waits. The service delivers messages (``receive``) and then calls
``turn``. A turn asks ``plan`` for the actions of every event. An action with nothing to run is completed at
once, and the plan is asked again. Everything that takes time starts as a job; the outcome of a job comes
back as a message.

A job amends only the tokens of its hooks. Everything else in the journal is written here, before the job
that it announces starts. So a crash at any point leads to the same plan after a restart. Hooks never run at
the same time: the recovery from one event must not start what another event is stopping.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import assert_never

from fairwarning.agent import jobs
from fairwarning.agent.coordination import CoordinationMode, Peers, other_machines
from fairwarning.agent.hooks import DEFAULT_ENVIRONMENT, Hook, HookContext, HookOutcome
from fairwarning.agent.jobs import (
    Answered,
    ApprovalVerdict,
    Finished,
    Heard,
    Job,
    Message,
    Named,
    Nameless,
    Polled,
    PollFailed,
)
from fairwarning.agent.journal import Journal
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
    drained,
    plan,
)
from fairwarning.agent.rules import Consent, choose
from fairwarning.agent.settings import AgentSettings
from fairwarning.agent.telemetry import AgentMetrics
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId
from fairwarning.formats.hidden_characters import escape_hidden

LOG = logging.getLogger("fairwarning.agent")

#: How often peers are asked, and how soon a failed check runs again.
ASK_INTERVAL, CHECK_INTERVAL = timedelta(seconds=1), timedelta(seconds=10)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The published state of the agent, as of its last turn."""

    machine: str | None = None
    drained: bool = False
    ready: tuple[EventId, ...] = ()
    waits: Mapping[EventId, str]
    records: Mapping[EventId, Record]


class Agent:
    """The agent of one machine, without threads: the caller delivers messages and runs jobs."""

    def __init__(
        self,
        settings: AgentSettings,
        journal: Journal,
        endpoint: jobs.Approver,
        start: Callable[[Job], None],
        *,
        metrics: AgentMetrics | None = None,
        environment: Mapping[str, str] = DEFAULT_ENVIRONMENT,
        dry_run: bool = False,
    ) -> None:
        self.settings = settings
        self.metrics = metrics or AgentMetrics()
        self._journal = journal
        self._endpoint = endpoint
        self._start = start
        self._environment = environment
        self._dry_run = dry_run
        self._me = settings.machine
        self._document: ObservedDocument | None = None
        self._busy: set[tuple[EventId, Work]] = set()
        self._ready: dict[tuple[EventId, str], datetime] = {}
        self._asking = False
        self._ask_at = self._hold_until = _EARLIEST
        self._hold: str | None = None
        self._logged_waits: dict[EventId, str] = {}
        self._troubles: dict[str, str] = {}
        self.snapshot = Snapshot(waits={}, records=journal.records)

    def receive(self, message: Message) -> None:
        """Update the state of the agent from a message."""
        match message:
            case Polled(document=document):
                self.metrics.count("polls", "ok")
                self._log_trouble("poll_failed", "")
                if document is not None:
                    self._update_document(document)
            case PollFailed(problem=problem):
                self.metrics.count("polls", "failed")
                self._log_trouble("poll_failed", problem)
            case Nameless(problem=problem):
                self._log_trouble("machine_not_named", problem)
            case Named(name=name):
                self._me = name
                self._log_trouble("machine_not_named", "")
                LOG.info("machine_named", extra={"machine": name})
            case Finished():
                self._record_outcome(message)
            case Answered():
                self._record_verdict(message)
            case Heard(ready=ready):
                self._asking = False
                now = self._endpoint.now()
                for name, keys in ready.items():
                    for key in keys:
                        self._ready.setdefault((key, name), now)
            case _:
                assert_never(message)

    def _log_trouble(self, event: str, problem: str) -> None:
        """Log a problem when it begins, when it changes, and when it is over."""
        if self._troubles.get(event, "") != problem:
            self._troubles[event] = problem
            level = logging.WARNING if problem else logging.INFO
            LOG.log(level, event, extra={"problem": problem or "over"})

    def turn(self) -> tuple[Action, ...]:
        """Start everything that is due now, and return the last plan."""
        actions = self._plan()
        while any([self._complete_without_hooks(action) for action in actions]):
            actions = self._plan()
        self._start_hook(actions)
        for action in actions:
            if isinstance(action, ApproveAction):
                self._approve(action)
        self._ask_peers()
        self._publish(actions)
        return actions

    def _plan(self) -> tuple[Action, ...]:
        now = self._endpoint.now()
        peers = Peers(
            ready=self._ready,
            known=frozenset(self.settings.peers),
            hold=self._hold if now < self._hold_until else None,
        )
        memory = Memory(records=self._journal.records, busy=frozenset(self._busy))
        return plan(self._document, memory, self._me, self.settings.policy, now, peers)

    def _update_document(self, document: ObservedDocument) -> None:
        known = {event.key: event for event in self._document.events} if self._document else {}
        self._document = document
        for event in document.events:
            if known.get(event.key) != event:
                LOG.info("event_seen", extra=_log_fields(event))
            self._journal.amend(event.key, partial(_with_event, event))
        listed = {event.key for event in document.events}
        for key in known.keys() - listed:
            LOG.info("event_gone", extra=_log_fields(known[key]))
        self._ready = {pair: at for pair, at in self._ready.items() if pair[0] in listed}

    def _complete_without_hooks(self, action: Action) -> bool:
        """Complete an action that has nothing to run; return whether it was such an action."""
        if isinstance(action, PrepareAction) and not self._steps(action):
            self._write_record(action, EventStep.READY)
            return True
        if isinstance(action, RecoverAction) and not self._steps(action):
            self._journal.forget(action.record.event.key)
            return True
        return False

    def _steps(self, action: PrepareAction | RecoverAction) -> tuple[Hook, ...]:
        if isinstance(action, PrepareAction):
            return self.settings.steps_of(action.rule.name).prepare
        rule, policy = action.record.rule, self.settings.policy
        if action.record.drains and rule not in self.settings.steps:
            # The settings have changed: the rule that covers the event now is the best guess at undoing it.
            rule = choose(action.record.event, policy.rules, policy.freeze_threshold).name
        return self.settings.steps_of(rule).recover

    def _write_record(self, action: PrepareAction, step: EventStep) -> None:
        known = self._journal.records.get(action.event.key)
        record = Record(
            event=action.event,
            rule=action.rule.name,
            step=step,
            at=self._endpoint.now(),
            drains=action.rule.drains,
        )
        if known is not None:
            record = replace(
                record,
                attempts=known.attempts,
                approved=known.approved,
                refused=known.refused,
                tokens=known.tokens,
            )
        self._journal.write(record)

    def _start_hook(self, actions: tuple[Action, ...]) -> None:
        if any(work is not Work.APPROVE for _, work in self._busy):
            return
        due = [action for action in actions if isinstance(action, PrepareAction | RecoverAction)]
        if not due:
            return
        action = min(due, key=_urgency)
        steps, now, machine = self._steps(action), self._endpoint.now, self._me or ""
        if isinstance(action, PrepareAction):
            event, work = action.event, Work.PREPARE
            self._write_record(action, EventStep.PREPARING)
            limit = deadline(event, self.settings.policy.margin, now())
            context = HookContext(event, "prepare", machine, limit, self._dry_run)
            job: Job = partial(jobs.prepare, steps, context, self._journal, now)
        else:
            event, work = action.record.event, Work.RECOVER
            attempts = action.record.attempts if action.record.step is EventStep.RECOVERING else 0
            self._journal.write(
                replace(action.record, step=EventStep.RECOVERING, attempts=attempts, at=now(), problem="")
            )
            context = HookContext(event, "recover", machine, None, self._dry_run)
            job = partial(jobs.recover, steps, context, action.record.tokens, now)
        LOG.info(f"{work}_begun", extra={**_log_fields(event), "why": action.why})
        self._busy.add((event.key, work))
        self._start(job)

    def _record_outcome(self, done: Finished) -> None:
        self._busy.discard((done.key, done.work))
        result = "ok" if done.outcome.ok else "failed"
        self.metrics.count(f"{done.work}s", result)
        level = logging.INFO if done.outcome.ok else logging.ERROR
        text = escape_hidden(done.outcome.message, keep="\n\t")
        LOG.log(level, f"{done.work}_{result}", extra={"event_id": done.key, "text": text})
        if done.work is Work.RECOVER and done.outcome.ok:
            self._journal.forget(done.key)
        else:
            self._journal.amend(done.key, partial(_outcome, done, self._endpoint.now()))

    def _approve(self, action: ApproveAction) -> None:
        key = action.event.key
        if key not in self._journal.records:
            # An approval that precedes the preparation must be in the journal too.
            policy = self.settings.policy
            rule = choose(action.event, policy.rules, policy.freeze_threshold)
            self._write_record(PrepareAction(action.event, rule), EventStep.PREPARING)
        LOG.info(
            "approval_sent", extra={**_log_fields(action.event), "why": action.why, "dry_run": self._dry_run}
        )
        self._busy.add((key, Work.APPROVE))
        if self._dry_run:
            self.receive(Answered(key, ApprovalVerdict.ACCEPTED, "dry run"))
            return
        self._start(
            partial(jobs.approve, action.event, self._endpoint, self.settings.check, self._environment)
        )

    def _record_verdict(self, answer: Answered) -> None:
        self._busy.discard((answer.key, Work.APPROVE))
        self.metrics.count("approvals", answer.verdict)
        LOG.info(f"approval_{answer.verdict}", extra={"event_id": answer.key, "text": answer.text})
        if answer.verdict is ApprovalVerdict.HELD:
            self._hold = f"the check says hold: {answer.text}"
            self._hold_until = self._endpoint.now() + CHECK_INTERVAL
        if answer.verdict is ApprovalVerdict.ACCEPTED:
            self._journal.amend(answer.key, lambda record: replace(record, approved=True))
        if answer.verdict is ApprovalVerdict.REFUSED:
            self._journal.amend(answer.key, lambda record: replace(record, refused=answer.text))

    def _ask_peers(self) -> None:
        now, mode = self._endpoint.now(), self.settings.policy.mode
        if self._asking or now < self._ask_at or mode is CoordinationMode.OWN_ONLY or self._document is None:
            return
        records = self._journal.records
        names = {
            name
            for event in self._document.events
            if event.scheduled and event.key in records and not records[event.key].approved
            for name in other_machines(event, self._me or "")
            if name in self.settings.peers and (event.key, name) not in self._ready
        }
        if names:
            self._asking, self._ask_at = True, now + ASK_INTERVAL
            self._start(partial(jobs.ask_peers, {name: self.settings.peers[name] for name in sorted(names)}))

    def _ready_for(self, record: Record) -> bool:
        """Whether this machine is ready for an event: prepared, and its rule may approve."""
        policy = self.settings.policy
        rule = choose(record.event, policy.rules, policy.freeze_threshold)
        return record.step is EventStep.READY and rule.approve is not Consent.NEVER

    def _publish(self, actions: tuple[Action, ...]) -> None:
        records = self._journal.records
        waits = {action.event.key: action.why for action in actions if isinstance(action, WaitAction)}
        for key, why in waits.items():
            if self._logged_waits.get(key) != why:
                LOG.info("event_waits", extra={"event_id": key, "why": why})
        self._logged_waits = waits
        self.snapshot = Snapshot(
            machine=self._me,
            drained=drained(Memory(records=records)),
            ready=tuple(key for key, record in records.items() if self._ready_for(record)),
            waits=waits,
            records=records,
        )


def _urgency(action: PrepareAction | RecoverAction) -> tuple[bool, datetime]:
    """Sort preparations before recoveries, and events that start sooner before others."""
    if isinstance(action, RecoverAction):
        return True, action.record.at
    return False, action.event.not_before or _EARLIEST


def _with_event(event: ObservedEvent, record: Record) -> Record:
    return replace(record, event=event)


def _outcome(done: Finished, now: datetime, record: Record) -> Record:
    outcome: HookOutcome = done.outcome
    problem = "" if outcome.ok else outcome.message
    attempts = record.attempts if outcome.ok else record.attempts + 1
    step = EventStep.RECOVERING
    if done.work is Work.PREPARE:
        step = EventStep.READY if outcome.ok else EventStep.FAILED
    return replace(record, step=step, at=now, attempts=attempts, problem=problem)


def _log_fields(event: ObservedEvent) -> dict[str, object]:
    return {
        "event_id": event.key,
        "type": event.kind,
        "status": event.status,
        "resources": list(event.resources),
        "not_before": None if event.not_before is None else event.not_before.isoformat(),
    }
