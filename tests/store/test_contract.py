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
    TextChanged,
    evolve,
)
from fairwarning.core.model import (
    ApprovalSettings,
    EventStatus,
    Failure,
    MachineModel,
    PowerState,
    Rollout,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.engine.ports import Aggregate, Batch, FleetSnapshot, StaleBatchError, Store
from tests.store.stores import NOTHING, Node, event, machine, made, scope_key, text_key
from tests.store.stories import DB, DB_MADE, NOON, WEB, Stage, gone, happened

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
    failures=(Failure(VmName("ü b"), 2, NOON),),
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
        await store.commit(Node().decide(FULL))

        assert (await store.snapshot()).scopes == evolve(NOTHING, FULL)
        assert [line.change for line in await store.journal()] == list(FULL)

    play(story)


def test_an_empty_store_holds_nothing(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.snapshot() == FleetSnapshot(
            position=0, scopes={}, scope_stamps={}, sets={}, texts={}, text_stamps={}, polled={}
        )
        assert list(await store.journal()) == []
        assert list(await store.commit(Batch(stamp=1, parts=()))) == []
        assert await store.last() == 0

    play(story)


def test_scopes_machines_and_events_come_back_in_the_order_they_came_to_be(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "c", "a", "b"), made("db", "d")))
        again = MachineChanged(scope=WEB, machine=replace(machine("web", "c"), power=PowerState.STOPPED))
        await store.commit(node.decide((happened(9), happened(3), happened(5), again)))
        await store.commit(node.decide((happened(9, EventMilestone.SHOWN),)))

        loaded = (await store.snapshot()).scopes

        assert list(loaded) == [WEB, DB]
        assert list(loaded[WEB].machines) == ["c", "a", "b"]
        assert list(loaded[WEB].events) == ["E9", "E3", "E5"]

    play(story)


def test_what_goes_and_comes_back_comes_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        again = replace(machine("web", "a"), vm_id="made again")
        back = MachineChanged(scope=WEB, machine=again)
        away = MachineRemoved(scope=WEB, name=VmName("a"))
        start = (*made("web", "a", "b"), happened(1), happened(2))
        await store.commit(Node().decide(start, (away, back, gone(1), happened(1))))

        loaded = (await store.snapshot()).scopes

        assert list(loaded[WEB].machines) == ["b", "a"]
        assert list(loaded[WEB].events) == ["E2", "E1"]

    play(story)


def test_a_scope_that_goes_and_comes_back_comes_last(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web"), DB_MADE))
        await store.commit(node.decide((ScopeRemoved(scope=WEB),), made("web")))

        assert list((await store.snapshot()).scopes) == [DB, WEB]

    play(story)


def test_what_is_gone_is_not_loaded(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide((*made("web", "a", "b"), happened(1), happened(2))))
        await store.commit(node.decide((gone(1), MachineRemoved(scope=WEB, name=VmName("b")))))

        loaded = (await store.snapshot()).scopes

        assert list(loaded[WEB].machines) == ["a"]
        assert list(loaded[WEB].events) == ["E2"]

    play(story)


def test_a_batch_on_a_stale_stamp_is_refused(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a")))
        other = node.copy()
        await store.commit(second := node.decide((happened(1),)))

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(other.decide((happened(2),)))

        assert refusal.value.stale == {scope_key("web"): second.stamp}
        assert refusal.value.last == 3

    play(story)


STALE = {
    "a scope that moved on": (scope_key("db"), 7),
    "a scope that should not be there": (scope_key("db"), 0),
    "a scope that should be there": (scope_key("app"), 7),
}


@pytest.mark.parametrize("bad", [pytest.param(one, id=name) for name, one in STALE.items()])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_a_batch_with_one_stale_aggregate_nothing_is_kept(
    play: Stage, bad: tuple[Aggregate, int], place: int
) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a"), made("new"), DB_MADE))
        before, lines = await store.snapshot(), await store.journal()
        batch = node.decide((happened(1),), (ScopeRemoved(scope=ScopeId("new")),))
        expected = [*batch.expected.items()]
        expected.insert(place, bad)

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(batch._replace(expected=dict(expected)))

        assert list(refusal.value.stale) == [bad[0]]
        assert await store.snapshot() == before
        assert await store.journal() == lines

    play(story)


def test_a_later_request_of_a_batch_rests_on_an_earlier_one(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web", "a"), (happened(1),), (gone(1), happened(2))))

        loaded = (await store.snapshot()).scopes

        assert loaded == node.scopes
        assert loaded[WEB].version == 3

    play(story)


def test_one_request_may_move_several_scopes(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide((*made("web", "a"), *made("db", "b"))))

        assert (await store.snapshot()).scopes == node.scopes

    play(story)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in three batches"])
def test_a_removed_scope_that_is_made_again_starts_clean(play: Stage, together: bool) -> None:
    async def story(store: Store) -> None:
        node = Node()
        old = (*made("web", "a", "b"), happened(1))
        requests = [old, (ScopeRemoved(scope=WEB),), made("web", "z")]
        for batch in [requests] if together else [[one] for one in requests]:
            await store.commit(node.decide(*batch))

        loaded = (await store.snapshot()).scopes

        assert loaded == evolve(NOTHING, made("web", "z"))
        assert loaded[WEB].version == 1

    play(story)


def test_changed_facts_are_kept(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        await store.commit(node.decide(made("web")))
        facts = replace(node.scopes[WEB].facts, polled_at=NOON)
        await store.commit(node.decide((ScopePropertiesChanged(scope=WEB, facts=facts, by="a"),)))

        loaded = (await store.snapshot()).scopes

        assert loaded == node.scopes
        assert loaded[WEB].facts == facts

    play(story)


def test_the_first_value_stays_if_it_is_put_only_where_there_is_none(play: Stage) -> None:
    async def story(store: Store) -> None:
        first = await store.put_value_if_absent("key", "one")
        second = await store.put_value_if_absent("key", "two")

        assert (first, second, await store.get_value("key")) == ("one", "one", "one")

    play(story)


def test_a_value_is_remembered_until_it_is_written_over_or_removed(play: Stage) -> None:
    async def story(store: Store) -> None:
        assert await store.get_value("clock") is None

        await store.put_value("clock", "noon")
        await store.put_value("clock", "one")

        assert await store.get_value("clock") == "one"
        assert await store.get_value("other") is None
        await store.put_value("clock", None)
        await store.put_value("clock", None)
        assert await store.get_value("clock") is None
        assert await store.last() == 0

    play(story)


def test_texts_are_kept_with_the_batch_they_belong_to(play: Stage) -> None:
    async def story(store: Store) -> None:
        node = Node()
        first = node.decide((TextChanged(key="a", text="1"), TextChanged(key="b", text="2")))
        changed = [("a", None), ("c", "3"), ("b", "4")]
        second = node.decide([TextChanged(key=key, text=text) for key, text in changed])
        stale = node.decide((TextChanged(key="d", text="5"),))
        await store.commit(first)
        await store.commit(second)

        with pytest.raises(StaleBatchError) as refusal:
            await store.commit(stale._replace(expected={scope_key("web"): 7, text_key("a"): first.stamp}))

        found = await store.snapshot()
        assert refusal.value.stale == {scope_key("web"): 0, text_key("a"): 0}
        assert list(found.texts.items()) == [("b", "4"), ("c", "3")]
        assert list(found.text_stamps.items()) == [("b", second.stamp), ("c", second.stamp)]

    play(story)
