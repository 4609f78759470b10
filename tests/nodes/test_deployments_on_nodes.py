"""Deployments on several nodes: each comes to its end once, whatever becomes of the node that began it."""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx2
import pytest

from fairwarning.arm import upkeep
from fairwarning.arm.context import ArmContext
from fairwarning.arm.upkeep import Upkeep
from fairwarning.core.changes import TextChanged
from fairwarning.core.document.render import Json
from fairwarning.core.model import PLATFORM
from fairwarning.core.policy import Policy
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.kinds import OPERATION
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.engine import Engine
from fairwarning.engine.leases import LASTS
from fairwarning.store.memory import MemoryStore
from tests.arm.arm_client import URL
from tests.arm.cloud import resource, template
from tests.asgi import ask
from tests.fleet_harness import NOON, run
from tests.nodes.node import Node, follow, following, open_nothing, start_node, two_nodes
from tests.nodes.test_reading_your_writes import DEPLOYMENT, LAB, SET, VERSION, make_group, make_set
from tests.store.gate import turns

NETS = ("one", "two", "three")
NET = f"{LAB}/providers/Microsoft.Network/virtualNetworks"
BODY: Json = {"properties": {"mode": "Incremental", "template": template(*map(resource, NETS))}}
#: The commits of a deployment before those of its resources.
BEFORE = 1


def deploy(node: Node) -> int:
    """Deploy a template with three networks, and return the status of the response."""
    return node.management.send("PUT", f"{DEPLOYMENT}{VERSION}", BODY).status_code


async def deploying(node: Node) -> httpx2.Response:
    headers = {"authorization": f"Bearer {node.management.tokens.make(URL)}"}
    return await ask(
        node.management.app, "PUT", f"{URL}{DEPLOYMENT}{VERSION}", headers, json.dumps(BODY).encode()
    )


async def begin(node: Node) -> asyncio.Task[httpx2.Response]:
    """Begin a deployment on a node, up to the commit of its first resource."""
    node.store.open = False
    node.store.batches.clear()
    request = asyncio.create_task(deploying(node))
    await node.store.let_through()
    while len(node.store.batches) < BEFORE + 1:
        await turns()
    return request


async def go_on(node: Node, request: asyncio.Task[httpx2.Response]) -> int:
    """Let a node go on, and return the status of the response."""
    node.store.open = True
    await node.store.let_through()
    return (await request).status_code


def state(node: Node) -> str:
    response = node.management.send("GET", f"{DEPLOYMENT}{VERSION}")
    assert response.status_code == 200, response.text
    return str(response.json()["properties"]["provisioningState"])


def delete_a_set(node: Node) -> None:
    """Make a scale set and delete it; its document is left behind."""
    make_set(node)
    node.management.send("DELETE", f"{SET}{VERSION}")
    node.fleet.clock.set(node.fleet.now + timedelta(seconds=6))
    run(node.engine.tick())
    assert SET.lower() in node.engine.texts()
    assert not node.engine.scopes()


def let_leases_end(node: Node) -> None:
    """Let time pass on all nodes, without any of them working."""
    node.fleet.clock.set(node.fleet.now + LASTS + timedelta(seconds=1))


def rest(*nodes: Node) -> None:
    """Let nodes follow the journal and do the work that follows from it."""
    for node in nodes:
        follow(node)
        run(node.upkeep.rest())


def written(node: Node, key: str) -> list[str | None]:
    """Return the texts that were stored under a key, one after the other."""
    changes = [entry.change for entry in node.fleet.journal()]
    return [one.text for one in changes if isinstance(one, TextChanged) and one.key == key.lower()]


def test_a_deployment_of_a_node_that_dies_is_carried_on_by_another_once_its_lease_ends() -> None:
    first, second = two_nodes()
    make_group(first)
    first.store.cut_after = BEFORE + 1

    status = deploy(first)
    rest(second)
    at_once = state(second)
    let_leases_end(second)
    rest(second)

    assert (status, at_once, state(second)) == (503, "Running", "Succeeded")
    assert [len(written(second, f"{NET}/{name}")) for name in NETS] == [1, 1, 1]
    assert len(written(second, DEPLOYMENT)) == len(["begun", "taken over", "ended"])


def test_a_deployment_that_a_node_works_on_is_left_to_it() -> None:
    first, second = two_nodes()
    make_group(first)

    request = run(begin(first))
    rest(second)
    during = len(second.store.batches)
    status = run(go_on(first, request))
    follow(second)

    assert (during, status, state(second)) == (0, 201, "Succeeded")


