"""Traps of several deciders on one store, each found once by falling into it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import AddMachines, Approve, Cancel, CreateSet, DeleteScopes, Protect
from fairwarning.core.errors import FairWarningError, NameTakenError, UnknownEventError
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import EventId, EventStatus, ScopeId, VmName, derive_id
from fairwarning.core.stored.kinds import OPERATION
from fairwarning.engine.ports import Batch
from fairwarning.engine.requests import Build, Plan
from fairwarning.store import following
from tests.deciders.asking import fixed
from tests.deciders.cluster import Cluster, approve, on_host, open_cluster, ref, restart
from tests.deciders.link import Weather
from tests.deciders.stores import STORES, new_loop
from tests.deciders.virtual_time import run

WEB = ScopeId("web")
Tell = Callable[[Callable[[Cluster], Awaitable[None]]], None]


@pytest.fixture(params=STORES)
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Tell:
    """Return a function that tells a story on a store and checks what is left."""

    async def told(story: Callable[[Cluster], Awaitable[None]]) -> None:
        nodes = await open_cluster(request.param, tmp_path)
        try:
            await story(nodes)
            await nodes.check()
        finally:
            await nodes.store.close()

    return lambda story: run(told(story), new_loop(request.param))


def noted(command: Approve, error: FairWarningError) -> CommandRefused:
    """Return the journal's note about a refused approval."""
    reason = str(error)
    return CommandRefused(
        scope=command.scope, asked="approve", reason=reason, by=command.by, event=command.ids[0]
    )


def put_text(key: str, text: str) -> Build:
    return lambda view: Plan((), lambda changes: {key: text})


