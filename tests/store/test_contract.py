"""Every store keeps the same promises. A new store joins by joining STORES."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.core.changes import (
    Change,
    EventChanged,
    FactsChanged,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeMade,
    ScopeRemoved,
    What,
    evolve,
)
from fairwarning.core.errors import Conflict
from fairwarning.core.history import Deed, Refused, Remark
from fairwarning.core.model import (
    Approvals,
    EventId,
    Facts,
    MachineRef,
    Model,
    Power,
    ScopeId,
    ScopeKind,
    Status,
    VmName,
    Walk,
)
from fairwarning.engine.ports import Commit, Entry, Store
from tests.store.stores import NOTHING, STORES, commit, event, machine, made, opened

WEB, DB = ScopeId("web"), ScopeId("db")
NOON = datetime(2026, 11, 16, 12, 0, 0, 250, tzinfo=UTC)

Story = Callable[[Store], Coroutine[None, None, None]]
Stage = Callable[[Story], None]


@pytest.fixture(params=STORES)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Play a story on a fresh store."""

    async def scene(story: Story) -> None:
        async with opened(request.param, tmp_path) as store:
            await story(store)

    return lambda story: asyncio.run(scene(story))


def happened(number: int, what: What = What.SCHEDULED) -> EventChanged:
    return EventChanged(scope=WEB, event=event("web", number, "a"), what=what, by="operator")


def gone(number: int) -> EventChanged:
    over = replace(event("web", number, "a"), status=Status.GONE)
    return EventChanged(scope=WEB, event=over, what=What.FINISHED, by="platform")


FULL_FACTS = Facts(
    id=WEB,
    kind=ScopeKind.FLEXIBLE_SET,
    set_name="web",
    zone="2",
    model=Model(number=3, terminate_notice=timedelta(minutes=5, microseconds=1)),
    approvals=Approvals(user_reboot=True, all_instances_down=False),
    enabled_at=NOON,
    polled_at=NOON + timedelta(seconds=1),
    deleting=True,
    walk=Walk(id="w", cause="host-update", domains=(0, 2), current=1, notice=timedelta(seconds=90)),
)
FULL_MACHINE = replace(
    machine("web", "ü b"), power=Power.STOPPED, tags=(("team", "a\n"), ("", "")), model=FULL_FACTS.model
)
FULL_EVENT = replace(
    event("web", 1, "ü b"),
    status=Status.STARTED,
    approved_by="ü b",
    started_at=NOON,
    withdraw_at=NOON,
    retry_at=NOON,
    done=(VmName("ü b"),),
    attempt=2,
    not_before=NOON + timedelta(days=7),
)
FULL: tuple[Change, ...] = (
    ScopeMade(scope=WEB, facts=FULL_FACTS, incarnation=12, by="operator"),
    MachineChanged(scope=WEB, machine=FULL_MACHINE, by="operator"),
    EventChanged(scope=WEB, event=FULL_EVENT, what=What.STARTED, by="ü b", reason="because"),
    Published(scope=WEB, incarnation=13),
)


