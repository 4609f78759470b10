"""Writes down what an endpoint shows its machine, and touches nothing: it never approves."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fairwarning.agent.client import MetadataClient, MetadataReply, UnavailableError, back_off
from fairwarning.agent.clock import AgentClock
from fairwarning.core.document.recording import RecordedDocument, record_document
from fairwarning.core.document.render import EVENTS_PATH, Json
from fairwarning.core.errors import InvalidError
from fairwarning.formats import durations

#: However long a server wants to be left alone, its events are looked at again after this.
LONGEST_REST = timedelta(minutes=5)

#: The least by which two documents of a recording are apart.
TICK = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRequest:
    """What is to be recorded: in which api-version, how often to look, and for how long."""

    version: str
    every: timedelta
    lasts: timedelta = durations.LONGEST_DURATION


class TroubledError(UnavailableError):
    """What was answered is no document; says how long the endpoint wants to be left alone."""

    def __init__(self, problem: str, rest: timedelta = timedelta(0)) -> None:
        super().__init__(problem)
        self.rest = rest


class Recorder:
    """Hands over every document that differs from the one before, for as long as it is wanted."""

    def __init__(
        self,
        line: MetadataClient,
        clock: AgentClock,
        *,
        keep: Callable[[RecordedDocument], None],
        tell: Callable[[str], None],
        last: RecordedDocument | None = None,
    ) -> None:
        self._line = line
        self._clock = clock
        self._keep = keep
        self._tell = tell
        self._last = last
        #: When the last look was by the endpoint's calendar, and what measures time since.
        self._looked = None if last is None else (last.at + TICK, clock.elapsed())
        self._machine: str | None = None
        self._failures = 0
        self._problem = ""

    def run(self, wish: RecordingRequest) -> None:
        """Look at the document once, and again and again until time is up."""
        end = self._clock.elapsed() + wish.lasts
        rest = left = timedelta(0)
        while rest <= left:
            self._clock.wait(rest)
            rest = max(self._look(wish.version), wish.every)
            left = end - self._clock.elapsed()
        self._clock.wait(left)

    def _look(self, version: str) -> timedelta:
        """Take one look, and return how long to rest at least."""
        try:
            one = self._document(version)
        except UnavailableError as problem:
            return self._complain(problem)
        if self._problem:
            self._tell("the endpoint answers again")
        self._problem, self._failures = "", 0
        if self._is_new(one) and self._is_new(named := replace(one, machine=self._name())):
            self._keep(named)
            self._last = named
        return timedelta(0)

    def _is_new(self, one: RecordedDocument) -> bool:
        return self._last is None or not self._last.same(one)

    def _document(self, version: str) -> RecordedDocument:
        reply = self._line.get(f"{EVENTS_PATH}?api-version={version}")
        if reply.status != 200 or not reply.body.strip():
            raise TroubledError(_told(reply), _rest(reply))
        try:
            document: Json = json.loads(reply.body.decode("utf-8-sig"))
            return record_document(self._instant(), self._machine, version, document)
        except (ValueError, RecursionError):
            raise TroubledError("the endpoint answers what is not JSON") from None
        except InvalidError as problem:
            raise TroubledError(f"the endpoint answers no document: {problem}") from None

    def _instant(self) -> datetime:
        """Return what the endpoint's calendar says, but let no less time pass than really does.

        Its seconds are whole, and a manual clock stands still: documents must not fall into one instant.
        """
        at, elapsed = self._line.now(), self._clock.elapsed()
        if self._looked is not None:
            before, then = self._looked
            at = max(at, before + (elapsed - then))
        self._looked = (at, elapsed)
        return at

    def _name(self) -> str | None:
        """Return the machine's name; who does not tell it is asked again with the next document."""
        if self._machine is None:
            with suppress(UnavailableError):
                self._machine = self._line.name()
        return self._machine

    def _complain(self, problem: UnavailableError) -> timedelta:
        if str(problem) != self._problem:
            self._tell(f"{problem}; trying again")
        self._problem = str(problem)
        self._failures += 1
        asked = problem.rest if isinstance(problem, TroubledError) else timedelta(0)
        return max(back_off(self._failures - 1), asked)


def _told(reply: MetadataReply) -> str:
    text = reply.body[:200].decode(errors="replace").strip()
    return f"the endpoint answers {reply.status}: {text or 'nothing'}"


def _rest(reply: MetadataReply) -> timedelta:
    asked = reply.headers.get("retry-after", "")
    seconds = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0
    return min(timedelta(seconds=seconds), LONGEST_REST)
