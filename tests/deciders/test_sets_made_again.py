"""A set that was removed and made again: its incarnation goes on (L-11), its last poll does not."""

import asyncio

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import PollsRecorded
from fairwarning.core.commands import CreateSet, DeleteScopes, Schedule
from fairwarning.core.model import MachineRef, ScopeId, VmName, derive_id
from fairwarning.engine.requests import Plan
from tests.conftest import NOON
from tests.deciders.cluster import Cluster, open_cluster
from tests.deciders.virtual_time import run

#: One machine in the first zone, none in the second.
ZONES = Blueprint(name="web", count=1, zones=("1", "2"))
FIRST, SECOND = ScopeId("web.zone1"), ScopeId("web.zone2")
MACHINE = MachineRef(FIRST, VmName("web_0"))


def delete(*scopes: ScopeId) -> DeleteScopes:
    return DeleteScopes(id=derive_id("gone", *scopes), scopes=scopes, force=True)


@pytest.mark.rule("L-11")
@pytest.mark.parametrize("together", [True, False], ids=["in one request", "in one batch"])
def test_a_set_made_again_goes_on_from_the_highest_incarnation_of_its_removed_zones(together: bool) -> None:
    async def story() -> None:
        nodes: Cluster = await open_cluster()
        node = await nodes.start()
        await nodes.do(node, CreateSet(seed="1", blueprint=ZONES))
        for number in range(3):
            await nodes.do(node, Schedule(id=derive_id(str(number)), cause="freeze", machines=(MACHINE,)))
        await nodes.do(node, delete(FIRST))
        highest = nodes.scope(FIRST).incarnation
        await asyncio.sleep(60)
        await node.tick()
        assert nodes.store.state.scopes.keys() == {SECOND}
        again = CreateSet(seed="2", blueprint=ZONES)

        if together:
            await nodes.do(node, delete(SECOND), again)
        else:
            await asyncio.gather(nodes.do(node, delete(SECOND)), nodes.do(node, again))

        assert nodes.scope(FIRST).incarnation > highest
        await nodes.check()

    run(story())


def test_a_set_made_again_in_one_batch_has_no_last_poll() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        node = await nodes.start()
        web = ScopeId("web")
        empty = CreateSet(seed="1", blueprint=Blueprint(name="web", count=0))
        polled = Plan(notes=(PollsRecorded(at=NOON, scopes=(web,)),))
        await nodes.do(node, empty)
        await nodes.ask(node, lambda view: polled)
        assert node.replica.polled_at(web) == NOON

        await asyncio.gather(
            nodes.ask(node, lambda view: polled), nodes.do(node, delete(web)), nodes.do(node, empty)
        )

        assert node.replica.polled_at(web) is None
        await nodes.check()

    run(story())
