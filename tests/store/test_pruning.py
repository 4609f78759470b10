"""Pruning is the same in every store: the oldest lines, a slice at a time, and no needed line."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.model import EventId
from fairwarning.engine.ports import Commit, Entry, Store
from fairwarning.store.entries import event_of
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.stores import NOTHING, commit, made
from tests.store.stories import Stage, gone, happened
from tests.store.test_replay import HISTORIES, Outcome, Player, Step, in_order

HOUR = timedelta(hours=1)


def notes(count: int, hour: int = 0) -> Commit:
    """Return a commit of notes."""
    line = ActionNote(deed=OperatorAction.SPEED, detail="x" * 200, by="alice")
    return Commit(at=NOON + hour * HOUR, changes=(line,) * count)


async def numbers(store: Store) -> list[int]:
    return [line.seq for line in await store.journal(limit=100_000)]


def test_what_is_older_goes_a_slice_at_a_time(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([notes(5), notes(5, hour=2)])

        passed = [await store.prune(NOON + HOUR, 3, ()) for _ in range(3)]

        assert passed == [3, 2, 0]
        assert await numbers(store) == [6, 7, 8, 9, 10]
        assert await store.pruned() == 5

    play(story)


def test_a_whole_journal_has_not_been_pruned(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.prune(None, 10, ()) == 0
        await store.commit([notes(1)])
        assert await store.prune(None, 10, ()) == 0
        assert (await store.pruned(), await numbers(store)) == (0, [1])

    play(story)


def test_the_newest_line_stays_and_no_number_is_given_again(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([notes(9)])
        await store.prune(None, 100, (), spare=0)
        before = await store.newest()

        ((line,),) = await store.commit([notes(1)])

        assert before is not None
        assert (before.seq, line.seq) == (9, 10)
        assert await numbers(store) == [9, 10]
        assert [one.seq for one in await store.journal(after=9)] == [10]

    play(story)


def test_as_many_lines_stay_as_are_spared(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([notes(9)])

        await store.prune(None, 100, (), spare=4)

        assert await numbers(store) == [6, 7, 8, 9]

    play(story)


def test_what_an_unfinished_event_needs_stays_until_it_is_over(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"), happened(1), happened(2))
        over = commit(first.after, gone(2))
        await store.commit([first, over, notes(3)])

        await store.prune(None, 100, ())
        during = await store.journal(event=EventId("E1"))
        left = await numbers(store)
        await store.commit([commit(over.after, gone(1)), notes(1)])
        await store.prune(None, 100, ())

        assert [line.seq for line in during] == [3]
        assert left == [3, 8]
        assert await numbers(store) == [10]

    play(story)


def test_lines_of_events_to_keep_stay(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"), happened(1), happened(2))
        await store.commit([first, commit(first.after, gone(1), gone(2)), notes(1)])

        await store.prune(None, 100, {EventId("E1")})

        assert await numbers(store) == [3, 5, 7]

    play(story)


def test_a_line_that_is_not_older_keeps_all_that_follow(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([notes(2), notes(1, hour=3), notes(2), notes(1)])

        assert await store.prune(NOON + HOUR, 100, ()) == 2
        assert await numbers(store) == [3, 4, 5, 6]

    play(story)


def test_pruned_lines_take_no_space(play: Stage) -> None:
    async def story(store: Store) -> None:
        empty = await store.size()
        await store.commit([notes(2000)])
        full = await store.size()

        await store.prune(None, 2000, ())

        assert empty < full
        assert await store.size() < empty + (full - empty) // 4

    play(story)


def test_where_the_journal_begins_is_known_after_a_restart(tmp_path: Path) -> None:
    async def story() -> tuple[int, list[int], int]:
        store = await SqliteStore.open(tmp_path)
        await store.commit([notes(9)])
        await store.prune(None, 5, ())
        await store.close()
        store = await SqliteStore.open(tmp_path)
        ((line,),) = await store.commit([notes(1)])
        result = await store.pruned(), await numbers(store), line.seq
        await store.close()
        return result

    assert asyncio.run(story()) == (5, [6, 7, 8, 9, 10], 10)


def test_free_pages_are_used_again(tmp_path: Path) -> None:
    async def story() -> tuple[int, int]:
        store = await SqliteStore.open(tmp_path)
        await store.commit([notes(3000)])
        await store.close()
        before = (tmp_path / "fairwarning.db").stat().st_size
        store = await SqliteStore.open(tmp_path)
        for _ in range(5):
            await store.prune(None, 3000, ())
            await store.commit([notes(3000)])
        await store.close()
        return before, (tmp_path / "fairwarning.db").stat().st_size

    before, after = asyncio.run(story())

    assert after < before * 1.2


# -- random histories


class ForgetfulMemory(MemoryStore):
    """A store that prunes as much as possible with every commit, a few lines at a time."""

    most = 3

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        kept = await super().commit(commits)
        await self.prune(None, self.most, ())
        return kept


class ForgetfulSqlite(SqliteStore):
    """The same on disk."""

    most = 3

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        kept = await super().commit(commits)
        await self.prune(None, self.most, ())
        return kept


async def always(store: Store) -> Store:
    """Return a store that survives its closing."""
    return store


def forget_in_memory(history: Sequence[Step], most: int) -> Outcome:
    store = ForgetfulMemory()
    store.most = most
    return asyncio.run(Player(lambda: always(store)).play(history))


def forget_on_disk(history: Sequence[Step], most: int) -> Outcome:
    async def opened() -> Store:
        store = await ForgetfulSqlite.open(Path(directory))
        assert isinstance(store, ForgetfulSqlite)
        store.most = most
        return store

    with TemporaryDirectory() as directory:
        return asyncio.run(Player(opened).play(history))


def check(history: Sequence[Step], pruned: Outcome) -> None:
    """Compare a pruned history with the same history that was not pruned."""
    store = MemoryStore()
    whole = asyncio.run(Player(lambda: always(store)).play(history))
    needed = {event for scope in whole.kept.values() for event in scope.events}
    about = [line for line in whole.lines if event_of(line.change) in needed]
    left = {line.seq: line for line in pruned.lines}

    assert in_order(pruned.kept) == in_order(whole.kept)
    assert in_order(pruned.seen) == in_order(whole.seen)
    assert pruned.lines[-1:] == whole.lines[-1:]
    assert all(left.get(line.seq) == line for line in about)
    assert all(line == whole.lines[line.seq - 1] for line in pruned.lines)


SLICES = st.sampled_from([1, 3, 1000])


@settings(max_examples=50)
@given(HISTORIES, SLICES)
def test_pruning_at_any_moment_changes_no_decision_and_takes_nothing_that_is_needed(
    history: Sequence[Step], most: int
) -> None:
    check(history, forget_in_memory(history, most))


@settings(max_examples=8)
@given(HISTORIES, SLICES)
def test_nor_does_it_on_disk(history: Sequence[Step], most: int) -> None:
    check(history, forget_on_disk(history, most))


@pytest.mark.parametrize("lines", [0, 1, 5])
def test_a_journal_pruned_to_its_last_line_goes_on_as_if_nothing_had_happened(
    play: Stage, lines: int
) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"))
        await store.commit([first, notes(lines)])
        await store.prune(None, 100, ())

        ((line,),) = await store.commit([commit(first.after, happened(1))])

        assert (line.seq, line.version) == (3 + lines, 2)

    play(story)
