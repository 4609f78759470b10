"""Collects the observations of a scenario, and lets the steps wait for them.

The steps of a scenario wait here for moments (``wait_until``). A server that has recorded an observation
can wait in turn until the steps have done what was due at that moment (``wait_idle``). So a step can kill a
handler before the handler gets the answer that the step waited for.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from fairwarning.check.observations import Asked, CausedEvent, Happened, Hooked, Life, Observed, Spell

T = TypeVar("T")


@dataclass(slots=True)
class ObservationLog:
    """The observations so far."""

    zero: float
    asked: dict[int, Asked] = field(default_factory=dict)
    hooks: dict[int, Hooked] = field(default_factory=dict)
    lives: dict[int, Life] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    events: list[CausedEvent] = field(default_factory=list)
    _waiting: dict[asyncio.Event, Callable[[], bool]] = field(default_factory=dict)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> timedelta:
        """Return the time since the scenario began."""
        return timedelta(seconds=asyncio.get_running_loop().time() - self.zero)

    def add_request(self, request: Asked) -> int:
        """Add a request and return its number."""
        return self._put(self.asked, request, None)

    def add_request_body(self, number: int, body: bytes) -> None:
        """Add the body of a request."""
        self.asked[number] = replace(self.asked[number], body=body)

    def add_answer(self, number: int, *, status: int, answer: bytes) -> None:
        """Add the answer to a request."""
        self.asked[number] = replace(self.asked[number], ended=self.now(), status=status, answer=answer)
        self.wake_waiters()

    def end_request(self, number: int) -> None:
        """Record that the handler or the endpoint gave up a request, unless it has ended."""
        request = self.asked[number]
        if request.ended is None:
            self.asked[number] = replace(request, ended=self.now())
            self.wake_waiters()

    def put_hook(self, hook: Hooked, number: int | None = None) -> int:
        """Add a hook, or replace the one with this number; return its number."""
        return self._put(self.hooks, hook, number)

    def put_life(self, life: Life, number: int | None = None) -> int:
        """Add a run of a handler, or replace the one with this number; return its number."""
        return self._put(self.lives, life, number)

    def add_events(self, events: Iterable[CausedEvent]) -> None:
        """Add the events that a step caused."""
        self.events.extend(events)
        self.wake_waiters()

    def add_history(self, entry: Happened) -> None:
        """Add a line of the server's history."""
        self.happened.append(entry)
        self.wake_waiters()

    def _put(self, entries: dict[int, T], entry: T, number: int | None) -> int:
        key = len(entries) if number is None else number
        entries[key] = entry
        self.wake_waiters()
        return key

    def wake_waiters(self) -> None:
        """Wake everything that waits for a condition that now holds."""
        for event, condition in list(self._waiting.items()):
            if condition():
                self._idle.clear()
                event.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is evaluated after every observation."""
        if condition():
            return
        event = asyncio.Event()
        self._waiting[event] = condition
        self._idle.set()
        try:
            await event.wait()
        finally:
            del self._waiting[event]
            self._idle.clear()

    async def pause(self, length: timedelta) -> None:
        """Wait for a length of time."""
        self._idle.set()
        try:
            await asyncio.sleep(length.total_seconds())
        finally:
            self._idle.clear()

    def finish(self) -> None:
        """Record that all steps are done; ``wait_idle`` returns from now on."""
        self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until the steps have done everything that is due and are waiting again."""
        await self._idle.wait()

    def observed(self, output: Mapping[str, str], steps_left: int) -> Observed:
        """Return all observations, as they are now."""
        return Observed(
            ended=self.now(),
            asked=tuple(self.asked.values()),
            hooks=tuple(self.hooks.values()),
            happened=tuple(self.happened),
            lives=tuple(self.lives.values()),
            spells=tuple(self.spells),
            events=tuple(self.events),
            steps_left=steps_left,
            output=output,
        )
