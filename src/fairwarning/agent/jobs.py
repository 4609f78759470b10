"""Work that takes time: hooks, approvals and requests to peers, each run in a thread of its own.

A job blocks, never raises, and returns a message for the loop. The tokens of its hooks are in the journal
before the job ends, so a job that a crash interrupts can run again from its beginning.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from http.client import HTTPException
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from fairwarning.agent.client import RefusedError, TimedConnection, UnavailableError
from fairwarning.agent.coordination import comparable
from fairwarning.agent.hooks import UNREPORTED, Hook, HookContext, HookOutcome, program
from fairwarning.agent.journal import Journal
from fairwarning.agent.plan import Record, Work
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId
from fairwarning.formats.hidden_characters import escape_hidden

LOG = logging.getLogger("fairwarning.agent")

#: The time limits of a peer's answer, and of the command that checks whether other machines are healthy.
PEER_TIMEOUT, CHECK_TIMEOUT = timedelta(seconds=2), timedelta(seconds=30)
LARGEST_ANSWER = 1024 * 1024


class ApprovalVerdict(StrEnum):
    """The result of an approval."""

    ACCEPTED = "accepted"
    HELD = "held"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Polled:
    """The endpoint answered; no document means that it has not changed."""

    document: ObservedDocument | None


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The endpoint did not answer; the last document stays valid (C-02)."""

    problem: str


@dataclass(frozen=True, slots=True)
class Nameless:
    """The endpoint returned no machine name; until it does, the agent can only wait."""

    problem: str


@dataclass(frozen=True, slots=True)
class Named:
    """The endpoint returned the name of this machine."""

    name: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The hooks of one event have ended."""

    key: EventId
    work: Work
    outcome: HookOutcome


@dataclass(frozen=True, slots=True)
class Answered:
    """An approval was sent, or held back by the check."""

    key: EventId
    verdict: ApprovalVerdict
    text: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """Peers reported the events that they are ready for."""

    ready: Mapping[str, frozenset[EventId]]


Message: TypeAlias = Polled | PollFailed | Nameless | Named | Finished | Answered | Heard
Job: TypeAlias = Callable[[], Message]
Now: TypeAlias = Callable[[], datetime]


class Approver(Protocol):
    """The part of the metadata client that approvals need."""

    def approve(self, event_id: EventId) -> None:
        """Approve an event."""

    def now(self) -> datetime:
        """Return the time by the endpoint's clock, which NotBefore refers to."""


def prepare(steps: tuple[Hook, ...], context: HookContext, journal: Journal, now: Now) -> Finished:
    """Run the steps in order, up to the first that fails; the token of each goes into the journal."""
    key = context.event.key
    for number, hook in enumerate(steps, start=1):
        remembered = journal.records[key].tokens.get(hook.name)
        if remembered is None:
            journal.amend(key, partial(_with_token, hook.name, UNREPORTED))
        outcome = _run(number, hook, context, remembered, now)
        journal.amend(key, partial(_with_token, hook.name, outcome.token))
        if not outcome.ok:
            return Finished(key, Work.PREPARE, outcome)
    return Finished(key, Work.PREPARE, HookOutcome(True, "prepared"))


def recover(steps: tuple[Hook, ...], context: HookContext, tokens: Mapping[str, str], now: Now) -> Finished:
    """Run every step, even after a failure, so that as much as possible returns to work."""
    outcomes = [
        _run(number, hook, context, tokens.get(hook.name), now) for number, hook in enumerate(steps, start=1)
    ]
    failed = [outcome.message for outcome in outcomes if not outcome.ok]
    outcome = HookOutcome(not failed, "; ".join(failed) or "recovered")
    return Finished(context.event.key, Work.RECOVER, outcome)


def approve(
    event: ObservedEvent, endpoint: Approver, check: tuple[str, ...], environment: Mapping[str, str]
) -> Answered:
    """Approve an event, unless the check fails: this may be the last healthy machine."""
    if check:
        result = program.run(check, CHECK_TIMEOUT, environment)
        if not result.ok:
            return Answered(event.key, ApprovalVerdict.HELD, result.message)
    try:
        endpoint.approve(event.id)
    except RefusedError as problem:
        return Answered(event.key, ApprovalVerdict.REFUSED, str(problem))
    except UnavailableError as problem:
        return Answered(event.key, ApprovalVerdict.UNAVAILABLE, str(problem))
    return Answered(event.key, ApprovalVerdict.ACCEPTED)


def ask_peers(peers: Mapping[str, str]) -> Heard:
    """Ask peers what they are ready for; a peer that does not answer is ready for nothing."""
    return Heard({name: _ready_events(name, url) for name, url in peers.items()})


def _run(number: int, hook: Hook, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
    try:
        outcome = hook.run(context, remembered, now)
    except Exception as problem:
        # The outermost frame of a worker: a bug in a hook counts as a failed hook and must not end the agent.
        outcome = HookOutcome(False, f"{hook.name} raised {problem!r}")
    fields = {
        "event_id": context.event.key,
        "phase": context.phase,
        "step": number,
        # Not the whole name: a command line may contain a password.
        "hook": hook.name.partition(" ")[0],
        "text": escape_hidden(outcome.message, keep="\n\t"),
    }
    if outcome.ok:
        LOG.info("hook_ok", extra=fields)
    else:
        LOG.warning("hook_failed", extra=fields)
    return outcome


def _with_token(name: str, token: str | None, record: Record) -> Record:
    others = {hook: value for hook, value in record.tokens.items() if hook != name}
    return replace(record, tokens=others if token is None else {**others, name: token})


def _ready_events(name: str, url: str) -> frozenset[EventId]:
    base = urlsplit(url)
    try:
        with TimedConnection(base.hostname or "", base.port, PEER_TIMEOUT) as connection:
            connection.request("GET", f"{base.path}/peer", headers={"Connection": "close"})
            answer = connection.getresponse()
            report: object = json.loads(answer.read(LARGEST_ANSWER)) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return frozenset()
    # An answer with the name of another machine says nothing about this peer.
    if not isinstance(report, dict) or comparable(str(report.get("machine"))) != name:
        return frozenset()
    ready = report.get("ready")
    return frozenset(EventId(str(key).upper()) for key in ready) if isinstance(ready, list) else frozenset()
