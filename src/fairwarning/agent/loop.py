"""Does what ``plan`` says: takes messages, asks the plan, starts what is due, writes down how it went.

Only this module changes what the agent remembers. Hooks run one after the other, never two at once: what one
event stops, the recovery of another must not start in the same moment.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import assert_never

from fairwarning.agent import jobs
from fairwarning.agent.coordination import CoordinationMode, Peers, others
from fairwarning.agent.hooks import BARE, Hook, HookContext, HookOutcome
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
from fairwarning.agent.metrics import AgentMetrics
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
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId

LOG = logging.getLogger("fairwarning.agent")

#: How often neighbours are asked, and a check that said "hold" is run again.
ASK_AGAIN, CHECK_AGAIN = timedelta(seconds=1), timedelta(seconds=10)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What others may know of the agent, as of its last turn."""

    machine: str | None = None
    drained: bool = False
    ready: tuple[EventId, ...] = ()
    waits: Mapping[EventId, str]
    records: Mapping[EventId, Record]


class Agent:
    """One machine's agent, without threads: they bring messages and are given jobs."""

    def __init__(
        self,
        settings: AgentSettings,
        journal: Journal,
        endpoint: jobs.Approver,
        start: Callable[[Job], None],
        *,
        figures: AgentMetrics | None = None,
        environment: Mapping[str, str] = BARE,
        dry_run: bool = False,
    ) -> None:
        self.settings = settings
        self.figures = figures or AgentMetrics()
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
        self._told: dict[EventId, str] = {}
        self._troubles: dict[str, str] = {}
        self.snapshot = Snapshot(waits={}, records=journal.records)

    def take(self, message: Message) -> None:
        """Learn what has happened."""
        match message:
            case Polled(document=document):
                self.figures.count("polls", "ok")
                self._complain("poll_failed", "")
                if document is not None:
                    self._see(document)
            case PollFailed(problem=problem):
                self.figures.count("polls", "failed")
                self._complain("poll_failed", problem)
            case Nameless(problem=problem):
                self._complain("machine_not_named", problem)
            case Named(name=name):
                self._me = name
                self._complain("machine_not_named", "")
                LOG.info("machine_named", extra={"machine": name})
            case Finished():
                self._finish(message)
            case Answered():
                self._hear_verdict(message)
            case Heard(ready=ready):
                self._asking = False
                now = self._endpoint.now()
                for name, keys in ready.items():
                    for key in keys:
                        self._ready.setdefault((key, name), now)
            case _:
                assert_never(message)

    def _complain(self, what: str, problem: str) -> None:
        """Log a trouble when it begins, when it changes, and when it is over."""
        if self._troubles.get(what, "") != problem:
            self._troubles[what] = problem
            LOG.log(logging.WARNING if problem else logging.INFO, what, extra={"problem": problem or "over"})

    def turn(self) -> tuple[Action, ...]:
        """Do everything that is due now, and return what the plan said last."""
        actions = self._plan()
        while any([self._do_at_once(action) for action in actions]):
            actions = self._plan()
        self._start_hook(actions)
        for action in actions:
            if isinstance(action, ApproveAction):
                self._approve(action)
        self._ask_neighbours()
        self._tell(actions)
        return actions

    def _plan(self) -> tuple[Action, ...]:
        now = self._endpoint.now()
        around = Peers(
            ready=self._ready,
            known=frozenset(self.settings.peers),
            hold=self._hold if now < self._hold_until else None,
        )
        memory = Memory(records=self._journal.records, busy=frozenset(self._busy))
        return plan(self._document, memory, self._me, self.settings.policy, now, around)

    def _see(self, document: ObservedDocument) -> None:
        known = {event.key: event for event in self._document.events} if self._document else {}
        self._document = document
        for event in document.events:
            if known.get(event.key) != event:
                LOG.info("event_seen", extra=_facts(event))
            self._journal.amend(event.key, partial(_seen_as, event))
        listed = {event.key for event in document.events}
        for key in known.keys() - listed:
            LOG.info("event_gone", extra=_facts(known[key]))
        self._ready = {pair: at for pair, at in self._ready.items() if pair[0] in listed}

    def _do_at_once(self, action: Action) -> bool:
        """Take a step for which there is nothing to run; say whether there was one."""
        if isinstance(action, PrepareAction) and not self._steps(action):
            self._keep(action, EventStep.READY)
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
            # The file has changed since; what covers the event today is the best guess at undoing it.
            rule = choose(action.record.event, policy.rules, policy.freeze_threshold).name
        return self.settings.steps_of(rule).recover

    def _keep(self, action: PrepareAction, step: EventStep) -> None:
        known = self._journal.records.get(action.event.key)
        fresh = Record(
            event=action.event,
            rule=action.rule.name,
            step=step,
            at=self._endpoint.now(),
            drains=action.rule.drains,
        )
        if known is not None:
            fresh = replace(
                fresh,
                attempts=known.attempts,
                approved=known.approved,
                refused=known.refused,
                tokens=known.tokens,
            )
        self._journal.keep(fresh)

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
            self._keep(action, EventStep.PREPARING)
            limit = deadline(event, self.settings.policy.margin, now())
            occasion = HookContext(event, "prepare", machine, limit, self._dry_run)
            job: Job = partial(jobs.prepare, steps, occasion, self._journal, now)
        else:
            event, work = action.record.event, Work.RECOVER
            attempts = action.record.attempts if action.record.step is EventStep.RECOVERING else 0
            self._journal.keep(
                replace(action.record, step=EventStep.RECOVERING, attempts=attempts, at=now(), problem="")
            )
            occasion = HookContext(event, "recover", machine, None, self._dry_run)
            job = partial(jobs.recover, steps, occasion, action.record.tokens, now)
        LOG.info(f"{work}_begun", extra={**_facts(event), "why": action.why})
        self._busy.add((event.key, work))
        self._start(job)

    def _finish(self, done: Finished) -> None:
        self._busy.discard((done.key, done.work))
        word = "ok" if done.outcome.ok else "failed"
        self.figures.count(f"{done.work}s", word)
        level = logging.INFO if done.outcome.ok else logging.ERROR
        LOG.log(level, f"{done.work}_{word}", extra={"event_id": done.key, "text": done.outcome.message})
        if done.work is Work.RECOVER and done.outcome.ok:
            self._journal.forget(done.key)
        else:
            self._journal.amend(done.key, partial(_outcome, done, self._endpoint.now()))

    def _approve(self, action: ApproveAction) -> None:
        key = action.event.key
        if key not in self._journal.records:
            # An approval that comes before everything else must be remembered too.
            policy = self.settings.policy
            rule = choose(action.event, policy.rules, policy.freeze_threshold)
            self._keep(PrepareAction(action.event, rule), EventStep.PREPARING)
        LOG.info("approval_sent", extra={**_facts(action.event), "why": action.why, "dry_run": self._dry_run})
        self._busy.add((key, Work.APPROVE))
        if self._dry_run:
            self.take(Answered(key, ApprovalVerdict.ACCEPTED, "dry run"))
            return
        self._start(
            partial(jobs.approve, action.event, self._endpoint, self.settings.check, self._environment)
        )

    def _hear_verdict(self, answer: Answered) -> None:
        self._busy.discard((answer.key, Work.APPROVE))
        self.figures.count("approvals", answer.verdict)
        LOG.info(f"approval_{answer.verdict}", extra={"event_id": answer.key, "text": answer.text})
        if answer.verdict is ApprovalVerdict.HELD:
            self._hold = f"the check says hold: {answer.text}"
            self._hold_until = self._endpoint.now() + CHECK_AGAIN
        if answer.verdict is ApprovalVerdict.ACCEPTED:
            self._journal.amend(answer.key, lambda record: replace(record, approved=True))
        if answer.verdict is ApprovalVerdict.REFUSED:
            self._journal.amend(answer.key, lambda record: replace(record, refused=answer.text))

    def _ask_neighbours(self) -> None:
        now, mode = self._endpoint.now(), self.settings.policy.mode
        if self._asking or now < self._ask_at or mode is CoordinationMode.OWN_ONLY or self._document is None:
            return
        records = self._journal.records
        wanted = {
            name
            for event in self._document.events
            if event.scheduled and event.key in records and not records[event.key].approved
            for name in others(event, self._me or "")
            if name in self.settings.peers and (event.key, name) not in self._ready
        }
        if wanted:
            self._asking, self._ask_at = True, now + ASK_AGAIN
            self._start(partial(jobs.ask, {name: self.settings.peers[name] for name in sorted(wanted)}))

    def _ready_for(self, record: Record) -> bool:
        """Whether neighbours may take this machine for ready: prepared, and not meant to hold the event."""
        policy = self.settings.policy
        rule = choose(record.event, policy.rules, policy.freeze_threshold)
        return record.step is EventStep.READY and rule.approve is not Consent.NEVER

    def _tell(self, actions: tuple[Action, ...]) -> None:
        records = self._journal.records
        waits = {action.event.key: action.why for action in actions if isinstance(action, WaitAction)}
        for key, why in waits.items():
            if self._told.get(key) != why:
                LOG.info("event_waits", extra={"event_id": key, "why": why})
        self._told = waits
        self.snapshot = Snapshot(
            machine=self._me,
            drained=drained(Memory(records=records)),
            ready=tuple(key for key, record in records.items() if self._ready_for(record)),
            waits=waits,
            records=records,
        )


def _urgency(action: PrepareAction | RecoverAction) -> tuple[bool, datetime]:
    """Prepare before recovering; what may start first comes first, and what has started before all."""
    if isinstance(action, RecoverAction):
        return True, action.record.at
    return False, action.event.not_before or _EARLIEST


def _seen_as(event: ObservedEvent, record: Record) -> Record:
    return replace(record, event=event)


def _outcome(done: Finished, now: datetime, record: Record) -> Record:
    outcome: HookOutcome = done.outcome
    problem = "" if outcome.ok else outcome.message
    attempts = record.attempts if outcome.ok else record.attempts + 1
    step = EventStep.RECOVERING
    if done.work is Work.PREPARE:
        step = EventStep.READY if outcome.ok else EventStep.FAILED
    return replace(record, step=step, at=now, attempts=attempts, problem=problem)


def _facts(event: ObservedEvent) -> dict[str, object]:
    return {
        "event_id": event.key,
        "type": event.kind,
        "status": event.status,
        "resources": list(event.resources),
        "not_before": None if event.not_before is None else event.not_before.isoformat(),
    }
