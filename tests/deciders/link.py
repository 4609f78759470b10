"""The way from a node to its store: slow, late and unreliable, as chance decides."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from bench.delegate import Delegate
from fairwarning.core.errors import StorageError
from fairwarning.engine.decider import PATIENCE
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, GapError, Store


class NoAnswerError(StorageError):
    """A request to the store or its answer was lost on the way."""

    outcome_unknown: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("no answer from the store", "no answer")


class NotReachedError(StorageError):
    """The store could not be read."""

    def __init__(self) -> None:
        super().__init__("the store could not be read", "not read")


@dataclass(frozen=True, slots=True)
class Weather:
    """What may happen on the way: durations in seconds, the rest as chances."""

    #: The longest time until a follower hears of a line.
    lag: float = 0.0
    #: The longest time that a call of the store takes, each way.
    delay: float = 0.0
    #: How often a request, its answer or a page of the journal is lost.
    loss: float = 0.0
    #: How often a follower finds that the journal was pruned.
    gap: float = 0.0


class Link(Delegate):
    """A store as one node sees it."""

    def __init__(self, inner: Store, weather: Weather, chance: Random) -> None:
        super().__init__(inner)
        self.weather = weather
        self.counts: Counter[str] = Counter()
        #: The batches that were sent, by stamp, and when each was sent first.
        self.sent: dict[int, tuple[Batch, float]] = {}
        self._chance = chance
        self._dead = False
        self._inside: set[asyncio.Task[object]] = set()

    def kill(self) -> None:
        """End whatever the node is doing with its store, at once and for good."""
        self._dead = True
        for task in self._inside:
            task.cancel()

    def expecting(self, stamp: int) -> Batch | None:
        """Return a batch of the node if the node still waits for its answer, or has it."""
        batch, sent_at = self.sent.get(stamp, (None, 0.0))
        return None if asyncio.get_running_loop().time() - sent_at > PATIENCE else batch

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        self.counts["commit"] += 1
        self.sent.setdefault(batch.stamp, (batch, asyncio.get_running_loop().time()))
        with self._calling():
            await self._travel(NoAnswerError)
            entries = await super().commit(batch)
            await self._travel(NoAnswerError)
            return entries

    async def last(self) -> int:
        self.counts["last"] += 1
        with self._calling():
            await self._travel(NotReachedError)
            number = await super().last()
            await self._travel(NotReachedError)
            return number

    async def snapshot(self) -> FleetSnapshot:
        self.counts["snapshot"] += 1
        with self._calling():
            await self._travel(None)
            snapshot = await super().snapshot()
            await self._travel(None)
            return snapshot

    async def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        self.counts["follow"] += 1
        with self._calling():
            async with aclosing(super().follow(after, stamp)) as pages:
                async for page in pages:
                    await asyncio.sleep(self._chance.random() * self.weather.lag)
                    if self._chance.random() < self.weather.gap:
                        raise GapError
                    if self._chance.random() < self.weather.loss:
                        raise NotReachedError
                    yield page

    async def _travel(self, loss: type[NoAnswerError | NotReachedError] | None) -> None:
        await asyncio.sleep(self._chance.random() * self.weather.delay)
        if loss is not None and self._chance.random() < self.weather.loss:
            self.counts["lost"] += 1
            raise loss

    @contextmanager
    def _calling(self) -> Iterator[None]:
        if self._dead:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        try:
            yield
        finally:
            self._inside.discard(task)
