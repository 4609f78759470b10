"""What a client has done on one node, it finds on another at once."""

import asyncio
from urllib.parse import urlsplit

import pytest

from bench.delegate import Delegate
from fairwarning.arm.tokens import load_tokens
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.render import Json
from fairwarning.engine import engine
from fairwarning.engine.ports import StoreState
from fairwarning.store.memory import MemoryStore
from tests.arm.arm_client import ONE, WallClock
from tests.arm.cloud import resource, template
from tests.fleet_harness import run
from tests.nodes.node import Node, start_node, two_nodes

WEB = Blueprint(name="web", count=2)
LAB = f"{ONE}/resourceGroups/lab"
SET = f"{LAB}/providers/Microsoft.Compute/virtualMachineScaleSets/app"
DEPLOYMENT = f"{LAB}/providers/Microsoft.Resources/deployments/one"
VERSION = "?api-version=2024-07-01"


class CountingStore(Delegate):
    """A store that counts how often it is asked for its last line, and may not answer."""

    asked = 0
    silent = False

    async def last(self) -> int:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return await super().last()


def make_group(node: Node) -> None:
    response = node.management.send("PUT", f"{LAB}{VERSION}", {"location": "westeurope"})
    assert response.status_code == 201, response.text


def make_set(node: Node, capacity: int = 2) -> None:
    body: Json = {"location": "westeurope", "sku": {"name": "Standard_D2s_v3", "capacity": capacity}}
    response = node.management.send("PUT", f"{SET}{VERSION}", body)
    assert response.status_code in (200, 201), response.text


def test_an_event_caused_on_one_node_is_found_on_another() -> None:
    first, second = two_nodes(WEB)

    (event,) = first.operator.cause("restart", "web_0").events

    assert second.operator.send("GET", f"/events/{event.id}").status_code == 200
    assert second.operator.send("HEAD", f"/events/{event.id}").status_code == 200


def test_what_no_node_knows_is_not_found() -> None:
    first, second = two_nodes(WEB)
    first.operator.cause("restart", "web_0")

    assert second.operator.refused("GET", "/machines/nothing").status == 404


@pytest.mark.parametrize("path", ["/machines/app_0", "/scopes/app"])
def test_a_set_made_on_one_node_is_found_on_another(path: str) -> None:
    first, second = two_nodes(WEB)

    first.fleet.make(Blueprint(name="app", count=1))

    assert second.operator.send("GET", path).status_code == 200


def test_an_event_of_one_node_can_be_approved_on_another() -> None:
    first, second = two_nodes(WEB)

    (event,) = first.operator.cause("restart", "web_0").events

    assert second.operator.send("POST", f"/events/{event.id}/approve").status_code == 200


def test_a_management_token_of_one_node_is_good_on_another() -> None:
    first, second = two_nodes()

    token = first.management.tokens.make("https://somewhere")

    assert second.management.send("GET", f"{ONE}?api-version=2022-12-01", token=token).status_code == 200


def test_two_nodes_that_make_the_key_at_once_agree() -> None:
    store = MemoryStore()

    async def load() -> list[str]:
        both = await asyncio.gather(*(load_tokens(store, WallClock(), None) for _ in range(2)))
        return [tokens.key for tokens in both]

    assert len(set(run(load()))) == 1


def test_an_operation_begun_on_one_node_can_be_polled_on_another() -> None:
    first, second = two_nodes()
    make_group(first)
    make_set(first)
    deleted = first.management.send("DELETE", f"{SET}{VERSION}")
    assert deleted.status_code == 202, deleted.text

    for header in ("Azure-AsyncOperation", "Location"):
        url = urlsplit(deleted.headers[header])
        polled = second.management.send("GET", f"{url.path}?{url.query}")

        assert polled.status_code in (200, 202), polled.text


def test_a_resource_made_on_one_node_is_found_on_another() -> None:
    first, second = two_nodes()
    make_group(first)
    make_set(first)

    assert second.management.send("GET", f"{SET}{VERSION}").status_code == 200
    assert second.management.send("GET", f"{SET}2{VERSION}").status_code == 404


def test_a_resource_can_be_made_in_a_group_of_another_node() -> None:
    first, second = two_nodes()
    make_group(first)

    make_set(second)

    assert second.fleet.machines("lab/app") == ["app_0", "app_1"]


def test_a_template_can_refer_to_a_resource_of_another_node() -> None:
    first, second = two_nodes()
    make_group(first)
    network = f"{LAB}/providers/Microsoft.Network/virtualNetworks/net"
    first.management.send("PUT", f"{network}{VERSION}", {"location": "westeurope", "properties": {}})
    written = template(
        resource("other"), outputs={"net": {"type": "object", "value": f"[reference('{network}')]"}}
    )

    sent = second.management.send(
        "PUT", f"{DEPLOYMENT}{VERSION}", {"properties": {"mode": "Incremental", "template": written}}
    )
    deployed = first.management.send("GET", f"{DEPLOYMENT}{VERSION}")

    assert sent.status_code == 201, sent.text
    assert deployed.json()["properties"]["provisioningState"] == "Succeeded"


def test_many_who_look_for_the_unknown_share_the_questions() -> None:
    store = CountingStore(MemoryStore())
    node = start_node(store)
    store.asked = 0

    async def look() -> None:
        await asyncio.gather(*(node.engine.catch_up() for _ in range(100)))

    run(look())

    assert store.asked == 2


def test_who_waits_behind_a_caller_that_hangs_up_asks_again() -> None:
    store = CountingStore(MemoryStore())
    node, other = start_node(store), start_node(store)
    store.silent = True

    async def look() -> None:
        first = asyncio.create_task(node.engine.catch_up())
        await asyncio.sleep(0)
        # Both need a question that begins after their calls; the one who asks it hangs up.
        second, third = (asyncio.create_task(node.engine.catch_up()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await other.engine.handle(CreateSet(seed="seed", blueprint=WEB))
        second.cancel()
        store.silent = False
        assert await third

    run(look())

    assert "web" in node.engine.scopes()


def test_a_store_that_does_not_answer_delays_what_is_not_found_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "CATCH_UP", 0.01)
    store = CountingStore(MemoryStore())
    node = start_node(store)

    store.silent = True

    assert node.operator.refused("GET", "/machines/nothing").status == 404


def test_a_store_that_is_away_is_not_asked() -> None:
    node = start_node(CountingStore(MemoryStore()))
    run(node.engine.membership.join(node.store))
    counting = node.store.inner
    assert isinstance(counting, CountingStore)
    counting.asked = 0

    node.store.state = StoreState.AWAY
    away = node.operator.refused("GET", "/machines/nothing").status, counting.asked
    node.store.state = StoreState.READY
    back = node.operator.refused("GET", "/machines/nothing").status, counting.asked

    assert (away, back) == ((404, 0), (404, 1))


def test_a_request_to_read_writes_nothing() -> None:
    first, second = two_nodes(WEB)
    (event,) = first.operator.cause("restart", "web_0").events
    lines = len(first.fleet.journal())

    second.operator.send("GET", f"/events/{event.id}")
    second.operator.send("GET", "/events/nothing")

    assert len(first.fleet.journal()) == lines
