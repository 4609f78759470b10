"""Records the documents that an endpoint serves to its machine; only reads, never approves."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fairwarning.agent.client import (
    MetadataClient,
    MetadataReply,
    UnavailableError,
    back_off,
    requested_pause,
)
from fairwarning.agent.clock import AgentClock
from fairwarning.core.document.recording import RecordedDocument, record_document
from fairwarning.core.document.render import EVENTS_PATH, Json
from fairwarning.core.errors import InvalidError
from fairwarning.formats import durations

#: The longest pause between polls, whatever Retry-After says.
MAX_PAUSE = timedelta(minutes=5)

#: The least difference between the times of two documents.
TICK = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRequest:
    """What to record: the api-version, how often to poll, and for how long."""

    version: str
    every: timedelta
    lasts: timedelta = durations.LONGEST_DURATION
    #: Whether to wait for an endpoint that does not answer the first request.
    wait_for_first: bool = True


class Recorder:
    """Passes on every document that differs from the previous one."""

    def __init__(
        self,
        client: MetadataClient,
        clock: AgentClock,
        *,
        keep: Callable[[RecordedDocument], None],
        tell: Callable[[str], None],
        last: RecordedDocument | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._keep = keep
        self._tell = tell
        self._last = last
        #: The last poll: its time by the endpoint's clock, and by the monotonic clock.
        self._last_poll = None if last is None else (last.at + TICK, clock.elapsed())
        self._machine: str | None = None
        self._failures = 0
        self._problem = ""
        self._must_answer = False

    def run(self, request: RecordingRequest) -> None:
        """Poll the document at least once, and until the time is up.

        Raises:
            UnavailableError: the first poll failed, and the request does not wait for it.
        """
        self._must_answer = not request.wait_for_first
        end = self._clock.elapsed() + request.lasts
        pause = left = timedelta(0)
        while pause <= left:
            self._clock.wait(pause)
            pause = max(self._poll(request.version), request.every)
            left = end - self._clock.elapsed()
        self._clock.wait(left)

    def _poll(self, version: str) -> timedelta:
        """Poll once, and return the least pause before the next poll."""
        try:
            document = self._document(version)
        except UnavailableError as problem:
            if self._must_answer:
                raise
            return self._report_problem(problem)
        self._must_answer = False
        if self._problem:
            self._tell("the endpoint answers again")
        self._problem, self._failures = "", 0
        if self._is_new(document) and self._is_new(named := replace(document, machine=self._name())):
            self._keep(named)
            self._last = named
        return timedelta(0)

    def _is_new(self, document: RecordedDocument) -> bool:
        return self._last is None or not self._last.same(document)

    def _document(self, version: str) -> RecordedDocument:
        reply = self._client.get(f"{EVENTS_PATH}?api-version={version}")
        if reply.status != 200 or not reply.body.strip():
            raise UnavailableError(_describe(reply), min(requested_pause(reply), MAX_PAUSE))
        try:
            document: Json = json.loads(reply.body.decode("utf-8-sig"))
            return record_document(self._instant(), self._machine, version, document)
        except (ValueError, RecursionError):
            raise UnavailableError("the endpoint's answer is not JSON") from None
        except InvalidError as problem:
            raise UnavailableError(f"the endpoint's answer is not a document: {problem}") from None

    def _instant(self) -> datetime:
        """Return the time by the endpoint's clock, advanced by at least the time that has really passed.

        That clock has whole seconds, and a manual clock stands still; two documents must differ in time.
        """
        at, elapsed = self._client.now(), self._clock.elapsed()
        if self._last_poll is not None:
            last_at, last_elapsed = self._last_poll
            at = max(at, last_at + (elapsed - last_elapsed))
        self._last_poll = (at, elapsed)
        return at

    def _name(self) -> str | None:
        """Return the machine's name; if the endpoint returns none, the next document asks again."""
        if self._machine is None:
            with suppress(UnavailableError):
                self._machine = self._client.name()
        return self._machine

    def _report_problem(self, problem: UnavailableError) -> timedelta:
        if str(problem) != self._problem:
            self._tell(f"{problem}; trying again")
        self._problem = str(problem)
        self._failures += 1
        return max(back_off(self._failures - 1), problem.pause)


def _describe(reply: MetadataReply) -> str:
    text = reply.body[:200].decode(errors="replace").strip()
    return f"the endpoint answers {reply.status}: {text or 'empty body'}"