def test_t1_each_of_two_approvals_that_meet_is_stored_once(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = [await nodes.start(Weather(lag=0.1, delay=0.01, loss=0.1)) for _ in range(2)]
        await nodes.create(a, "web", machines=20)
        events = [await nodes.announce(a, f"web_{number}") for number in range(20)]
        await nodes.catch_up()
        await asyncio.gather(
            *(nodes.do((a, b)[index % 2], approve("web", event)) for index, event in enumerate(events))
        )
        lines = [entry.change for entry in nodes.store.entries]
        approvals = [
            line.event.id
            for line in lines
            if isinstance(line, EventChanged) and line.what is EventMilestone.APPROVED
        ]
        assert sorted(approvals) == sorted(events)

    tell(story)


def test_t2_a_decision_about_a_removed_set_does_not_hit_the_new_set_of_its_name(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=0)
        await nodes.catch_up()
        version = nodes.scope("web").version
        await nodes.do(a, DeleteScopes(id=derive_id("gone"), scopes=(WEB,)))
        await nodes.create(a, "web", machines=5)
        assert nodes.scope("web").version == version
        await nodes.do(b, AddMachines(seed="more", scope=WEB))
        assert list(nodes.scope("web").machines)[-1] == VmName("web_5")

    tell(story)


def test_t3_a_barrier_opens_at_once_if_each_node_approves_one_half(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", host="H")
        await nodes.create(a, "db", host="H")
        await nodes.ask(a, on_host("maintenance", "H"))
        await nodes.catch_up()
        web, db = nodes.event_of("web"), nodes.event_of("db")
        await asyncio.gather(nodes.do(a, approve("web", web.id)), nodes.do(b, approve("db", db.id)))
        assert nodes.event_of("web").status is nodes.event_of("db").status is EventStatus.STARTED

    tell(story)


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ("1", "2")), (("1",), ("2",)), (("1", "2"), ("2", "3")), ((), ())],
)
def test_t4_of_two_sets_of_one_name_exactly_one_is_created(
    tell: Tell, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        answers = await asyncio.gather(
            nodes.do(a, CreateSet(seed="a", blueprint=Blueprint(name="web", count=2, zones=first))),
            nodes.do(b, CreateSet(seed="b", blueprint=Blueprint(name="web", count=2, zones=second))),
            return_exceptions=True,
        )
        assert [type(one) for one in answers if isinstance(one, BaseException)] == [NameTakenError]
        zones = {scope.facts.zone for scope in nodes.store.state.scopes.values()}
        assert zones in (set(first or ("",)), set(second or ("",)))

    tell(story)


def test_t4_a_zone_and_a_set_of_the_same_name_are_not_both_created(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        answers = await asyncio.gather(
            nodes.do(a, CreateSet(seed="a", blueprint=Blueprint(name="web", count=2, zones=("1", "2")))),
            nodes.do(b, CreateSet(seed="b", blueprint=Blueprint(name="web.zone1"))),
            return_exceptions=True,
        )
        assert [type(one) for one in answers if isinstance(one, BaseException)] == [NameTakenError]

    tell(story)


@pytest.mark.parametrize("page", [1, 2, 3, 7])
def test_t6_a_page_is_never_cut_in_the_middle_of_a_batch(
    tell: Tell, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE", page)

    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=10)
        await asyncio.gather(*(nodes.do(a, restart(str(one), f"web_{one}")) for one in range(10)))
        nodes.listen(b)
        while b.position < nodes.store.position:
            assert b.position in {0, *(entry.ends for entry in nodes.store.entries)}
            await asyncio.sleep(0)
        assert b.link.counts["snapshot"] == 1

    tell(story)


@pytest.mark.parametrize("event", ["E\0", "\ud800", "E\0\udfff"])
def test_t7_an_event_id_that_no_database_takes_fails_nobody_else(tell: Tell, event: str) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        nodes.listen(b)
        await nodes.create(a, "web")
        command = approve("web", EventId(event))
        strange = a.submit(nodes.caller(), fixed(command), partial(noted, command))
        answers = await asyncio.gather(strange, nodes.do(a, restart("r", "web_0")), return_exceptions=True)
        assert [type(one) for one in answers if isinstance(one, BaseException)] == [UnknownEventError]
        await nodes.catch_up()
        (note,) = [one.change for one in nodes.store.entries if isinstance(one.change, CommandRefused)]
        assert note.event is not None
        assert note.event.isprintable()

    tell(story)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_t7_a_text_that_no_database_takes_is_the_same_on_every_node(tell: Tell, text: str) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        for number, node in enumerate((a, b, a, b)):
            await nodes.ask(node, put_text(OPERATION.key(text), f"{text}{number}"))

    tell(story)


def test_a_barrier_does_not_open_early_if_its_other_event_is_cancelled_in_the_same_batch(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", host="H")
        await nodes.create(a, "db", host="H")
        await nodes.ask(a, on_host("maintenance", "H"))
        await nodes.catch_up()
        web, db = nodes.event_of("web"), nodes.event_of("db")
        await nodes.do(b, Protect(machine=ref("db_0"), protected=True))
        await asyncio.gather(
            nodes.do(a, Cancel(scope=db.scope, id=db.id)), nodes.do(a, approve("web", web.id))
        )
        assert nodes.event_of("web").status is EventStatus.STARTED
        assert not nodes.scope("db").events

    tell(story)


def test_a_barrier_does_not_open_early_if_its_other_event_fails_in_the_same_batch(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", host="H")
        await nodes.create(a, "db", host="H")
        await nodes.ask(a, on_host("maintenance", "H"))
        await nodes.catch_up()
        web, db = nodes.event_of("web"), nodes.event_of("db")
        await nodes.do(b, Cancel(scope=db.scope, id=db.id))
        approved, refused = await asyncio.gather(
            nodes.do(a, approve("web", web.id)), nodes.do(a, approve("db", db.id)), return_exceptions=True
        )
        assert not isinstance(approved, BaseException)
        assert isinstance(refused, FairWarningError)
        assert nodes.event_of("web").status is EventStatus.STARTED

    tell(story)


def test_a_snapshot_that_arrives_while_a_batch_is_stored_leaves_the_batch_to_its_answer(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=9)
        for number in range(8):
            await nodes.announce(a, f"web_{number}")
        await nodes.store.prune(None, 1000, ())

        async def follow_after_a_gap(batch: Batch) -> None:
            nodes.listen(b)
            while b.link.counts["snapshot"] < 2:
                await asyncio.sleep(0.01)

        nodes.links[1].before = follow_after_a_gap
        result = await nodes.do(b, CreateSet(seed="db", blueprint=Blueprint(name="db")))
        assert result.changes
        assert b.scopes().keys() == {"web", "db"}

    tell(story)


def test_an_answer_that_the_snapshot_contains_counts_as_installed(tell: Tell) -> None:
    async def story(nodes: Cluster) -> None:
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=9)
        for number in range(8):
            await nodes.announce(a, f"web_{number}")

        async def follow_after_a_gap(batch: Batch) -> None:
            await nodes.store.prune(None, 1000, ())
            nodes.listen(b)
            while b.link.counts["snapshot"] < 2:
                await asyncio.sleep(0.01)

        nodes.links[1].after = follow_after_a_gap
        result = await nodes.do(b, CreateSet(seed="db", blueprint=Blueprint(name="db")))
        assert result.changes
        assert b.scopes().keys() == {"web", "db"}

    tell(story)
