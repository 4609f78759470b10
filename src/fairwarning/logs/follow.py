"""Logs the journal as it is committed: what this node has written, on request or because it was due.

Nothing happens, and nothing is subscribed to, unless the logger is enabled for the level of these lines.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from itertools import groupby

from fairwarning.core.changes import Change
from fairwarning.core.model import ScopeId
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError, Subscription
from fairwarning.engine.ports import Entry
from fairwarning.formats.log_messages import LogMessage
from fairwarning.logs.journal import KnownFleet, LogLine, lines_of

#: How many journal lines may wait to be logged; one request can have thousands.
MOST_WAITING = 100_000

#: How many seconds further lines gather: to be woken for each commit would cost more than its lines.
GATHERING = 0.02

_LONG = timedelta(hours=1)

log = logging.getLogger("fairwarning.journal")


class JournalLog:
    """Logs what an engine commits, from ``start`` to ``close``, and what it committed before ``start``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._subscribed = ExitStack()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._last: int | None = None
        self._known = KnownFleet({})
        # The instants of a manual clock are not those of the log.
        self._with_instants = isinstance(engine.clock, ManualClock)
        if log.isEnabledFor(logging.INFO):
            self._subscription = self._subscribed.enter_context(engine.feed.subscribe(MOST_WAITING))

    def start(self) -> None:
        """Begin to log; the engine is open."""
        if self._subscription is not None:
            self._known = KnownFleet(self._engine.scopes())
            self._task = asyncio.create_task(self._run(self._subscription))

    async def close(self) -> None:
        """Log what has been committed so far, and end."""
        self._closing = True
        with self._subscribed:
            if self._subscription is not None and self._task is not None:
                self._subscription.wake()
                await self._task

    async def _run(self, subscription: Subscription) -> None:
        while True:
            try:
                entries = await subscription.next_batch(timedelta(0) if self._closing else _LONG)
            except LaggingError:
                self._known = KnownFleet(self._engine.scopes())
                continue
            if not entries and self._closing:
                return
            try:
                self._log(entries)
            except Exception:  # later lines can still be logged
                log.exception(LogMessage("journal_not_logged"))
            if not self._closing:
                await asyncio.sleep(GATHERING)

    def _log(self, entries: Sequence[Entry]) -> None:
        if entries:
            self._check_gap(entries)
        for is_own, lines in groupby(entries, self._engine.is_own):
            if is_own:
                self._log_lines(lines_of(lines, self._known))
            else:
                for entry in lines:
                    self._known.learn(entry.change)
        self._known.refresh(_touched(entries), self._engine.scopes())

    def _log_lines(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            if log.isEnabledFor(line.level):
                # log.log() would look for its caller in the stack.
                log.handle(log.makeRecord(log.name, line.level, "", 0, self._dated(line), (), None))

    def _check_gap(self, entries: Sequence[Entry]) -> None:
        first = entries[0].seq
        if self._last is not None and first > self._last + 1:
            log.warning(LogMessage("log_lines_lost", journal_lines=first - self._last - 1))
        self._last = entries[-1].seq

    def _dated(self, line: LogLine) -> LogMessage:
        if not self._with_instants:
            return line.message
        return LogMessage(line.message.event, **line.message.fields, at=line.at)


def _touched(entries: Sequence[Entry]) -> set[ScopeId]:
    return {entry.change.scope for entry in entries if isinstance(entry.change, Change)}
