"""Moves a manual clock, and changes the speed of a real one.

A manual clock moves from deadline to deadline, and stands still there until nothing is left to look at and
nothing is due. Events therefore happen in the same order, at the same instants, as if the time had really
passed. Requests are carried out one after another, and the journal has a note about each.
"""

import asyncio
from datetime import datetime, timedelta

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.formats import durations

#: The longest move in one request.
FARTHEST = timedelta(days=366)

#: A clock never moves beyond this year, so that adding the longest duration stays within ``datetime``.
LAST_YEAR = 8000


class WrongClockError(FairWarningError):
    """The clock does not support this operation."""

    status_hint = 409


async def stored_manual_time(store: Store) -> datetime | None:
    """Return the manual time at which the last server stopped; None if its clock was never manual."""
    text = await store.get_value("clock")
    newest = await store.journal(limit=1, newest_first=True)
    if text is None:
        return None
    moved_to = datetime.fromisoformat(text)
    return max([moved_to, *(entry.at for entry in newest)])


async def advance_to(engine: Engine, clock: ManualClock, to: datetime) -> None:
    """Move a manual clock forward; at every deadline, wait until all that follows from it is done."""
    await engine.tick()
    while (deadline := engine.next_deadline()) is not None and deadline <= to:
        clock.set(deadline)
        await engine.tick()
        await _run_upkeep(engine)
        await engine.tick()  # looks at what the upkeep has started
    clock.set(to)
    await _run_upkeep(engine)


async def _run_upkeep(engine: Engine) -> None:
    for work in engine.upkeep:
        await work()


class TimeControl:
    """Moves the clock of an engine, one request at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._moving = asyncio.Lock()
        #: Set when the clock has moved or its speed changed, and then replaced by a new event.
        self.moved = asyncio.Event()

    async def advance(self, by: timedelta, who: str = "operator") -> None:
        """Move a manual clock forward, stopping at every deadline on the way."""
        clock = self._manual_clock()
        if by > FARTHEST:
            longest, requested = durations.for_people(FARTHEST), durations.for_people(by)
            raise InvalidError("by", f"must be at most {longest} at a time, not {requested}")
        async with self._moving:
            to = clock.now() + by
            if to.year > LAST_YEAR:
                raise InvalidError("by", f"must not go beyond the year {LAST_YEAR}")
            await self._move(clock, to, f"by {durations.for_people(by)}", who)

    async def to_next_deadline(self, who: str = "operator") -> None:
        """Move a manual clock to the next deadline, if there is one."""
        clock = self._manual_clock()
        async with self._moving:
            await self._engine.tick()
            to = self._engine.next_deadline()
            if to is not None:
                await self._move(clock, to, "to the next deadline", who)

    async def set_speed(self, speed: float, who: str = "operator") -> None:
        """Change how fast durations pass from now on; only a real clock has a speed."""
        if isinstance(self._engine.clock, ManualClock):
            raise WrongClockError("a manual clock has no speed; advance it instead")
        self._engine.set_speed(speed)
        self._notify()
        await self._engine.remark(
            ActionNote(deed=OperatorAction.SPEED, detail=f"{speed:g} times as fast", by=who)
        )

    def _manual_clock(self) -> ManualClock:
        if not isinstance(self._engine.clock, ManualClock):
            raise WrongClockError("a real clock cannot be advanced; start the server with a manual clock")
        return self._engine.clock

    async def _move(self, clock: ManualClock, to: datetime, detail: str, who: str) -> None:
        # The note comes first, so that it precedes the events it causes in the journal.
        await self._engine.remark(ActionNote(deed=OperatorAction.ADVANCED, detail=detail, by=who))
        await advance_to(self._engine, clock, to)
        await self._engine.store.put_value("clock", clock.now().isoformat())
        self._notify()

    def _notify(self) -> None:
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()
