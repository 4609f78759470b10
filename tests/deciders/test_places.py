"""The places of a group on several nodes: nodes cannot take the same one, and none is left unused."""

import asyncio

import pytest

from fairwarning.core import barrier
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, Maintain, RecordInventory, ReportOutcomes
from fairwarning.core.fleet import outstanding_impacts
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.maintenance.values import MaintenanceBudget
from fairwarning.core.model import Event, EventStatus, HostId, ScopeId, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine.ports import Batch
from fairwarning.engine.requests import Build, Plan, View
from tests.deciders.asking import done
from tests.deciders.cluster import Cluster, approve, open_cluster
from tests.deciders.members import SECOND, open_members
from tests.deciders.node import Node
from tests.deciders.test_members import ranked
from tests.deciders.virtual_time import run

DB = ScopeId("db")


def maintain(host: str) -> Build:
    """Return a request for the maintenance of a host."""

    def build(view: View) -> Plan:
        id = barrier.of_host(HostId(host), derive_id(host))
        machines = view.machines_on_host(host)
        return Plan((Maintain(id=id, cause="host-reboot", machines=machines, host=HostId(host)),))

    return build


def report(scope: ScopeId) -> Build:
    """Return a request that reports all impacts in a scope as done."""

    def build(view: View) -> Plan:
        observations = tuple(map(done, outstanding_impacts(view.scope(scope), Policy())))
        return Plan((ReportOutcomes(scope=scope, observations=observations),))

    return build


async def two_replicas(nodes: Cluster, node: Node) -> tuple[Event, Event]:
    """Announce the maintenance of two hosts, each with a replica of one group that has one place."""
    budget = MaintenanceBudget(each="db", most=1)
    await nodes.do(node, RecordInventory(InventoryVersion(digest="first"), budgets=(budget,)))
    for name, host in (("web", "H1"), ("db", "H2")):
        blueprint = Blueprint(name=name, host=HostId(host), tags=(("db", "orders"),))
        await nodes.do(node, CreateSet(seed=name, blueprint=blueprint))
        await nodes.ask(node, maintain(host))
    return nodes.event_of("web"), nodes.event_of("db")


@pytest.mark.rule("M-14")
def test_two_nodes_cannot_take_the_same_place() -> None:
    async def story() -> None:
        nodes = await open_cluster()
        a, b = await nodes.start(), await nodes.start()
        web, db = await two_replicas(nodes, a)
        await nodes.catch_up()

        await asyncio.gather(nodes.do(a, approve("web", web.id)), nodes.do(b, approve("db", db.id)))

        events = [nodes.event_of("web"), nodes.event_of("db")]
        assert sorted(event.status for event in events) == [EventStatus.SCHEDULED, EventStatus.STARTED]
        assert [event.blocked for event in events if event.waiting] == [True]
        await nodes.check()

    run(story())


@pytest.mark.rule("M-09")
def test_a_node_that_dies_when_a_place_is_given_back_leaves_the_start_to_another() -> None:
    async def story() -> None:
        nodes = await open_members()
        members = [await nodes.join(driver=ExternalDriver()) for _ in range(3)]
        web, db = await two_replicas(nodes, members[0])
        await asyncio.sleep(2.5)
        await nodes.do(members[0], approve("web", web.id))
        await nodes.do(members[0], approve("db", db.id))
        assert nodes.event_of("db").blocked
        first, second, _ = ranked(members, DB)

        async def kill_first(batch: Batch) -> None:
            first.kill()

        second.shared.after = kill_first
        await nodes.ask(second, report(web.scope))
        given_back = nodes.now()
        await asyncio.sleep(2)

        started_at = nodes.event_of("db").started_at
        assert started_at is not None
        assert SECOND <= started_at - given_back < 1.2 * SECOND

    run(story())
