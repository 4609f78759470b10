"""Answers that are held back until there is something new to say.

Ten thousand may wait at a time, so none of them has a task or a timer of its own: the feed wakes those who
wait for a scope, and one timer rings for all whose time is up in the same tenth of a second.
"""

import asyncio
from math import ceil
from typing import Protocol

from fairwarning.core.model import MachineRef, ScopeId
from fairwarning.engine.feed import Feed
from fairwarning.http1.messages import HeldResponse, Recipient, Request, Response
from fairwarning.wakeups import Wakeups

#: How exactly the end of a wait is kept; never too early.
TICK = 0.1


class NewsSource(Protocol):
    """Where a watch looks for news."""

    def look(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Return the answer as it is now: 304 if there is no news."""
        ...

    def due(self, machine: MachineRef) -> float:
        """Return when there may be news although nothing has happened, in loop time."""
        ...


class LongPoll(HeldResponse):
    """One answer that is held back; whoever does not ``start`` it may await it."""

    __slots__ = ("_machine", "_recipient", "_request", "_tick", "_until", "_version", "_watches")

    def __init__(
        self, watches: "LongPolls", machine: MachineRef, version: str, request: Request, until: float
    ) -> None:
        self._watches = watches
        self._machine = machine
        self._version = version
        self._request = request
        self._until = until
        self._recipient: Recipient | None = None
        self._tick = 0

    def look(self) -> Response:
        """Return the answer as it is now, whether there is news or not."""
        return self._watches.source.look(self._machine, self._version, self._request)

    def start(self, recipient: Recipient) -> None:
        """Hand over the answer once there is news, or time is up."""
        self._recipient = recipient
        due = min(self._until, self._watches.source.due(self._machine))
        self._tick = self._watches.add(self._machine.scope, due, self)

    def cancel(self) -> None:
        """Wait no longer; nobody is told anything."""
        if self._recipient is not None:
            self._recipient = None
            self._watches.remove(self._machine.scope, self._tick, self)

    def wake(self) -> None:
        """See whether there is news."""
        recipient = self._recipient
        if recipient is None:
            return
        self.cancel()
        answer = self.look()
        if answer.status == 304 and asyncio.get_running_loop().time() < self._until:
            self.start(recipient)
        else:
            recipient.arrived(answer)


class LongPolls:
    """Everybody whose answer is held back."""

    def __init__(self, feed: Feed, source: NewsSource) -> None:
        self.source = source
        self._feed = feed
        self._ending: dict[int, tuple[asyncio.TimerHandle, dict[LongPoll, None]]] = {}

    def add(self, scope: ScopeId, until: float, watch: LongPoll) -> int:
        """Wake a watch when its scope's document changes, at the latest soon after ``until``."""
        self._feed.add_waiter(scope, watch)
        tick = ceil(until / TICK)
        if tick not in self._ending:
            timer = asyncio.get_running_loop().call_at(tick * TICK, self._ring, tick)
            self._ending[tick] = timer, {}
        self._ending[tick][1][watch] = None
        return tick

    def remove(self, scope: ScopeId, tick: int, watch: LongPoll) -> None:
        """Forget a watch."""
        self._feed.remove_waiter(scope, watch)
        if tick in self._ending:
            timer, watches = self._ending[tick]
            watches.pop(watch, None)
            if not watches:
                timer.cancel()
                del self._ending[tick]

    def _ring(self, tick: int) -> None:
        _, watches = self._ending.pop(tick)
        Wakeups(asyncio.get_running_loop()).add(watches)
