"""Moves a manual clock from deadline to deadline, one request at a time; the history notes each move."""

import asyncio
from datetime import datetime, timedelta

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.formats import durations

#: The longest journey at a time.
FARTHEST = timedelta(days=366)

#: No journey goes beyond; the longest duration must still fit in between here and the calendar's end.
LAST_YEAR = 8000


class WrongClockError(FairWarningError):
    """This kind of clock cannot do that."""

    status_hint = 409


async def advance_to(engine: Engine, clock: ManualClock, to: datetime) -> None:
    """Move manual time forward, stopping at every deadline on the way.

    What happens is the same, in the same order, as if we had waited.
    """
    while (deadline := engine.next_deadline()) is not None and deadline <= to:
        clock.set(deadline)
        await engine.tick()
    clock.set(to)


class TimeControl:
    """Moves an engine's time; two travellers at once would each see half a journey."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._travelling = asyncio.Lock()
        #: Set when time has moved or passes differently; whoever waits for the next time takes the next one.
        self.moved = asyncio.Event()

    async def advance(self, by: timedelta, who: str = "operator") -> None:
        """Move manual time on, stopping at every deadline on the way."""
        manual = self._manual()
        if by > FARTHEST:
            raise InvalidError(
                "by", f"at most {durations.for_people(FARTHEST)} at a time, not {durations.for_people(by)}"
            )
        async with self._travelling:
            to = manual.now() + by
            if to.year > LAST_YEAR:
                raise InvalidError("by", f"leads beyond the year {LAST_YEAR}")
            await self._travel(manual, to, f"by {durations.for_people(by)}", who)

    async def to_next_deadline(self, who: str = "operator") -> None:
        """Move manual time to the next deadline; where nothing is due, time stays."""
        manual = self._manual()
        async with self._travelling:
            to = self._engine.next_deadline()
            if to is not None:
                await self._travel(manual, to, "to the next deadline", who)

    async def set_speed(self, speed: float, who: str = "operator") -> None:
        """Change how fast durations pass from now on; only real time has a speed."""
        if isinstance(self._engine.clock, ManualClock):
            raise WrongClockError("the clock is manual: it is advanced, it has no speed")
        self._engine.set_speed(speed)
        self._tell()
        await self._engine.remark(
            ActionNote(deed=OperatorAction.SPEED, detail=f"{speed:g} times as fast", by=who)
        )

    def _manual(self) -> ManualClock:
        if not isinstance(self._engine.clock, ManualClock):
            raise WrongClockError("the clock is real: it cannot be advanced; start with a manual clock")
        return self._engine.clock

    async def _travel(self, manual: ManualClock, to: datetime, how: str, who: str) -> None:
        # It is told before it is done: what happens on the way comes behind what brought it about.
        await self._engine.remark(ActionNote(deed=OperatorAction.ADVANCED, detail=how, by=who))
        await advance_to(self._engine, manual, to)
        await self._engine.store.note("clock", manual.now().isoformat())
        self._tell()

    def _tell(self) -> None:
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()
