"""The contract of all stores; a new store is tested by adding it to STORES."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
    evolve,
)
from fairwarning.core.errors import ConflictError
from fairwarning.core.model import (
    ApprovalSettings,
    EventStatus,
    MachineModel,
    PowerState,
    Rollout,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.engine.ports import Commit, Store
from tests.store.stores import NOTHING, commit, event, machine, made
from tests.store.stories import DB, DB_MADE, DB_MOVED, NOON, WEB, Stage, gone, happened

FULL_FACTS = ScopeProperties(
    id=WEB,
    kind=ScopeKind.FLEXIBLE_SET,
    set_name="web",
    zone="2",
    model=MachineModel(number=3, terminate_notice=timedelta(minutes=5, microseconds=1)),
    approvals=ApprovalSettings(user_reboot=True, all_instances_down=False),
    enabled_at=NOON,
    polled_at=NOON + timedelta(seconds=1),
    deleting=True,
    walk=Rollout(id="w", cause="host-update", domains=(0, 2), current=1, notice=timedelta(seconds=90)),
)
FULL_MACHINE = replace(
    machine("web", "ü b"), power=PowerState.STOPPED, tags=(("team", "a\n"), ("", "")), model=FULL_FACTS.model
)
FULL_EVENT = replace(
    event("web", 1, "ü b"),
    status=EventStatus.STARTED,
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
    EventChanged(scope=WEB, event=FULL_EVENT, what=EventMilestone.STARTED, by="ü b", reason="because"),
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
        again = MachineChanged(scope=WEB, machine=replace(machine("web", "c"), power=PowerState.STOPPED))
        await store.commit([commit(first.after, happened(9), happened(3), happened(5), again)])
        await store.commit([commit(await store.load(), happened(9, EventMilestone.SHOWN))])

        loaded = await store.load()

        assert list(loaded) == [WEB, DB]
        assert list(loaded[WEB].machines) == ["c", "a", "b"]
        assert list(loaded[WEB].events) == ["E9", "E3", "E5"]

    play(story)


def test_what_goes_and_comes_back_comes_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web", "a", "b"), happened(1), happened(2))
        again = replace(machine("web", "a"), vm_id="made again")
        back = MachineChanged(scope=WEB, machine=again)
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

        with pytest.raises(ConflictError) as refusal:
            await store.commit([commit(first.after, happened(2))])

        assert (refusal.value.scope, refusal.value.expected) == (WEB, 1)

    play(story)


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

        with pytest.raises(ConflictError):
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


def test_changed_facts_are_kept(play: Stage) -> None:
    async def story(store: Store) -> None:
        start = commit(NOTHING, *made("web"))
        facts = replace(start.after[WEB].facts, polled_at=NOON)
        then = commit(start.after, ScopePropertiesChanged(scope=WEB, facts=facts, by="a"))
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

        with pytest.raises(ConflictError):
            await store.commit([stale])

        assert list((await store.documents()).items()) == [("b", "4"), ("c", "3")]

    play(story)
