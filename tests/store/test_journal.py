"""The journal is the same in every store: numbered, read in pages, with refused commands."""

from dataclasses import replace

import pytest

from fairwarning.core.changes import EventChanged, EventMilestone, ScopeRemoved, TextChanged
from fairwarning.core.history import ActionNote, CommandRefused, OperatorAction
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.engine.ports import StaleBatchError, Store
from tests.store.stores import Node, event, lines_of, made
from tests.store.stories import DB, DB_MADE, DB_MOVED, WEB, Stage, gone, happened


def test_a_removed_scope_is_gone_but_its_journal_stays(play: Stage) -> None:
    async def story(store: Store) -> None:
        node, old = Node(), (*made("web", "a"), happened(1))
        await store.commit(node.decide(old))
        await store.commit(node.decide((ScopeRemoved(scope=WEB),)))

        assert (await store.snapshot()).scopes == {}
        assert [line.change for line in await store.journal()] == [*old, ScopeRemoved(scope=WEB)]

    play(story)


def test_the_journal_is_numbered_without_gaps_across_requests_and_batches(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        first = node.decide(made("web", "a"), (happened(1),))
        second = node.decide((happened(2), happened(3)))
        kept = [await store.commit(first), await store.commit(second)]

        lines = await store.journal()

        assert [[line.seq for line in entries] for entries in kept] == [[1, 2, 3], [4, 5]]
        assert list(lines) == [line for entries in kept for line in entries]
        assert [line.version for line in lines] == [1, 1, 2, 3, 3]
        assert [line.request for line in lines] == [*["request 1"] * 2, "request 2", *["request 1"] * 2]
        assert [line.stamp for line in lines] == [*[first.stamp] * 3, *[second.stamp] * 2]
        assert [line.ends for line in lines] == [3, 3, 3, 5, 5]
        assert {line.at for line in lines} == {first.parts[0].at}
        assert await store.last() == 5

    play(story)


def test_a_refused_batch_leaves_no_gap_in_the_numbers(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web")))
        with pytest.raises(StaleBatchError):
            await store.commit(Node().decide(made("web")))

        (line,) = await store.commit(node.decide((happened(1),)))

        assert line.seq == 2

    play(story)


PAGES = [
    pytest.param({}, [1, 2, 3, 4, 5], id="all of it"),
    pytest.param({"after": 2}, [3, 4, 5], id="behind a line"),
    pytest.param({"after": 1, "limit": 2}, [2, 3], id="a page of it"),
    pytest.param({"after": 5}, [], id="behind the last line"),
    pytest.param({"after": 99}, [], id="behind lines that do not exist yet"),
]


@pytest.mark.parametrize(("page", "expected"), PAGES)
def test_the_journal_is_read_in_pages(play: Stage, page: dict[str, int], expected: list[int]) -> None:
    async def story(store: Store) -> None:
        await store.commit(Node().decide((*made("web", "a"), happened(1), happened(2), happened(1))))
        after, limit = page.get("after", 0), page.get("limit", 1000)

        lines = await store.journal(after=after, limit=limit)

        assert [line.seq for line in lines] == expected
        back = await store.journal(after=after, limit=limit, newest_first=True)
        assert [line.seq for line in back] == [5, 4, 3, 2, 1][: len(expected)]

    play(story)


def test_the_journal_of_one_event_holds_what_was_done_and_what_was_refused(play: Stage) -> None:
    note = CommandRefused(
        scope=WEB,
        asked="cancel",
        reason="it has started",
        by="operator",
        event=EventId("E1"),
        machines=(MachineRef(WEB, VmName("a")),),
    )

    async def story(store: Store) -> None:
        start = (*made("web", "a"), happened(1), happened(2))
        await store.commit(Node().decide(start, (note,), (gone(1),)))

        lines = await store.journal(event=EventId("E1"))

        assert [(line.seq, line.change) for line in lines] == [(3, happened(1)), (5, note), (6, gone(1))]
        assert [line.seq for line in await store.journal(event=EventId("E1"), after=3, limit=1)] == [5]
        newest = await store.journal(event=EventId("E1"), limit=2, newest_first=True)
        assert [line.seq for line in newest] == [6, 5]
        assert list(await store.journal(event=EventId("E3"))) == []

    play(story)


def test_the_journal_of_one_scope_holds_what_happened_in_it_and_nothing_else(play: Stage) -> None:
    note = CommandRefused(scope=WEB, asked="restart", reason="no machine named x", by="operator")

    async def story(store: Store) -> None:
        web = (*made("web", "a"), happened(1))
        await store.commit(Node().decide(DB_MADE, web, (note,), DB_MOVED, (ScopeRemoved(scope=WEB),)))

        lines = await store.journal(scope=WEB)

        assert [(line.seq, line.change) for line in lines] == [
            *enumerate(web, start=2),
            (5, note),
            (7, ScopeRemoved(scope=WEB)),
        ]
        assert [line.seq for line in await store.journal(scope=WEB, after=2, limit=2)] == [3, 4]
        newest = await store.journal(scope=WEB, limit=2, newest_first=True)
        assert [line.seq for line in newest] == [7, 5]
        assert list(await store.journal(scope=ScopeId("app"))) == []

    play(story)


def test_the_journal_of_one_event_in_one_scope_leaves_out_its_part_in_others(play: Stage) -> None:
    async def story(store: Store) -> None:
        elsewhere = EventChanged(
            scope=DB, event=event("db", 1, "x"), what=EventMilestone.SCHEDULED, by="operator"
        )
        web = (*made("web", "a"), happened(1))
        await store.commit(Node().decide(web, (*made("db", "x"), elsewhere), (gone(1),)))

        lines = await store.journal(event=EventId("E1"), scope=WEB)

        assert [line.change for line in lines] == [happened(1), gone(1)]

    play(story)


def test_a_refusal_moves_no_version(play: Stage) -> None:
    note = CommandRefused(scope=WEB, asked="restart", reason="no machine named x", by="operator")

    async def story(store: Store) -> None:
        kept = await store.commit(Node().decide(made("web"), (note,), (happened(1),)))

        assert (await store.snapshot()).scopes[WEB].version == 2
        assert (kept[1].seq, kept[1].version, kept[1].change) == (2, 0, note)

    play(story)


def test_a_note_is_stored_and_changes_nothing(play: Stage) -> None:
    fault = ActionNote(
        deed=OperatorAction.FAULT,
        detail="429 for 30s",
        by="operator",
        scope=WEB,
        machines=(MachineRef(WEB, VmName("a")),),
    )
    moved = ActionNote(deed=OperatorAction.ADVANCED, detail="by 5m", by="operator")

    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a"), (fault,), (moved,)))

        assert (await store.snapshot()).scopes == node.scopes
        assert [line.change for line in await store.journal(after=2)] == [fault, moved]
        assert [line.change for line in await store.journal(scope=WEB, after=2)] == [fault]

    play(story)


#: A text that a caller chose and a database refuses, and the text that is stored.
HALF, STORED = "\ud83d \0\n", "? ?\n"


def test_a_refused_request_that_is_no_text_does_not_sink_the_batch(play: Stage) -> None:
    note = CommandRefused(scope=WEB, asked=HALF, reason=f"no event {HALF}", by="web_0", event=EventId(HALF))

    async def story(store: Store) -> None:
        node = Node()
        kept = await store.commit(node.decide(made("web"), (note,)))

        assert (await store.snapshot()).scopes == node.scopes
        assert kept[1].change == replace(
            note, asked=STORED, reason=f"no event {STORED}", event=EventId(STORED)
        )
        assert (await store.journal())[-1] == kept[1]

    play(story)


def test_nor_does_a_reason_a_note_or_the_id_of_a_request(play: Stage) -> None:
    cancelled = replace(happened(1), reason=HALF, by=HALF)
    note = ActionNote(deed=OperatorAction.SPEED, detail=HALF, by=HALF)

    async def story(store: Store) -> None:
        batch = Node().decide((*made("web", "a"), cancelled, note))
        batch = batch._replace(parts=(batch.parts[0]._replace(request=HALF),))
        kept = await store.commit(batch)

        assert [line.change for line in kept[2:]] == [
            replace(cancelled, reason=STORED, by=STORED),
            replace(note, detail=STORED, by=STORED),
        ]
        assert {line.request for line in kept} == {STORED}
        assert list(await store.journal()) == list(kept)

    play(story)


def test_nor_does_a_text_or_its_key(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        kept = await store.commit(node.decide((TextChanged(key=HALF, text=HALF),)))
        during = await store.snapshot()
        await store.commit(node.decide((TextChanged(key=HALF, text=None),)))

        assert [line.change for line in kept] == [TextChanged(key=STORED, text=STORED)]
        assert during.texts == {STORED: STORED}
        assert (await store.snapshot()).texts == {}

    play(story)


def test_texts_are_in_the_journal(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        batch = node.decide((*made("web"), TextChanged(key="/sets/web", text='{"sku":"ü"}')))
        await store.commit(batch)
        await store.commit(node.decide((TextChanged(key="/sets/web", text=None),)))

        lines = await store.journal()

        assert [line.change for line in lines] == [
            *lines_of(batch),
            TextChanged(key="/sets/web", text=None),
        ]
        assert [line.version for line in lines] == [1, 0, 0]
        assert [line.seq for line in await store.journal(scope=WEB)] == [1]

    play(story)
