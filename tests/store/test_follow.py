"""Following the journal is the same in every store: whole batches, in order, for any number of followers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime

import pytest

from fairwarning.core.changes import PollsRecorded, TextChanged
from fairwarning.core.model import ScopeId
from fairwarning.engine.ports import Entry, FleetSnapshot, GapError, Line, Store
from fairwarning.store import following
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SqliteStore
from tests.store.stores import Node, changes_in, made, replayed
from tests.store.stories import DB, DB_MADE, DB_MOVED, NOON, WEB, Stage, gone, happened


class Follower:
    """A task that follows a journal, and what it has seen."""

    def __init__(self, store: Store, after: int) -> None:
        self.pages: list[Sequence[Entry]] = []
        self._store = store
        self._after = after
        self._moved = asyncio.Condition()

    @property
    def entries(self) -> list[Entry]:
        return [entry for page in self.pages for entry in page]

    async def reach(self, seq: int) -> None:
        """Wait until a line was seen."""
        async with self._moved:
            await self._moved.wait_for(lambda: bool(self.pages) and self.pages[-1][-1].seq >= seq)

    async def run(self) -> None:
        async for page in self._store.follow(self._after):
            async with self._moved:
                self.pages.append(page)
                self._moved.notify_all()


@asynccontextmanager
async def follower(store: Store, after: int = 0) -> AsyncIterator[Follower]:
    """Follow a journal in a task until the end of the block."""
    found = Follower(store, after)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def texts(count: int) -> list[Line]:
    return [TextChanged(key="a", text=str(number)) for number in range(count)]


def test_a_follower_sees_what_was_stored_and_what_is_stored_from_now_on(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        kept = [*await store.commit(node.decide(made("web", "a"), (happened(1),)))]
        async with follower(store) as other:
            await other.reach(3)
            for number in range(2, 5):
                kept += await store.commit(node.decide((happened(number),)))
                await other.reach(kept[-1].seq)

            assert other.entries == kept == list(await store.journal())

    play(story)


def test_a_follower_begins_after_the_line_that_it_names(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a")))
        second = await store.commit(node.decide((happened(1), happened(2))))
        async with follower(store, after=2) as other:
            await other.reach(4)

            assert other.entries == list(second)

    play(story)


def test_several_followers_see_the_same_each_at_its_own_pace(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        async with follower(store) as one, follower(store) as two:
            slow = store.follow(0)
            await store.commit(node.decide(texts(2)))
            first = await anext(slow)
            await one.reach(2)
            for _ in range(3):
                await store.commit(node.decide(texts(3)))
            await one.reach(11)
            await two.reach(11)
            rest = await anext(slow)

            assert one.entries == two.entries == [*first, *rest] == list(await store.journal())

    play(story)


@pytest.mark.parametrize("page", [1, 2, 3, 7])
def test_batches_are_never_cut(play: Stage, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAGE", page)

    async def story(store: Store) -> None:
        node = Node()
        for count in (1, 2, 3, 5, 1, 4):
            await store.commit(node.decide(texts(count)))
        async with follower(store) as other:
            await other.reach(16)
            await store.commit(node.decide(texts(6)))
            await other.reach(22)

            assert [entry.seq for entry in other.entries] == list(range(1, 23))
            assert all(seen[-1].seq == seen[-1].ends for seen in other.pages)

    play(story)


def test_a_batch_without_lines_is_not_followed(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        async with follower(store) as other:
            await store.commit(node.decide())
            await store.commit(node.decide(texts(1)))
            await other.reach(1)

            assert len(other.entries) == 1

    play(story)


def test_a_follower_that_ended_leaves_nothing_behind(play: Stage) -> None:
    async def story(store: Store) -> None:
        async with follower(store) as other:
            await store.commit(Node().decide(texts(1)))
            await other.reach(1)
        await store.commit(Node().decide(made("web")))

        assert isinstance(store, MemoryStore | SqliteStore | PostgresStore)
        async with asyncio.timeout(10):  # a read that was begun is finished
            while asyncio.all_tasks() != {asyncio.current_task()}:
                await asyncio.sleep(0.001)
        assert store._followers._waiting == set()

    play(story)


def test_a_follower_of_pruned_lines_is_told(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        for _ in range(5):
            await store.commit(node.decide(texts(1)))
        await store.prune(None, 3, ())

        with pytest.raises(GapError):
            await anext(store.follow(2))
        assert [entry.seq for entry in await anext(store.follow(3))] == [4, 5]

    play(story)


def test_a_follower_that_waits_while_its_lines_are_pruned_is_told(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        lines = store.follow(0)
        await store.commit(node.decide(texts(1)))
        await anext(lines)
        for _ in range(4):
            await store.commit(node.decide(texts(1)))
        await store.prune(None, 3, ())

        with pytest.raises(GapError):
            await anext(lines)

    play(story)


def test_lines_go_on_only_after_the_line_that_the_follower_has_read(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        for _ in range(3):
            await store.commit(node.decide(texts(1)))
        _, second, third = await store.journal()

        assert await anext(store.follow(2, second.stamp)) == [third]
        for after, stamp in ((2, third.stamp), (1, second.stamp), (4, third.stamp)):
            with pytest.raises(GapError):
                await asyncio.wait_for(anext(store.follow(after, stamp)), 5)

    play(story)


def test_a_follower_whose_line_was_pruned_cannot_prove_that_the_next_one_follows(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        for _ in range(3):
            await store.commit(node.decide(texts(1)))
        _, second, _ = await store.journal()
        await store.prune(None, 2, ())

        with pytest.raises(GapError):
            await anext(store.follow(2, second.stamp))

    play(story)


def folded(entries: Sequence[Entry]) -> FleetSnapshot:
    """Return the state that a node reaches by applying all lines, without the names of sets."""
    scopes = {
        scope: replace(found, version=_last(entries, scope).version)
        for scope, found in replayed(entries).items()
    }
    stored: dict[str, str] = {}
    stamps: dict[str, int] = {}
    polls: dict[ScopeId, datetime] = {}
    for entry in entries:
        match entry.change:
            case TextChanged(key=key, text=str(text)):
                stored[key], stamps[key] = text, entry.stamp
            case TextChanged(key=key):
                del stored[key], stamps[key]
            case PollsRecorded(at=at, scopes=polled):
                polls.update(dict.fromkeys(polled, at))
            case _:
                pass
    return FleetSnapshot(
        position=entries[-1].seq,
        scopes=scopes,
        scope_stamps={scope: _last(entries, scope).stamp for scope in scopes},
        sets={},
        texts=stored,
        text_stamps=stamps,
        polled=polls,
        stamp=entries[-1].stamp,
    )


def _last(entries: Sequence[Entry], scope: ScopeId) -> Entry:
    return [line for line in entries for change in changes_in([line.change]) if change.scope == scope][-1]


def test_a_snapshot_is_what_applying_all_lines_gives(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        poll = PollsRecorded(at=NOON, scopes=(WEB, DB))
        await store.commit(node.decide(made("web", "a", "b"), (happened(1), happened(2)), texts(2)))
        await store.commit(node.decide(DB_MADE, (gone(1), poll)))
        await store.commit(
            node.decide(DB_MOVED, (TextChanged(key="b", text="2"), TextChanged(key="a", text=None)))
        )
        pages = store.follow(0)

        snapshot = await store.snapshot()

        seen = [*await anext(pages)]
        while seen[-1].seq < snapshot.position:
            seen += await anext(pages)
        assert snapshot._replace(sets={}) == folded(seen)

    play(story)


def test_a_hint_at_lines_of_another_node_outlasts_a_batch_of_this_node() -> None:
    async def story() -> None:
        journal = [numbered(1)]
        followers = following.Followers()

        async def read(after: int, limit: int) -> tuple[Sequence[Entry], int]:
            return [line for line in journal if line.seq > after][:limit], 0

        async with aclosing(followers.follow(0, 0, read)) as pages, asyncio.timeout(5):
            await anext(pages)
            waiting = asyncio.ensure_future(anext(pages))
            await asyncio.sleep(0)

            journal += [numbered(2), numbered(3)]
            followers.wake()
            followers.announce(journal[1:2])

            assert [line.seq for line in await waiting] == [2]
            assert [line.seq for line in await anext(pages)] == [3]

    asyncio.run(story())


def numbered(seq: int) -> Entry:
    return Entry(seq, NOON, 0, TextChanged(key="a", text=str(seq)), stamp=seq, ends=seq)
