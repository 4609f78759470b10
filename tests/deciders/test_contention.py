"""What contention costs: batches and journal reads are counted, not time."""

import asyncio
from itertools import cycle

import pytest

from fairwarning.core.commands import SetPower
from fairwarning.core.errors import ContendedError, UnknownScopeError
from fairwarning.core.model import PowerState, ScopeId
from fairwarning.engine.decider import PATIENCE
from fairwarning.engine.ports import Batch
from tests.deciders.cluster import Cluster, approve, nothing, open_cluster, ref, restart
from tests.deciders.link import NoAnswerError, Weather
from tests.deciders.node import Node
from tests.deciders.virtual_time import run


def test_two_hundred_commands_on_one_scope_by_two_deciders_cause_no_snapshot_and_no_503() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        weather = Weather(lag=0.02, delay=0.003)
        a, b = await nodes.start(weather), await nodes.start(weather)
        nodes.listen(a, b)
        await nodes.create(a, "web", machines=200)
        await nodes.catch_up()

        async def client(node: Node, first: int) -> None:
            for number in range(first, first + 10):
                await nodes.do(node, SetPower(machine=ref(f"web_{number}"), power=PowerState.STOPPED))

        await asyncio.gather(*(client((a, b)[one % 2], one * 10) for one in range(20)))

        assert nodes.store.counts["ContendedError"] == 0
        assert [node.link.counts["snapshot"] for node in (a, b)] == [1, 1]
        assert not nodes.scope("web").machines.running()
        assert nodes.store.counts["stale"] > 0, "the nodes never met"
        await nodes.check()

    run(story())


def test_a_stale_scope_costs_its_batch_one_catch_up_and_fails_nobody() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start()
        for number in range(10):
            await nodes.create(a, f"set{number}", machines=2)
        await nodes.catch_up()
        await nodes.do(b, restart("other", "set3_1"))
        before = a.link.counts.copy()

        await asyncio.gather(*(nodes.do(a, restart(f"r{one}", f"set{one}_0")) for one in range(10)))

        spent = a.link.counts - before
        assert spent["follow"] == 1, "the journal was read more than once"
        assert spent["snapshot"] == spent["last"] == 0
        assert spent["commit"] == 3, "one conflict, one batch of innocents, one of the loser"
        await nodes.check()

    run(story())


def test_after_a_conflict_what_has_gathered_meanwhile_joins() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=9)
        await nodes.catch_up()
        joining: list[asyncio.Task[object]] = []

        async def be_faster(batch: Batch) -> None:
            if not joining:
                joining.extend(
                    asyncio.create_task(nodes.do(a, restart(f"j{one}", f"web_{one}"))) for one in range(5)
                )
                await nodes.do(b, restart("other", "web_8"))

        nodes.links[0].before = be_faster
        before = a.link.counts["commit"]
        await nodes.do(a, restart("r", "web_7"))
        await asyncio.gather(*joining)

        assert a.link.counts["commit"] - before == 2
        await nodes.check()

    run(story())


def test_answers_without_a_change_are_given_while_another_node_keeps_writing() -> None:
    """Requests that come meanwhile must not hold up those that came before them."""

    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start()
        await nodes.create(a, "web", machines=1)
        await nodes.create(a, "db")
        event = await nodes.announce(a, "db_0")
        await nodes.do(a, approve("db", event))
        await nodes.catch_up()
        nodes.listen(b)
        b.link.weather = Weather(delay=0.01)
        stop = asyncio.Event()

        async def keep_writing() -> None:
            power = [PowerState.STOPPED, PowerState.RUNNING]
            while not stop.is_set():
                await nodes.do(a, SetPower(machine=ref("web_0"), power=power[0]))
                power.reverse()
                await asyncio.sleep(0.001)

        async def keep_asking() -> None:
            while not stop.is_set():
                asking.add(asyncio.create_task(nodes.do(b, approve("db", event))))
                await asyncio.sleep(0.002)

        asking: set[asyncio.Task[object]] = set()
        others = [asyncio.create_task(keep_writing()), asyncio.create_task(keep_asking())]
        await asyncio.sleep(0.05)
        before = b.link.counts["last"]
        await nodes.do(b, approve("db", event))
        asked = b.link.counts["last"] - before
        stop.set()
        await asyncio.gather(*others, *asking)

        assert asked <= 3
        await nodes.check()

    run(story())


def test_a_request_that_always_loses_is_answered_with_503_and_never_stored() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start(Weather(delay=0.01))
        await nodes.create(a, "web", machines=2)
        await nodes.catch_up()
        powers = cycle(PowerState)

        async def be_faster(batch: Batch) -> None:
            await nodes.do(a, SetPower(machine=ref("web_1"), power=next(powers)))

        nodes.links[1].before = be_faster
        began = asyncio.get_running_loop().time()
        with pytest.raises(ContendedError):
            await nodes.do(b, restart("r", "web_0"))

        assert PATIENCE < asyncio.get_running_loop().time() - began < PATIENCE + 1
        assert not nodes.scope("web").events
        assert not b.trouble, "the store works"
        await nodes.check()

    run(story())


def test_a_batch_whose_answer_never_comes_is_stored_once_and_its_outcome_is_unknown() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start()
        nodes.listen(a, b)
        await nodes.create(a, "web", machines=2)

        async def lose(batch: Batch) -> None:
            raise NoAnswerError

        nodes.links[0].after = lose
        with pytest.raises(NoAnswerError):
            await nodes.do(a, restart("r", "web_0"))
        assert a.trouble
        nodes.links[0].after = nothing
        await nodes.do(a, restart("s", "web_1"))

        assert not a.trouble
        assert len(nodes.scope("web").events) == 2
        await nodes.check()

    run(story())


def test_a_caller_that_gives_up_does_not_take_its_request_back() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        node = await nodes.start(Weather(delay=0.01))
        await nodes.create(node, "web", machines=2)
        first = asyncio.create_task(nodes.do(node, restart("r", "web_0")))
        second = asyncio.create_task(nodes.do(node, restart("s", "web_1")))
        await asyncio.sleep(0)
        second.cancel()
        await first
        await node.close()

        assert second.cancelled()
        assert len(nodes.scope("web").events) == 2
        await nodes.check()

    run(story())


def test_a_refusal_costs_one_question_if_nothing_has_happened() -> None:
    async def story() -> None:
        nodes: Cluster = await open_cluster()
        node = await nodes.start()
        await nodes.create(node, "web")
        before = node.link.counts.copy()

        answers = await asyncio.gather(
            *(nodes.do(node, approve("none")) for _ in range(20)), return_exceptions=True
        )

        assert {type(answer) for answer in answers} == {UnknownScopeError}
        assert node.link.counts - before == {"last": 1}
        assert ScopeId("none") not in node.scopes()

    run(story())
