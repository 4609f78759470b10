"""Batches are the same in every store: receipts, stamps and positions, names of sets, and last polls."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.changes import PollsRecorded, ScopeMade, ScopeRemoved, TextChanged
from fairwarning.core.model import ScopeId, ScopeKind, ScopeProperties
from fairwarning.engine.ports import Batch, SetName, StaleBatchError, Store
from fairwarning.store.entries import RECEIPTS
from tests.store.stores import Node, made, opened, scope_key, set_key, text_key
from tests.store.stories import DB, DB_MADE, DB_MOVED, NOON, WEB, Stage, happened

REMOVED = ScopeRemoved(scope=WEB, set_id="web", incarnation=7)


# -- receipts


def test_a_batch_that_is_sent_again_is_stored_once_and_answered_the_same(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        first, second = node.decide(made("web", "a"), (happened(1),)), node.decide((happened(2),))
        kept = [await store.commit(first), await store.commit(second)]
        before = await store.snapshot()

        again = [await store.commit(first._replace(position=0)), await store.commit(second)]

        assert again == kept
        assert await store.snapshot() == before
        assert len(await store.journal()) == await store.last() == 4

    play(story)


def test_a_batch_without_lines_is_recognised_too(play: Stage) -> None:
    batch = Batch(stamp=5, parts=(), texts={"a": "1"}, expected={text_key("a"): 0})

    async def story(store: Store) -> None:
        assert list(await store.commit(batch)) == []
        assert list(await store.commit(batch)) == []
        assert (await store.snapshot()).text_stamps == {"a": 5}

    play(story)


def test_a_refused_batch_is_not_taken_for_a_stored_one(play: Stage) -> None:
    async def story(store: Store) -> None:
        batch = Node().decide(made("web"))
        with pytest.raises(StaleBatchError):
            await store.commit(batch._replace(position=3))

        assert len(await store.commit(batch)) == 1

    play(story)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_batches_are_recognised_and_not_all(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        node = Node()
        batches = [node.decide((TextChanged(key="a", text=str(one)),)) for one in range(RECEIPTS + 1)]
        async with opened(kind, tmp_path) as store:
            for batch in batches:
                await store.commit(batch)

            assert [line.seq for line in await store.commit(batches[1])] == [2]
            with pytest.raises(StaleBatchError):
                await store.commit(batches[0])

    asyncio.run(story())


def test_no_batch_is_recognised_in_an_empty_store(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert len(await store.commit(Node().decide(made("web"))._replace(stamp=0))) == 1

    play(story)


# -- stamps and positions


def test_every_aggregate_gets_the_stamp_of_the_batch_that_wrote_it_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        text = TextChanged(key="a", text="1")
        first = node.decide(made("web"), DB_MADE, (text,))
        second = node.decide(DB_MOVED)
        await store.commit(first)
        await store.commit(second)

        found = await store.snapshot()

        assert found.position == 4
        assert found.scope_stamps == {WEB: first.stamp, DB: second.stamp}
        assert found.text_stamps == {"a": first.stamp}
        assert found.sets == {"web": SetName(first.stamp), "db": SetName(first.stamp)}

    play(story)


def test_a_conflict_names_every_stale_aggregate_and_the_last_line(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        first = node.decide(made("web"), DB_MADE, (TextChanged(key="a", text="1"),))
        await store.commit(first)
        expected = {
            scope_key("web"): first.stamp,
            scope_key("db"): 7,
            scope_key("app"): 8,
            set_key("web"): 0,
            set_key("app"): 0,
            text_key("a"): 9,
            text_key("b"): 0,
        }

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(Batch(stamp=1, parts=(), expected=expected))

        assert refusal.value.stale == {
            scope_key("db"): first.stamp,
            scope_key("app"): 0,
            set_key("web"): first.stamp,
            text_key("a"): first.stamp,
        }
        assert refusal.value.last == 3

    play(story)


def test_a_batch_that_only_read_an_aggregate_is_refused_if_that_has_changed(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a"), DB_MADE))
        other = node.copy()
        await store.commit(node.decide(DB_MOVED))
        batch = other.decide((happened(1),))
        read = {**batch.expected, scope_key("db"): other.stamps[scope_key("db")]}

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(batch._replace(expected=read))

        assert list(refusal.value.stale) == [scope_key("db")]

    play(story)


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_batch_for_another_position_is_refused(play: Stage, position: int) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a")))
        batch = node.decide((happened(1),))

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(batch._replace(position=position))

        assert (refusal.value.stale, refusal.value.last) == ({}, 2)
        assert len(await store.commit(batch._replace(position=2))) == 1

    play(story)


def test_a_scope_that_was_removed_and_made_again_is_another(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a")))
        other = node.copy()
        await store.commit(node.decide((REMOVED,)))
        await store.commit(new := node.decide(made("web", "a")))
        assert other.scopes == node.scopes

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(other.decide((happened(1),)))

        assert refusal.value.stale == {scope_key("web"): new.stamp}

    play(story)


def test_a_text_that_was_removed_and_stored_again_is_another(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        put, take = TextChanged(key="a", text="1"), TextChanged(key="a", text=None)
        await store.commit(node.decide((put,)))
        other = node.copy()
        await store.commit(node.decide((take,)))
        await store.commit(again := node.decide((put,)))

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(other.decide((take,)))

        assert refusal.value.stale == {text_key("a"): again.stamp}

    play(story)


# -- names of sets


def in_zone(zone: str) -> tuple[ScopeMade]:
    """Return the change that creates the scope of a zone of the set ``web``."""
    scope = ScopeId(f"web.zone{zone}" if zone else "web")
    facts = ScopeProperties(id=scope, kind=ScopeKind.SCALE_SET, set_name="web", zone=zone)
    return (ScopeMade(scope=scope, facts=facts, incarnation=1, by="operator"),)


def test_two_batches_that_create_the_same_set_in_different_scopes_conflict(play: Stage) -> None:
    async def story(store: Store) -> None:
        one, other = Node().decide(in_zone("")), Node().decide(in_zone("1"))
        await store.commit(one)

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(other)

        assert refusal.value.stale == {set_key("web"): one.stamp}
        assert list((await store.snapshot()).scopes) == [WEB]

    play(story)


@pytest.mark.rule("L-11")
def test_the_name_of_a_set_stays_when_its_scopes_are_removed(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web")))
        await store.commit(removed := node.decide((REMOVED,)))

        found = await store.snapshot()

        assert not found.scopes
        assert not found.scope_stamps
        assert found.sets == {"web": SetName(removed.stamp, 7)}

    play(story)


# -- last polls


def polled(minute: int, *scopes: ScopeId) -> PollsRecorded:
    return PollsRecorded(at=NOON + timedelta(minutes=minute), scopes=scopes)


def test_the_later_of_two_polls_is_the_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web"), DB_MADE))
        await store.commit(node.decide((polled(5, WEB, DB), polled(4, WEB)), (polled(1, WEB),)))
        await store.commit(node.decide((polled(2, WEB), polled(8, DB))))

        found = await store.snapshot()

        assert found.polled == {WEB: polled(5).at, DB: polled(8).at}
        assert [line.change for line in await store.journal(after=5)] == [polled(2, WEB), polled(8, DB)]

    play(story)


def test_a_poll_changes_no_scope_and_no_stamp(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a")))
        before = await store.snapshot()
        (line,) = await store.commit(node.decide((polled(1, WEB),)))

        after = await store.snapshot()

        assert (line.seq, line.version) == (3, 0)
        assert after == before._replace(position=3, stamp=line.stamp, polled={WEB: polled(1).at})
        await store.commit(node.decide((happened(1),)))

    play(story)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in several batches"])
def test_the_last_poll_of_a_removed_scope_is_forgotten(play: Stage, together: bool) -> None:
    requests = [
        made("web"),
        DB_MADE,
        (polled(1, WEB, DB, ScopeId("nowhere")),),
        (REMOVED,),
        (polled(2, WEB),),
        made("web"),
    ]

    async def story(store: Store) -> None:
        node = Node()
        for batch in [requests] if together else [[one] for one in requests]:
            await store.commit(node.decide(*batch))

        assert (await store.snapshot()).polled == {DB: polled(1).at}

    play(story)
