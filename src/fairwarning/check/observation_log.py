"""Where everything that is seen during a play is written down, and where others wait for it.

Whoever plays the scenario waits here for moments. A bystander that has seen one can wait in turn until the
player has done what is due then (``settled``): so a handler can be killed before it learns of what we know.
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
    """What has been seen so far."""

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
        """Return how long the play has been going on."""
        return timedelta(seconds=asyncio.get_running_loop().time() - self.zero)

    def asking(self, one: Asked) -> int:
        """Write down a request and return its number."""
        return self._keep(self.asked, one, None)

    def sent(self, number: int, body: bytes) -> None:
        """Write down the body of a request."""
        self.asked[number] = replace(self.asked[number], body=body)

    def answered(self, number: int, *, status: int, answer: bytes) -> None:
        """Write down the answer to a request."""
        self.asked[number] = replace(self.asked[number], ended=self.now(), status=status, answer=answer)
        self.look()

    def abandoned(self, number: int) -> None:
        """Write down that the handler or the endpoint gave a request up; the first of them ends it."""
        one = self.asked[number]
        if one.ended is None:
            self.asked[number] = replace(one, ended=self.now())
            self.look()

    def hook(self, one: Hooked, number: int | None = None) -> int:
        """Write down a hook, new or as it is by now, and return its number."""
        return self._keep(self.hooks, one, number)

    def live(self, one: Life, number: int | None = None) -> int:
        """Write down a run of a handler, new or as it ended, and return its number."""
        return self._keep(self.lives, one, number)

    def announce(self, events: Iterable[CausedEvent]) -> None:
        """Write down what a step has caused."""
        self.events.extend(events)
        self.look()

    def happen(self, one: Happened) -> None:
        """Write down what the server's history says."""
        self.happened.append(one)
        self.look()

    def _keep(self, kept: dict[int, T], one: T, number: int | None) -> int:
        place = len(kept) if number is None else number
        kept[place] = one
        self.look()
        return place

    def look(self) -> None:
        """Wake whoever waited for what is so by now."""
        for event, holds in list(self._waiting.items()):
            if holds():
                self._idle.clear()
                event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something is so; it is looked at whenever something was written down."""
        if holds():
            return
        event = asyncio.Event()
        self._waiting[event] = holds
        self._idle.set()
        try:
            await event.wait()
        finally:
            del self._waiting[event]
            self._idle.clear()

    async def pause(self, length: timedelta) -> None:
        """Let a while pass."""
        self._idle.set()
        try:
            await asyncio.sleep(length.total_seconds())
        finally:
            self._idle.clear()

    def rest(self) -> None:
        """Say that nothing more is to be done."""
        self._idle.set()

    async def settled(self) -> None:
        """Return once the player has done what is due, and waits again."""
        await self._idle.wait()

    def observed(self, output: Mapping[str, str], untaken: int) -> Observed:
        """Return everything, as it is now."""
        return Observed(
            ended=self.now(),
            asked=tuple(self.asked.values()),
            hooks=tuple(self.hooks.values()),
            happened=tuple(self.happened),
            lives=tuple(self.lives.values()),
            spells=tuple(self.spells),
            events=tuple(self.events),
            untaken=untaken,
            output=output,
        )
