"""Answers rest on committed state, one request is one commit, and asking changes nothing."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairwarning.arm import groups
from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import ScopeKind
from fairwarning.engine.ports import Batch
from fairwarning.store.errors import StoreFailedError
from fairwarning.store.memory import MemoryStore
from tests.arm.azure import HOME, ROOT, Azure, at, header
from tests.arm.compute import VM, both, compute, model, profile, scale_set
from tests.arm.deploying import NET, ONE, SET, body, deploy_set, deployable, interrupt
from tests.fleet_harness import run, span
from tests.store.gate import Gate, turns

DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
SHOP = "Microsoft.Compute/virtualMachineScaleSets/shop"
FULL_DISK = StoreFailedError(Path("a full disk"), "no space is left")


@contextmanager
def arranged() -> Iterator[None]:
    """Turn failures of the setup into errors, so that only the subject of a test can fail it."""
    try:
        yield
    except AssertionError as problem:
        raise RuntimeError("the setup of the test failed") from problem


def gated(*blueprints: Blueprint) -> tuple[Azure, Gate]:
    gate = Gate(MemoryStore())
    return compute(*blueprints, store=gate), gate


def commits(gate: Gate) -> list[Batch]:
    return gate.batches


def test_an_operation_does_not_succeed_before_the_end_of_its_event_is_kept() -> None:
    with arranged():
        azure, gate = gated(DB)
        response = azure.post(f"{HOME}/{VM}/db/restart")
        url = str(header(response, "Azure-AsyncOperation"))
        azure.approve_all()
        assert azure.progress(response) == "InProgress"

    async def sequence() -> tuple[Json, Json]:
        gate.open = False
        azure.fleet.clock.set(azure.fleet.now + span("5s"))
        ending = asyncio.create_task(azure.fleet.engine.tick())
        await turns()
        while_held = await azure.answer("GET", url)
        await gate.turn_away(FULL_DISK)
        with suppress(FairWarningError):
            await ending
        gate.open = True
        return at(while_held.body, "status"), at((await azure.answer("GET", url)).body, "status")

    statuses = run(sequence())
    with arranged():
        assert set(statuses) <= {"InProgress", "Succeeded"}
    assert statuses == ("InProgress", "InProgress")


def shop() -> tuple[Azure, Gate]:
    """Return a zonal set with a terminate notice of five minutes, and the gate that counts its commits."""
    azure, gate = gated()
    azure.put(SHOP, both(scale_set(2, zones=("1", "2")), model(**profile(5))))
    gate.batches.clear()
    return azure, gate


def change(azure: Azure) -> None:
    """Change the notice, the policy and the capacity of the set in one request."""
    approvals: Json = {"scheduledEventsPolicy": {"userInitiatedReboot": {"automaticallyApprove": True}}}
    azure.send("PUT", SHOP, both(both(scale_set(4), model(**profile(10))), {"properties": approvals}))


def described(azure: Azure) -> list[object]:
    return [
        (scope.id, scope.facts.model.terminate_notice, scope.facts.approvals.user_reboot, len(scope.machines))
        for scope in azure.fleet.engine.scopes().values()
    ]


def test_one_put_is_one_commit() -> None:
    with arranged():
        azure, gate = shop()
        before = described(azure)
        change(azure)
        assert described(azure) != before

    assert len(commits(gate)) == 1


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_one_put_is_kept_whole_or_not_at_all(kept: int) -> None:
    with arranged():
        other, _ = shop()
        change(other)
        azure, gate = shop()
        before, whole = described(azure), described(other)
        assert before != whole

    gate.fails_after = kept
    change(azure)

    assert described(azure) in (before, whole)


def deleted() -> tuple[Azure, Gate, str]:
    """Return a fleet after a machine was deleted, the gate, and the URL of the operation."""
    azure, gate = gated()
    azure.put(f"{VM}/doomed", {"location": "westeurope", "properties": profile(5)})
    azure.poll("doomed")
    response = azure.delete(f"{VM}/doomed")
    azure.advance("10m")
    gate.batches.clear()
    return azure, gate, str(header(response, "Azure-AsyncOperation"))


@pytest.mark.parametrize("path", ["operation", VM, f"{VM}/doomed"])
def test_asking_writes_nothing(path: str) -> None:
    with arranged():
        azure, gate, url = deleted()

    azure.send("GET", url if path == "operation" else path)

    assert commits(gate) == []


def test_asking_long_afterwards_writes_nothing() -> None:
    with arranged():
        azure, gate, url = deleted()
        azure.get(url)
        azure.advance("2h")
        azure.get(url)
        azure.advance("2h")
        gate.batches.clear()

    azure.send("GET", VM)

    assert commits(gate) == []


def interrupted() -> Azure:
    azure = deployable()
    deploy_set(azure)
    interrupt(azure, count=3)
    return azure


def test_an_interrupted_deployment_goes_on_by_itself() -> None:
    with arranged():
        azure = interrupted()

    azure.advance("1m")
    run(turns(200))

    assert len(azure.fleet.machines("lab/web")) == 3


def test_asking_how_far_a_deployment_is_writes_nothing() -> None:
    with arranged():
        azure = interrupted()
        run(turns(200))
        before = dict(azure.fleet.engine.texts()), len(azure.fleet.journal())

    azure.send("GET", ONE)

    assert (dict(azure.fleet.engine.texts()), len(azure.fleet.journal())) == before


# What is gone is gone for clients before its documents are removed.


def move(azure: Azure, by: str) -> None:
    """Move the clock and handle what is due, but let nobody tidy up."""
    azure.fleet.clock.set(azure.fleet.now + span(by))
    run(azure.fleet.engine.tick())


def emptied() -> tuple[Azure, str]:
    """Return a fleet in which a group was deleted but has left documents, and the URL of the operation."""
    azure = deployable()
    azure.put(NET, {"location": "westeurope"})
    azure.put(f"{VM}/doomed", {"location": "westeurope"})
    url = str(header(azure.delete(f"{ROOT}?forceDeletionTypes={VM}"), "Azure-AsyncOperation"))
    move(azure, "10s")
    return azure, url


def test_a_group_is_gone_before_its_documents_are() -> None:
    azure, url = emptied()

    assert azure.context.committed().document(f"{ROOT}/providers/{NET}") is not None
    assert at(azure.get(url), "status") == "Succeeded"
    assert azure.send("GET", ROOT).status == 404
    assert azure.send("GET", NET).status == 404
    assert azure.names(f"/subscriptions/{SUBSCRIPTION}/providers/{NET.rpartition('/')[0]}") == []
    assert azure.names(f"/subscriptions/{SUBSCRIPTION}/resourceGroups") == ["fairwarning"]


def test_a_group_that_is_made_again_at_once_is_empty_and_stays() -> None:
    azure, _ = emptied()

    azure.put(ROOT, {"location": "eastus"})
    gone = azure.send("GET", NET).status
    azure.put(f"{VM}/doomed", {"location": "eastus"})
    azure.put(NET, {"location": "eastus"})
    azure.advance("1h")

    assert gone == 404
    assert at(azure.get(ROOT), "location") == "eastus"
    assert at(azure.get(NET), "location") == "eastus"
    assert at(azure.get(f"{VM}/doomed"), "location") == "eastus"


def test_a_machine_that_is_made_again_at_once_keeps_its_document() -> None:
    azure = compute()
    azure.put(f"{VM}/doomed", {"tags": {"first": "yes"}})
    azure.delete(f"{VM}/doomed?forceDeletion=true")
    move(azure, "10s")

    gone = azure.send("GET", f"{VM}/doomed").status
    azure.put(f"{VM}/doomed", {"tags": {"second": "yes"}})
    azure.advance("1h")

    assert gone == 404
    assert at(azure.get(f"{VM}/doomed"), "tags") == {"second": "yes"}


def test_a_worker_that_runs_beside_the_server_tidies_up_by_itself() -> None:
    azure, _ = emptied()

    async def sequence() -> None:
        worker = asyncio.create_task(azure.upkeep.run())
        async with asyncio.timeout(10):
            while azure.context.committed().document(f"{ROOT}/providers/{NET}") is not None:
                await turns()
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker

    run(sequence())

    assert azure.context.committed().document(f"{ROOT}/providers/{NET}") is None


def test_a_restart_writes_nothing_if_nothing_was_left_undone() -> None:
    azure, gate = gated(DB)
    gate.batches.clear()

    azure.restart()

    assert commits(gate) == []


def test_deleting_a_group_is_one_commit() -> None:
    azure, gate = gated()
    azure.put(f"{VM}/forced", {"location": "westeurope"})
    azure.put(SHOP, scale_set(2))
    azure.routes += groups.ROUTES
    gate.batches.clear()

    azure.delete(f"{ROOT}?forceDeletionTypes={VM}")

    assert len(commits(gate)) == 1


def test_a_worker_goes_on_after_a_failure() -> None:
    gate = Gate(MemoryStore())
    azure = deployable(gate)
    azure.put(f"{VM}/doomed", {"location": "westeurope"})
    azure.delete(f"{VM}/doomed?forceDeletion=true")
    move(azure, "10s")
    gate.fails_after = 0

    with pytest.raises(StoreFailedError):
        run(azure.upkeep.rest())
    kept = azure.context.committed().document(f"{ROOT}/providers/{VM}/doomed")
    run(azure.upkeep.rest())

    assert kept is not None
    assert azure.context.committed().document(f"{ROOT}/providers/{VM}/doomed") is None


def test_tidying_up_rests_on_what_is_gone_alone() -> None:
    azure, gate = gated()
    for number in range(100):
        azure.put(f"{VM}/vm{number}", {"location": "westeurope"})
    azure.keep({f"{ROOT}/providers/{VM}/gone": {"name": "gone", "properties": {"vmId": "x"}}})
    gate.batches.clear()

    azure.restart()

    assert azure.context.committed().document(f"{ROOT}/providers/{VM}/gone") is None
    (batch,) = commits(gate)
    assert len(batch.expected) < 10


def test_a_deployment_whose_client_hangs_up_goes_on() -> None:
    gate = Gate(MemoryStore())
    azure = deployable(gate)

    async def sequence() -> None:
        gate.open = False
        gate.batches.clear()
        request = asyncio.create_task(azure.answer("PUT", ONE, body(SET, count=2, adminPassword="x")))
        await gate.let_through()  # the deployment itself
        await gate.let_through()  # its network
        while len(gate.batches) < 3:
            await turns()
        request.cancel()
        with suppress(asyncio.CancelledError):
            await request
        gate.open = True
        await gate.let_through()  # what was being stored when the client hung up

    run(sequence())
    running = at(azure.get(ONE), "properties", "provisioningState")
    azure.advance("1s")

    assert running == "Running"
    assert at(azure.get(ONE), "properties", "provisioningState") == "Succeeded"
    assert azure.fleet.machines("lab/web") == ["web_0", "web_1"]
