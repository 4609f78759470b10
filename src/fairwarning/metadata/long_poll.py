"""Long polls: responses that are held back until the document changes.

Ten thousand guests may wait at a time, so a long poll has neither a task nor a timer of its own. It is
registered twice: in the engine's feed under its scope, and in a group of all long polls that end in the
same ``TICK``. When the document of the scope changes, the feed wakes the long polls of the scope in slices
(``wakeups.py``), so that plain polls are answered in between. When a tick is over, one timer wakes its
group. A long poll that is woken builds its response once: if that is still a 304 and there is time left, it
waits again; otherwise the response is delivered to the connection.
"""

import asyncio
from math import ceil
from typing import Protocol

from fairwarning.core.model import MachineRef, ScopeId
from fairwarning.engine.feed import Feed
from fairwarning.http1.messages import HeldResponse, Recipient, Request, Response
from fairwarning.wakeups import Wakeups

#: A long poll ends at most this many seconds late, and never early.
TICK = 0.1


class NewsSource(Protocol):
    """Builds the responses of long polls."""

    def current_response(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Return the response as it is now: 304 if there is no news."""
        ...

    def next_change(self, machine: MachineRef) -> float:
        """Return when the document may change although the scope does not, in loop time."""
        ...


class LongPoll(HeldResponse):
    """One response that is held back."""

    __slots__ = ("_long_polls", "_machine", "_recipient", "_request", "_tick", "_until", "_version")

    def __init__(
        self, long_polls: "LongPolls", machine: MachineRef, version: str, request: Request, until: float
    ) -> None:
        self._long_polls = long_polls
        self._machine = machine
        self._version = version
        self._request = request
        self._until = until
        self._recipient: Recipient | None = None
        self._tick = 0

    def current_response(self) -> Response:
        """Return the response as it is now, whether there is news or not."""
        return self._long_polls.source.current_response(self._machine, self._version, self._request)

    def start(self, recipient: Recipient) -> None:
        """Deliver the response once there is news, or the time is up."""
        self._recipient = recipient
        until = min(self._until, self._long_polls.source.next_change(self._machine))
        self._tick = self._long_polls.add(self._machine.scope, until, self)

    def cancel(self) -> None:
        """Forget the recipient."""
        if self._recipient is not None:
            self._recipient = None
            self._long_polls.remove(self._machine.scope, self._tick, self)

    def wake(self) -> None:
        """Deliver the response if there is news or the time is up; wait again otherwise."""
        recipient = self._recipient
        if recipient is None:
            return
        self.cancel()
        response = self.current_response()
        if response.status == 304 and asyncio.get_running_loop().time() < self._until:
            self.start(recipient)
        else:
            recipient.deliver(response)


class LongPolls:
    """All long polls that wait."""

    def __init__(self, feed: Feed, source: NewsSource) -> None:
        self.source = source
        self._feed = feed
        self._ticks: dict[int, tuple[asyncio.TimerHandle, dict[LongPoll, None]]] = {}

    def add(self, scope: ScopeId, until: float, long_poll: LongPoll) -> int:
        """Wake a long poll when the document of its scope changes, at the latest soon after ``until``."""
        self._feed.add_waiter(scope, long_poll)
        tick = ceil(until / TICK)
        if tick not in self._ticks:
            timer = asyncio.get_running_loop().call_at(tick * TICK, self._end_tick, tick)
            self._ticks[tick] = timer, {}
        self._ticks[tick][1][long_poll] = None
        return tick

    def remove(self, scope: ScopeId, tick: int, long_poll: LongPoll) -> None:
        """Forget a long poll."""
        self._feed.remove_waiter(scope, long_poll)
        if tick in self._ticks:
            timer, group = self._ticks[tick]
            group.pop(long_poll, None)
            if not group:
                timer.cancel()
                del self._ticks[tick]

    def _end_tick(self, tick: int) -> None:
        _, group = self._ticks.pop(tick)
        Wakeups(asyncio.get_running_loop()).add(group)
