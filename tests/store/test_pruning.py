"""Pruning is the same in every store: the oldest lines, a slice at a time, and no needed line."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.model import EventId
from fairwarning.engine.ports import Batch, Line, Store
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.stores import Node, made
from tests.store.stories import Stage, gone, happened

HOUR = timedelta(hours=1)


NOTE = ActionNote(deed=OperatorAction.SPEED, detail="x" * 200, by="alice")


def notes(count: int) -> tuple[Line, ...]:
    """Return the lines of a request that only notes something."""
    return (NOTE,) * count


def at_hours(batch: Batch, *hours: int) -> Batch:
    """Return a batch whose requests were decided at these hours."""
    parts = zip(batch.parts, hours, strict=True)
    return batch._replace(parts=tuple(part._replace(at=NOON + hour * HOUR) for part, hour in parts))


async def numbers(store: Store) -> list[int]:
    return [line.seq for line in await store.journal(limit=100_000)]


def test_what_is_older_goes_a_slice_at_a_time(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit(at_hours(Node().decide(notes(5), notes(5)), 0, 2))

        passed = [await store.prune(NOON + HOUR, 3, ()) for _ in range(3)]

        assert passed == [3, 2, 0]
        assert await numbers(store) == [6, 7, 8, 9, 10]
        assert await store.pruned() == 5

    play(story)


def test_a_whole_journal_has_not_been_pruned(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.prune(None, 10, ()) == 0
        await store.commit(Node().decide(notes(1)))
        assert await store.prune(None, 10, ()) == 0
        assert (await store.pruned(), await numbers(store)) == (0, [1])

    play(story)


def test_the_newest_line_stays_and_no_number_is_given_again(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit(Node().decide(notes(9)))
        await store.prune(None, 100, (), spare=0)
        (before,) = await store.journal(limit=1, newest_first=True)

        (line,) = await store.commit(Node().decide(notes(1)))

        assert (before.seq, line.seq) == (9, 10)
        assert await numbers(store) == [9, 10]
        assert [one.seq for one in await store.journal(after=9)] == [10]

    play(story)


def test_as_many_lines_stay_as_are_spared(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit(Node().decide(notes(9)))

        await store.prune(None, 100, (), spare=4)

        assert await numbers(store) == [6, 7, 8, 9]

    play(story)


def test_what_an_unfinished_event_needs_stays_until_it_is_over(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        first = (*made("web", "a"), happened(1), happened(2))
        await store.commit(node.decide(first, (gone(2),), notes(3)))

        await store.prune(None, 100, ())
        during = await store.journal(event=EventId("E1"))
        left = await numbers(store)
        await store.commit(node.decide((gone(1),), notes(1)))
        await store.prune(None, 100, ())

        assert [line.seq for line in during] == [3]
        assert left == [3, 8]
        assert await numbers(store) == [10]

    play(story)


def test_lines_of_events_to_keep_stay(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = (*made("web", "a"), happened(1), happened(2))
        await store.commit(Node().decide(first, (gone(1), gone(2)), notes(1)))

        await store.prune(None, 100, {EventId("E1")})

        assert await numbers(store) == [3, 5, 7]

    play(story)


def test_a_line_that_is_not_older_keeps_all_that_follow(play: Stage) -> None:
    async def story(store: Store) -> None:
        batch = Node().decide(notes(2), notes(1), notes(2), notes(1))
        await store.commit(at_hours(batch, 0, 3, 0, 0))

        assert await store.prune(NOON + HOUR, 100, ()) == 2
        assert await numbers(store) == [3, 4, 5, 6]

    play(story)


def test_pruned_lines_take_no_space(play: Stage) -> None:
    async def story(store: Store) -> None:
        empty = await store.size()
        await store.commit(Node().decide(notes(2000)))
        full = await store.size()

        await store.prune(None, 2000, ())

        assert empty < full
        assert await store.size() < empty + (full - empty) // 4

    play(story)


def test_where_the_journal_begins_is_known_after_a_restart(tmp_path: Path) -> None:
    async def story() -> tuple[int, list[int], int]:
        store = await SqliteStore.open(tmp_path)
        await store.commit(Node().decide(notes(9)))
        await store.prune(None, 5, ())
        await store.close()
        store = await SqliteStore.open(tmp_path)
        (line,) = await store.commit(Node().decide(notes(1)))
        result = await store.pruned(), await numbers(store), line.seq
        await store.close()
        return result

    assert asyncio.run(story()) == (5, [6, 7, 8, 9, 10], 10)


def test_free_pages_are_used_again(tmp_path: Path) -> None:
    async def story() -> tuple[int, int]:
        store = await SqliteStore.open(tmp_path)
        await store.commit(Node().decide(notes(3000)))
        await store.close()
        before = (tmp_path / "fairwarning.db").stat().st_size
        store = await SqliteStore.open(tmp_path)
        for _ in range(5):
            await store.prune(None, 3000, ())
            await store.commit(Node().decide(notes(3000)))
        await store.close()
        return before, (tmp_path / "fairwarning.db").stat().st_size

    before, after = asyncio.run(story())

    assert after < before * 1.2


@pytest.mark.parametrize("lines", [0, 1, 5])
def test_a_journal_pruned_to_its_last_line_goes_on_as_if_nothing_had_happened(
    play: Stage, lines: int
) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a"), notes(lines)))
        await store.prune(None, 100, ())

        (line,) = await store.commit(node.decide((happened(1),)))

        assert (line.seq, line.version) == (3 + lines, 2)

    play(story)
