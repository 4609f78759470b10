"""What only one node may do at a time, that node does with a lease."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bench.delegate import Delegate
from fairwarning.core.errors import StorageError
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.leases import LASTS, LeaseHolder
from fairwarning.engine.ports import Lease, Store
from tests.conftest import NOON
from tests.store.stores import STORES, opened

Story = Callable[[Store, ManualClock], Awaitable[None]]


@pytest.fixture(params=STORES)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Run a story on a new store."""

    async def scene(story: Story) -> None:
        async with opened(request.param, tmp_path) as store:
            await story(store, ManualClock(NOON))

    return lambda story: asyncio.run(scene(story))


def test_one_node_holds_a_lease_and_the_others_do_not(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a, b = LeaseHolder(store, "a", clock.now), LeaseHolder(store, "b", clock.now)

        assert await a.hold("prune") == Lease("prune", "a", 1, NOON + LASTS)
        assert await b.hold("prune") is None
        assert await b.hold("other") == Lease("other", "b", 1, NOON + LASTS)

    play(story)


def test_a_lease_is_held_as_long_as_its_owner_asks_for_it(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a, b = LeaseHolder(store, "a", clock.now), LeaseHolder(store, "b", clock.now)
        await a.hold("prune")
        for _ in range(10):
            clock.set(clock.now() + LASTS / 3)
            lease = await a.hold("prune")

            assert lease is not None
            assert lease.fence == 1
            assert lease.until - clock.now() >= LASTS / 2
            assert await b.hold("prune") is None

    play(story)


def test_a_lease_that_was_not_asked_for_in_time_goes_to_another_node(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a, b = LeaseHolder(store, "a", clock.now), LeaseHolder(store, "b", clock.now)
        await a.hold("prune")
        clock.set(NOON + LASTS)

        assert await b.hold("prune") == Lease("prune", "b", 2, NOON + 2 * LASTS)
        assert await a.hold("prune") is None

    play(story)


def test_released_leases_are_free_at_once_and_their_fences_grow(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a, b = LeaseHolder(store, "a", clock.now), LeaseHolder(store, "b", clock.now)
        await a.hold("prune")
        await a.hold("apply")

        await a.release_all()

        assert await b.hold("prune") == Lease("prune", "b", 2, NOON + LASTS)
        assert await b.hold("apply") == Lease("apply", "b", 2, NOON + LASTS)

    play(story)


def test_two_tasks_of_a_node_hold_the_same_lease(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a = LeaseHolder(store, "a", clock.now)

        first, second = await asyncio.gather(a.hold("apply"), a.hold("apply"))

        assert first == second == Lease("apply", "a", 1, NOON + LASTS)

    play(story)


class LostReleases(Delegate):
    """A store that cannot be reached when leases are released."""

    async def release(self, lease: Lease) -> None:
        raise StorageError("the store is away", "away")


def test_a_lease_that_cannot_be_released_ends_by_itself(play: Callable[[Story], None]) -> None:
    async def story(store: Store, clock: ManualClock) -> None:
        a, b = LeaseHolder(LostReleases(store), "a", clock.now), LeaseHolder(store, "b", clock.now)
        await a.hold("prune")

        await a.release_all()

        assert await b.hold("prune") is None
        clock.set(NOON + LASTS + timedelta(seconds=1))
        assert await b.hold("prune") is not None

    play(story)