def test_a_node_that_starts_leaves_running_deployments_to_the_nodes_that_work_on_them() -> None:
    first, _ = two_nodes()
    make_group(first)
    first.store.cut_after = BEFORE + 1
    deploy(first)

    third = start_node(first.store.inner, clock=first.fleet.clock)
    rest(third)

    assert state(third) == "Running"


def test_a_deployment_that_runs_on_one_node_cannot_be_replaced_on_another() -> None:
    first, second = two_nodes()
    make_group(first)
    first.store.cut_after = BEFORE + 1
    deploy(first)

    assert second.management.refused("PUT", f"{DEPLOYMENT}{VERSION}", BODY) == (409, "DeploymentActive")


def test_a_suspended_node_undoes_nothing_that_came_after_the_end_of_its_deployment() -> None:
    first, second = two_nodes()
    make_group(first)
    tags: Json = {"by": "the client"}

    request = run(begin(first))
    let_leases_end(second)
    rest(second)
    ended = state(second)
    second.management.send("PUT", f"{NET}/one{VERSION}", {"location": "westeurope", "tags": tags})
    status = run(go_on(first, request))

    assert (ended, status) == ("Succeeded", 409)
    assert second.management.send("GET", f"{NET}/one{VERSION}").json()["tags"] == tags
    assert len(written(second, DEPLOYMENT)) == len(["begun", "taken over", "ended"])


def test_a_suspended_node_undoes_nothing_while_another_carries_its_deployment_on() -> None:
    first, second = two_nodes()
    third = start_node(first.store.inner, clock=first.fleet.clock)
    make_group(first)
    tags: Json = {"by": "the client"}
    request = run(begin(first))
    let_leases_end(second)
    follow(second)

    async def carry_on() -> asyncio.Task[None]:
        second.store.open = False
        second.store.batches.clear()
        resting = asyncio.create_task(second.upkeep.rest())
        for number in range(1, 3):
            await second.store.let_through()
            while len(second.store.batches) <= number:
                await turns()
        return resting

    async def finish(resting: asyncio.Task[None]) -> None:
        second.store.open = True
        await second.store.let_through()
        await resting

    resting = run(carry_on())
    third.management.send("PUT", f"{NET}/one{VERSION}", {"location": "westeurope", "tags": tags})
    status = run(go_on(first, request))
    run(finish(resting))

    assert (status, state(second)) == (409, "Succeeded")
    assert third.management.send("GET", f"{NET}/one{VERSION}").json()["tags"] == tags


def test_one_node_at_a_time_cleans_up_and_another_takes_over_when_it_is_gone() -> None:
    first, second = two_nodes()
    make_group(first)
    rest(first, second)
    delete_a_set(first)
    follow(second)
    second.store.batches.clear()

    rest(second)
    while_first_leads = len(second.store.batches)
    let_leases_end(second)
    rest(second)

    assert while_first_leads == 0
    assert len(second.store.batches) == 1
    assert SET.lower() not in second.engine.texts()


def test_two_nodes_that_clean_up_at_once_do_the_work_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two_nodes()
    make_group(first)
    rest(first, second)
    delete_a_set(first)
    monkeypatch.setattr(upkeep, "LEASE", "the lease of another worker")
    rest(second)
    lines = len(first.fleet.journal())
    monkeypatch.undo()

    run(first.upkeep.rest())

    assert SET.lower() not in first.engine.texts()
    assert len(first.fleet.journal()) == lines


def test_a_worker_hears_of_a_deployment_that_another_node_leaves_unfinished() -> None:
    first, second = two_nodes()
    make_group(first)
    rest(second)
    first.store.cut_after = BEFORE + 1
    deploy(first)
    let_leases_end(second)

    async def story() -> None:
        async with following(second), asyncio.timeout(10):
            while not second.engine.texts().get(DEPLOYMENT.lower()):
                await turns()
            await second.upkeep.rest()

    run(story())

    assert state(second) == "Succeeded"


@dataclass
class WallClock:
    """A clock that no client moves."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at


def test_an_operation_that_clients_ask_other_nodes_about_is_forgotten_in_the_end() -> None:
    clock = WallClock()
    engine = Engine(MemoryStore(), clock, SimulatedDriver(), Policy())
    run(engine.open())
    context = ArmContext(engine, open_endpoints=open_nothing)
    worker, key = Upkeep(context), OPERATION.key("one")
    begun = OPERATION.encode(Operation(started_at=NOON, resource=SET, events=()))
    run(context.change(PLATFORM, lambda edit: edit.draft.put_texts({key: begun})))

    known: list[bool] = []
    for _ in range(2):
        clock.at += upkeep.RETENTION
        run(worker.rest())
        known.append(key in engine.texts())

    assert known == [True, False]
