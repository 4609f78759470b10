"""The journal is the same in every store: numbered, read in pages, with refused commands."""

from dataclasses import replace

import pytest

from fairwarning.core.changes import EventChanged, EventMilestone, ScopeRemoved
from fairwarning.core.errors import ConflictError
from fairwarning.core.history import ActionNote, CommandRefused, OperatorAction
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.engine.ports import Commit, Entry, Store
from tests.store.stores import NOTHING, commit, event, made
from tests.store.stories import DB, DB_MADE, DB_MOVED, NOON, WEB, Stage, gone, happened


def test_a_removed_scope_is_gone_but_its_journal_stays(play: Stage) -> None:
    async def story(store: Store) -> None:
        old = commit(NOTHING, *made("web", "a"), happened(1))
        await store.commit([old])
        await store.commit([commit(old.after, ScopeRemoved(scope=WEB))])

        assert await store.load() == {}
        assert [line.change for line in await store.journal()] == [*old.changes, ScopeRemoved(scope=WEB)]

    play(story)


def test_the_journal_is_numbered_without_gaps_across_commits_and_batches(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"))
        second = commit(first.after, happened(1))
        third = commit(second.after, happened(2), happened(3))
        kept = [*await store.commit([first, second]), *await store.commit([third])]

        lines = await store.journal()

        assert [[line.seq for line in entries] for entries in kept] == [[1, 2], [3], [4, 5]]
        assert list(lines) == [line for entries in kept for line in entries]
        assert [line.version for line in lines] == [1, 1, 2, 3, 3]
        assert {line.at for line in lines} == {first.at}

    play(story)


def test_a_refused_batch_leaves_no_gap_in_the_numbers(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web"))
        await store.commit([first])
        with pytest.raises(ConflictError):
            await store.commit([first])

        ((line,),) = await store.commit([commit(first.after, happened(1))])

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
        await store.commit([commit(NOTHING, *made("web", "a"), happened(1), happened(2), happened(1))])

        lines = await store.journal(after=page.get("after", 0), limit=page.get("limit", 1000))

        assert [line.seq for line in lines] == expected

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
        start = commit(NOTHING, *made("web", "a"), happened(1), happened(2))
        await store.commit([start, Commit(at=NOON, changes=(note,)), commit(start.after, gone(1))])

        lines = await store.journal(event=EventId("E1"))

        assert [(line.seq, line.change) for line in lines] == [(3, happened(1)), (5, note), (6, gone(1))]
        assert [line.seq for line in await store.journal(event=EventId("E1"), after=3, limit=1)] == [5]
        assert list(await store.journal(event=EventId("E3"))) == []

    play(story)


def test_the_journal_of_one_scope_holds_what_happened_in_it_and_nothing_else(play: Stage) -> None:
    note = CommandRefused(scope=WEB, asked="restart", reason="no machine named x", by="operator")

    async def story(store: Store) -> None:
        web = commit(NOTHING, *made("web", "a"), happened(1))
        removed = commit(web.after, ScopeRemoved(scope=WEB))
        await store.commit([DB_MADE, web, Commit(at=NOON, changes=(note,)), DB_MOVED, removed])

        lines = await store.journal(scope=WEB)

        assert [(line.seq, line.change) for line in lines] == [
            *enumerate(web.changes, start=2),
            (5, note),
            (7, ScopeRemoved(scope=WEB)),
        ]
        assert [line.seq for line in await store.journal(scope=WEB, after=2, limit=2)] == [3, 4]
        assert list(await store.journal(scope=ScopeId("app"))) == []

    play(story)


def test_the_journal_of_one_event_in_one_scope_leaves_out_its_part_in_others(play: Stage) -> None:
    async def story(store: Store) -> None:
        elsewhere = EventChanged(
            scope=DB, event=event("db", 1, "x"), what=EventMilestone.SCHEDULED, by="operator"
        )
        web = commit(NOTHING, *made("web", "a"), happened(1))
        await store.commit([web, commit(NOTHING, *made("db", "x"), elsewhere), commit(web.after, gone(1))])

        lines = await store.journal(event=EventId("E1"), scope=WEB)

        assert [line.change for line in lines] == [happened(1), gone(1)]

    play(story)


def test_a_refusal_moves_no_version(play: Stage) -> None:
    note = CommandRefused(scope=WEB, asked="restart", reason="no machine named x", by="operator")

    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        kept = await store.commit([start, Commit(at=NOON, changes=(note,)), commit(start.after, happened(1))])

        assert (await store.load())[WEB].version == 2
        assert kept[1] == [Entry(seq=2, at=NOON, version=0, change=note)]

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
        start = commit(NOTHING, *made("web", "a"))
        await store.commit([start, Commit(at=NOON, changes=(fault,)), Commit(at=NOON, changes=(moved,))])

        assert await store.load() == start.after
        assert [line.change for line in await store.journal(after=2)] == [fault, moved]
        assert [line.change for line in await store.journal(scope=WEB, after=2)] == [fault]

    play(story)


def test_a_refused_request_that_is_no_text_does_not_sink_the_batch(play: Stage) -> None:
    half = EventId("\ud83d")
    note = CommandRefused(scope=WEB, asked="approve", reason=f"no event {half}", by="web_0", event=half)

    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        kept = await store.commit([start, Commit(at=NOON, changes=(note,))])

        assert await store.load() == start.after
        assert kept[1][0].change == replace(note, reason="no event ?", event=EventId("?"))
        assert (await store.journal())[-1] == kept[1][0]

    play(story)
