"""Pruning at any moment of a random history changes no decision and removes no needed line."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.engine.ports import Batch, Entry, Store
from fairwarning.store.entries import event_of
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.store.stores import told
from tests.store.test_replay import HISTORIES, Outcome, Player, Step, in_order


class ForgetfulMemory(MemoryStore):
    """A store that prunes as much as possible with every commit, a few lines at a time."""

    most = 3

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        kept = await super().commit(batch)
        await self.prune(None, self.most, ())
        return kept


class ForgetfulSqlite(SqliteStore):
    """The same on disk."""

    most = 3

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        kept = await super().commit(batch)
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
    lines, remaining = told(whole.lines), told(pruned.lines)
    about = [line for line in lines if event_of(line.change) in needed]
    left = {line.seq: line for line in remaining}

    assert in_order(pruned.kept) == in_order(whole.kept)
    assert in_order(pruned.seen) == in_order(whole.seen)
    assert remaining[-1:] == lines[-1:]
    assert all(left.get(line.seq) == line for line in about)
    assert all(line == lines[line.seq - 1] for line in remaining)


SLICES = st.sampled_from([1, 3, 1000])


@settings(max_examples=15)
@given(HISTORIES, SLICES)
def test_pruning_at_any_moment_changes_no_decision_and_takes_nothing_that_is_needed(
    history: Sequence[Step], most: int
) -> None:
    check(history, forget_in_memory(history, most))


@settings(max_examples=4)
@given(HISTORIES, SLICES)
def test_nor_does_it_on_disk(history: Sequence[Step], most: int) -> None:
    check(history, forget_on_disk(history, most))


@pytest.mark.slow
@settings(max_examples=50)
@given(HISTORIES, SLICES)
def test_pruning_changes_no_decision_in_many_histories(history: Sequence[Step], most: int) -> None:
    check(history, forget_in_memory(history, most))


@pytest.mark.slow
@settings(max_examples=8)
@given(HISTORIES, SLICES)
def test_nor_does_it_in_many_on_disk(history: Sequence[Step], most: int) -> None:
    check(history, forget_on_disk(history, most))
