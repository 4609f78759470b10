"""A deployment that loses its request or its storage on the way comes to an end nevertheless."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.arm import upkeep
from fairwarning.core.document.render import Json
from fairwarning.engine import decider
from fairwarning.engine.ports import Batch, Entry
from fairwarning.store.errors import StoreFailedError, UnknownOutcomeError
from fairwarning.store.memory import MemoryStore
from tests.arm.azure import ROOT, Azure
from tests.arm.cloud import resource, template
from tests.arm.deploying import DEPLOYMENTS, NET, ONE, body, deployable, facts
from tests.fleet_harness import run
from tests.store.gate import Gate, turns

DISK = Path("a disk")
TWO = f"{DEPLOYMENTS}/two"
KEY = f"{ROOT}/providers/{ONE}".lower()
SENT = body(template(resource("net")))


class Flaky(Gate):
    """A store that refuses some commits, or stores them and loses the answer."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        #: What becomes of the next commits: whether they are stored.
        self.verdicts: list[bool] = []
        self.loses_answers = False

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if self.verdicts and not self.verdicts.pop(0):
            raise StoreFailedError(DISK, "no space is left")
        entries = await super().commit(batch)
        if self.loses_answers:
            raise UnknownOutcomeError(DISK, "the answer is lost")
        return entries


class Sticky(Gate):
    """A store that for a while removes no values."""

    is_sticky = False

    async def put_value(self, key: str, value: str | None) -> None:
        if value is None and self.is_sticky:
            raise StoreFailedError(DISK, "no space is left")
        await super().put_value(key, value)


def state(azure: Azure, name: str = ONE) -> Json:
    return facts(azure, "provisioningState", name=name)


def left_running(azure: Azure, name: str) -> None:
    """Store a deployment as a server leaves it that stops before it has kept what to deploy."""
    azure.put(name, SENT)
    key = f"{ROOT}/providers/{name}"
    done = azure.context.committed().document(key)
    assert done is not None
    azure.keep({key: {word: done[word] for word in done if word != "result"}})


def test_a_deployment_ends_although_the_answer_to_its_first_commit_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Flaky()
    azure = deployable(store)
    with monkeypatch.context() as impatient:
        impatient.setattr(decider, "PATIENCE", 0.0)
        store.loses_answers = True
        status = azure.send("PUT", ONE, SENT).status
        store.loses_answers = False

    azure.advance("1s")

    assert status == 503
    assert state(azure) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "DeploymentInterrupted"


def test_a_deployment_ends_although_its_client_hung_up_before_it_was_stored() -> None:
    gate = Gate(MemoryStore())
    azure = deployable(gate)

    async def sequence() -> None:
        gate.open = False
        gate.batches.clear()
        request = asyncio.create_task(azure.answer("PUT", ONE, SENT))
        while not gate.batches:
            await turns()
        request.cancel()
        with suppress(asyncio.CancelledError):
            await request
        gate.open = True
        resting = asyncio.create_task(azure.upkeep.rest())
        await turns()
        await gate.let_through()
        await resting

    run(sequence())

    assert state(azure) == "Failed"


def test_a_refused_deployment_leaves_nothing_to_do() -> None:
    azure = deployable()
    left_running(azure, ONE)

    assert azure.refused("PUT", ONE, SENT)[:2] == (409, "DeploymentActive")
    assert azure.context.interrupted == set()


def test_a_resource_that_cannot_be_stored_delays_its_deployment() -> None:
    store = Flaky()
    azure = deployable(store)
    store.verdicts = [True, False]

    refused = azure.send("PUT", ONE, SENT)
    during = state(azure)
    azure.advance("1s")

    assert (refused.status, during) == (503, "Running")
    assert ("Retry-After", "5") in refused.headers
    assert state(azure) == "Succeeded"
    assert azure.send("GET", NET).status == 200


def test_what_was_kept_of_a_deployment_is_removed_later_if_it_cannot_be_removed_at_its_end() -> None:
    store = Sticky(MemoryStore())
    azure = deployable(store)
    store.is_sticky = True
    status = azure.send("PUT", ONE, SENT).status
    store.is_sticky = False

    azure.advance("1s")

    assert (status, state(azure)) == (503, "Succeeded")
    assert run(store.get_value(f"deployment:{facts(azure, 'correlationId')}")) is None


def test_a_deployment_inside_another_is_left_to_it() -> None:
    store = Flaky()
    azure = deployable(store)
    inner = resource(
        "inner",
        kind=DEPLOYMENTS,
        properties={"mode": "Incremental", "template": template(resource("net"))},
    )
    store.verdicts = [True, True, False]

    status = azure.send("PUT", ONE, body(template(inner))).status
    azure.advance("1s")
    azure.advance("1s")

    assert status == 503
    assert state(azure) == "Succeeded"
    assert state(azure, f"{DEPLOYMENTS}/inner") == "Succeeded"
    assert azure.context.interrupted == set()


def test_a_deployment_that_cannot_go_on_stops_neither_the_others_nor_the_clock() -> None:
    store = Flaky()
    azure = deployable(store)
    left_running(azure, ONE)
    left_running(azure, TWO)
    store.verdicts = [False]

    azure.restart()
    after_restart = [state(azure), state(azure, TWO)]
    azure.advance("1s")

    assert after_restart == ["Running", "Failed"]
    assert state(azure) == "Failed"


@pytest.mark.parametrize(
    ("verdicts", "loses_answers"),
    [
        pytest.param([True, False, False], False, id="the second try fails as well"),
        pytest.param([], True, id="the answer of the store is lost"),
    ],
)
def test_a_worker_does_not_wait_for_others_to_carry_a_deployment_on(
    verdicts: list[bool], loses_answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAUSE", "SOON"):
        monkeypatch.setattr(upkeep, name, timedelta(milliseconds=1), raising=False)
    monkeypatch.setattr(decider, "PATIENCE", 0.0)
    store = Flaky()
    azure = deployable(store)

    async def sequence() -> None:
        worker = asyncio.create_task(azure.upkeep.run())
        await turns()
        store.verdicts, store.loses_answers = verdicts, loses_answers
        assert (await azure.answer("PUT", ONE, SENT)).status == 503
        store.loses_answers = False
        async with asyncio.timeout(10):
            while azure.context.interrupted or "result" not in str(azure.fleet.engine.texts().get(KEY)):
                await asyncio.sleep(0.001)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker

    run(sequence())

    assert state(azure) in ("Succeeded", "Failed")