def test_what_was_committed_is_what_is_loaded(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([commit(NOTHING, *FULL)])

        assert await store.load() == evolve(NOTHING, FULL)
        assert [line.change for line in await store.journal()] == list(FULL)

    play(story)


def test_an_empty_store_holds_nothing(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.load() == {}
        assert list(await store.journal()) == []
        assert list(await store.commit([])) == []

    play(story)


def test_scopes_machines_and_events_come_back_in_the_order_they_came_to_be(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "c", "a", "b"))
        await store.commit([first, commit(NOTHING, *made("db", "d"))])
        again = MachineChanged(scope=WEB, machine=replace(machine("web", "c"), power=Power.STOPPED))
        await store.commit([commit(first.after, happened(9), happened(3), happened(5), again)])
        await store.commit([commit(await store.load(), happened(9, What.SHOWN))])

        loaded = await store.load()

        assert list(loaded) == [WEB, DB]
        assert list(loaded[WEB].machines) == ["c", "a", "b"]
        assert list(loaded[WEB].events) == ["E9", "E3", "E5"]

    play(story)


def test_what_goes_and_comes_back_comes_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web", "a", "b"), happened(1), happened(2))
        back = MachineChanged(scope=WEB, machine=machine("web", "a"))
        away = MachineRemoved(scope=WEB, name=VmName("a"))
        await store.commit([start, commit(start.after, away, back, gone(1), happened(1))])

        loaded = await store.load()

        assert list(loaded[WEB].machines) == ["b", "a"]
        assert list(loaded[WEB].events) == ["E2", "E1"]

    play(story)


def test_what_is_gone_is_not_loaded(play: Stage) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web", "a", "b"), happened(1), happened(2))
        await store.commit([start])
        await store.commit([commit(start.after, gone(1), MachineRemoved(scope=WEB, name=VmName("b")))])

        loaded = await store.load()

        assert list(loaded[WEB].machines) == ["a"]
        assert list(loaded[WEB].events) == ["E2"]

    play(story)


def test_a_commit_on_a_stale_version_is_refused(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"))
        await store.commit([first])
        await store.commit([commit(first.after, happened(1))])

        with pytest.raises(Conflict) as refusal:
            await store.commit([commit(first.after, happened(2))])

        assert (refusal.value.scope, refusal.value.expected) == (WEB, 1)

    play(story)


DB_MADE = commit(NOTHING, *made("db"))
DB_MOVED = commit(DB_MADE.after, MachineChanged(scope=DB, machine=machine("db", "x")))
STALE = {
    "a scope that moved on": DB_MOVED,
    "a scope that should not be there": commit(NOTHING, *made("web")),
    "a scope that should be there": commit(evolve(NOTHING, made("app")), ScopeRemoved(scope=ScopeId("app"))),
}


@pytest.mark.parametrize("bad", [pytest.param(one, id=name) for name, one in STALE.items()])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_a_batch_with_one_stale_commit_nothing_is_kept(play: Stage, bad: Commit, place: int) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web", "a"))
        second = commit(start.after, happened(1))
        await store.commit([start, DB_MADE, DB_MOVED])
        before, lines = await store.load(), await store.journal()
        batch = [second, commit(second.after, happened(2))]
        batch.insert(place, bad)

        with pytest.raises(Conflict):
            await store.commit(batch)

        assert await store.load() == before
        assert await store.journal() == lines

    play(story)


def test_a_later_commit_of_a_batch_rests_on_an_earlier_one(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = commit(NOTHING, *made("web", "a"))
        second = commit(first.after, happened(1))
        third = commit(second.after, gone(1), happened(2))
        await store.commit([first, second, third])

        loaded = await store.load()

        assert loaded == third.after
        assert loaded[WEB].version == 3

    play(story)


def test_one_commit_may_move_several_scopes(play: Stage) -> None:
    async def story(store: Store) -> None:
        both = commit(NOTHING, *made("web", "a"), *made("db", "b"))
        await store.commit([both])

        assert await store.load() == both.after

    play(story)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in three batches"])
def test_a_removed_scope_that_is_made_again_starts_clean(play: Stage, together: bool) -> None:
    async def story(store: Store) -> None:
        old = commit(NOTHING, *made("web", "a", "b"), happened(1))
        removed = commit(old.after, ScopeRemoved(scope=WEB))
        new = commit(NOTHING, *made("web", "z"))
        for batch in [[old, removed, new]] if together else [[old], [removed], [new]]:
            await store.commit(batch)

        loaded = await store.load()

        assert loaded == new.after
        assert loaded[WEB].version == 1

    play(story)


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
        with pytest.raises(Conflict):
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
    note = Refused(
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
    note = Refused(scope=WEB, asked="restart", reason="no machine is called x", by="operator")

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
        elsewhere = EventChanged(scope=DB, event=event("db", 1, "x"), what=What.SCHEDULED, by="operator")
        web = commit(NOTHING, *made("web", "a"), happened(1))
        await store.commit([web, commit(NOTHING, *made("db", "x"), elsewhere), commit(web.after, gone(1))])

        lines = await store.journal(event=EventId("E1"), scope=WEB)

        assert [line.change for line in lines] == [happened(1), gone(1)]

    play(story)


def test_a_refusal_moves_no_version(play: Stage) -> None:
    note = Refused(scope=WEB, asked="restart", reason="no machine is called x", by="operator")

    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        kept = await store.commit([start, Commit(at=NOON, changes=(note,)), commit(start.after, happened(1))])

        assert (await store.load())[WEB].version == 2
        assert kept[1] == [Entry(seq=2, at=NOON, version=0, change=note)]

    play(story)


def test_a_remark_is_kept_and_changes_nothing(play: Stage) -> None:
    fault = Remark(
        deed=Deed.FAULT,
        detail="429 for 30s",
        by="operator",
        scope=WEB,
        machines=(MachineRef(WEB, VmName("a")),),
    )
    moved = Remark(deed=Deed.ADVANCED, detail="by 5m", by="operator")

    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web", "a"))
        await store.commit([start, Commit(at=NOON, changes=(fault,)), Commit(at=NOON, changes=(moved,))])

        assert await store.load() == start.after
        assert [line.change for line in await store.journal(after=2)] == [fault, moved]
        assert [line.change for line in await store.journal(scope=WEB, after=2)] == [fault]

    play(story)


def test_a_refused_request_that_is_no_text_does_not_sink_the_batch(play: Stage) -> None:
    half = EventId("\ud83d")
    note = Refused(scope=WEB, asked="approve", reason=f"no event {half}", by="web_0", event=half)

    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        kept = await store.commit([start, Commit(at=NOON, changes=(note,))])

        assert await store.load() == start.after
        assert kept[1][0].change == replace(note, reason="no event ?", event=EventId("?"))
        assert (await store.journal())[-1] == kept[1][0]

    play(story)


def test_changed_facts_are_kept(play: Stage) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        facts = replace(start.after[WEB].facts, polled_at=NOON)
        then = commit(start.after, FactsChanged(scope=WEB, facts=facts, by="a"))
        await store.commit([start])
        await store.commit([then])

        assert await store.load() == then.after

    play(story)


def test_a_note_is_remembered_until_it_is_written_over(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.noted("clock") is None

        await store.note("clock", "noon")
        await store.note("clock", "one")

        assert await store.noted("clock") == "one"
        assert await store.noted("other") is None

    play(story)


def test_documents_are_kept_with_the_commit_they_belong_to(play: Stage) -> None:
    async def story(store: Store) -> None:
        await store.commit([Commit(at=NOON, changes=(), documents={"a": "1", "b": "2"})])
        await store.commit([Commit(at=NOON, changes=(), documents={"a": None, "c": "3", "b": "4"})])
        stale = Commit(at=NOON, changes=(), documents={"d": "5"}, expected={WEB: 7})

        with pytest.raises(Conflict):
            await store.commit([stale])

        assert list((await store.documents()).items()) == [("b", "4"), ("c", "3")]

    play(story)
