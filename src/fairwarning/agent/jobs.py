"""What takes its time: hooks, approvals and questions to neighbours, each run beside the loop.

A job blocks, never raises, and ends in a message that the loop takes. What it changes on the way is in the
journal before it is done, so a crash in the middle of a job is as good as its beginning.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from fairwarning.agent.client import RefusedError, UnavailableError
from fairwarning.agent.coordination import plain
from fairwarning.agent.deadline import deadline
from fairwarning.agent.hooks import UNREPORTED, Hook, HookContext, HookOutcome, program
from fairwarning.agent.journal import Journal
from fairwarning.agent.plan import Record, Work
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId

#: How long a neighbour may take to answer, and the command that says whether others are healthy.
ASKING, CHECKING = timedelta(seconds=2), timedelta(seconds=30)
LARGEST_ANSWER = 1024 * 1024


class ApprovalVerdict(StrEnum):
    """What became of an approval."""

    ACCEPTED = "accepted"
    HELD = "held"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Polled:
    """The endpoint answered; nothing stands for nothing new."""

    document: ObservedDocument | None


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The endpoint did not answer; what was known still stands (C-02)."""

    problem: str


@dataclass(frozen=True, slots=True)
class Nameless:
    """The endpoint did not say what this machine is called; until it does, nothing can be done."""

    problem: str


@dataclass(frozen=True, slots=True)
class Named:
    """The endpoint said what this machine is called."""

    name: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The hooks of one event have ended."""

    key: EventId
    work: Work
    outcome: HookOutcome


@dataclass(frozen=True, slots=True)
class Answered:
    """An approval was sent, or held back."""

    key: EventId
    verdict: ApprovalVerdict
    text: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """Neighbours said which events they are ready for."""

    ready: Mapping[str, frozenset[EventId]]


Message: TypeAlias = Polled | PollFailed | Nameless | Named | Finished | Answered | Heard
Job: TypeAlias = Callable[[], Message]
Now: TypeAlias = Callable[[], datetime]


class Approver(Protocol):
    """Who can tell the service that an event may start."""

    def approve(self, event_id: EventId) -> None:
        """Say so."""

    def now(self) -> datetime:
        """Return the time on the calendar in which NotBefore is written."""


def prepare(steps: tuple[Hook, ...], occasion: HookContext, journal: Journal, now: Now) -> Finished:
    """Run the steps in order, up to the first that fails; each one's token is on disk when it has ended."""
    key = occasion.event.key
    for hook in steps:
        remembered = journal.records[key].tokens.get(hook.name)
        if remembered is None:
            journal.amend(key, partial(_token, hook.name, UNREPORTED))
        outcome = _run(hook, occasion, remembered, now)
        journal.amend(key, partial(_token, hook.name, outcome.token))
        if not outcome.ok:
            return Finished(key, Work.PREPARE, outcome)
    return Finished(key, Work.PREPARE, HookOutcome(True, "prepared"))


def recover(steps: tuple[Hook, ...], occasion: HookContext, tokens: Mapping[str, str], now: Now) -> Finished:
    """Run every step, whatever becomes of the others: as much as possible goes back to work."""
    outcomes = [_run(hook, occasion, tokens.get(hook.name), now) for hook in steps]
    failed = [outcome.message for outcome in outcomes if not outcome.ok]
    outcome = HookOutcome(not failed, "; ".join(failed) or "recovered")
    return Finished(occasion.event.key, Work.RECOVER, outcome)


def approve(
    event: ObservedEvent, endpoint: Approver, check: tuple[str, ...], environment: Mapping[str, str]
) -> Answered:
    """Approve an event, unless a check says that this is the last healthy machine."""
    if check:
        result = program.run(check, CHECKING, environment)
        if not result.ok:
            return Answered(event.key, ApprovalVerdict.HELD, result.message)
    try:
        endpoint.approve(event.id)
    except RefusedError as problem:
        return Answered(event.key, ApprovalVerdict.REFUSED, str(problem))
    except UnavailableError as problem:
        return Answered(event.key, ApprovalVerdict.UNAVAILABLE, str(problem))
    return Answered(event.key, ApprovalVerdict.ACCEPTED)


def ask(neighbours: Mapping[str, str]) -> Heard:
    """Ask neighbours what they are ready for; one that does not answer has said nothing."""
    return Heard({name: _ready(name, url) for name, url in neighbours.items()})


def _run(hook: Hook, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
    try:
        return hook.run(occasion, remembered, now)
    except Exception as problem:
        # The outermost frame of a worker: a hook with a bug is a hook that failed, not the end of the agent.
        return HookOutcome(False, f"{hook.name} broke: {problem!r}")


def _token(name: str, token: str | None, record: Record) -> Record:
    rest = {known: value for known, value in record.tokens.items() if known != name}
    return replace(record, tokens=rest if token is None else {**rest, name: token})


def _ready(name: str, url: str) -> frozenset[EventId]:
    where = urlsplit(url)
    line = HTTPConnection(where.hostname or "", where.port or 80, timeout=ASKING.total_seconds())
    try:
        with deadline(line, ASKING):
            line.request("GET", f"{where.path}/peer", headers={"Connection": "close"})
            answer = line.getresponse()
            said: object = json.loads(answer.read(LARGEST_ANSWER)) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return frozenset()
    # An address that answers with another machine's name says nothing about the one that was asked.
    if not isinstance(said, dict) or plain(str(said.get("machine"))) != name:
        return frozenset()
    ready = said.get("ready")
    return frozenset(EventId(str(key).upper()) for key in ready) if isinstance(ready, list) else frozenset()
