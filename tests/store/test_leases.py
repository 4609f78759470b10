"""Leases are the same in every store: one owner at a time, and a fence that only grows."""

from datetime import timedelta

from fairwarning.engine.ports import Lease, Store
from tests.store.stores import Node, made
from tests.store.stories import NOON, Stage

LASTS = timedelta(seconds=10)


def test_a_lease_belongs_to_one_owner_until_it_ends(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = await store.claim("host", "a", NOON, LASTS)
        during = await store.claim("host", "b", NOON + LASTS / 2, LASTS)
        after = await store.claim("host", "b", NOON + LASTS, LASTS)

        assert first == Lease("host", "a", 1, NOON + LASTS)
        assert during is None
        assert after == Lease("host", "b", 2, NOON + 2 * LASTS)

    play(story)


def test_an_owner_that_claims_again_gets_the_next_fence(play: Stage) -> None:
    async def story(store: Store) -> None:
        old = await store.claim("host", "a", NOON, LASTS)
        new = await store.claim("host", "a", NOON, LASTS)

        assert old is not None
        assert new == Lease("host", "a", 2, NOON + LASTS)
        assert await store.renew(old, NOON, LASTS) is None

    play(story)


def test_a_renewed_lease_lasts_longer_and_keeps_its_fence(play: Stage) -> None:
    async def story(store: Store) -> None:
        lease = await store.claim("host", "a", NOON, LASTS)
        assert lease is not None
        renewed = await store.renew(lease, NOON + LASTS / 2, LASTS)

        assert renewed == Lease("host", "a", 1, NOON + LASTS * 1.5)
        assert await store.claim("host", "b", NOON + LASTS, LASTS) is None

    play(story)


def test_a_lease_that_ended_can_be_renewed_until_another_one_is_given(play: Stage) -> None:
    async def story(store: Store) -> None:
        lease = await store.claim("host", "a", NOON, LASTS)
        assert lease is not None
        late = await store.renew(lease, NOON + 2 * LASTS, LASTS)
        other = await store.claim("host", "b", NOON + 4 * LASTS, LASTS)

        assert late == Lease("host", "a", 1, NOON + 3 * LASTS)
        assert other == Lease("host", "b", 2, NOON + 5 * LASTS)
        assert await store.renew(late, NOON + 4 * LASTS, LASTS) is None

    play(story)


def test_a_released_lease_is_free_at_once_and_its_fence_is_not_given_again(play: Stage) -> None:
    async def story(store: Store) -> None:
        lease = await store.claim("host", "a", NOON, LASTS)
        assert lease is not None
        await store.release(lease)
        late = await store.renew(lease, NOON, LASTS)
        other = await store.claim("host", "b", NOON, LASTS)

        assert late is None
        assert other == Lease("host", "b", 2, NOON + LASTS)

    play(story)


def test_the_release_of_an_old_lease_does_not_end_the_newest(play: Stage) -> None:
    async def story(store: Store) -> None:
        old = await store.claim("host", "a", NOON, LASTS)
        new = await store.claim("host", "b", NOON + LASTS, LASTS)
        assert old is not None
        await store.release(old)

        assert new is not None
        assert await store.renew(new, NOON + LASTS, LASTS) == new
        assert await store.claim("host", "a", NOON + LASTS, LASTS) is None

    play(story)


def test_leases_of_different_keys_are_independent_and_no_part_of_the_journal(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit(Node().decide(made("web")))
        one = await store.claim("host", "a", NOON, LASTS)
        other = await store.claim("rack", "b", NOON, LASTS)

        assert (one, other) == (Lease("host", "a", 1, NOON + LASTS), Lease("rack", "b", 1, NOON + LASTS))
        assert await store.last() == len(await store.journal()) == 1

    play(story)
