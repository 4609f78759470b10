"""Properties that the management API should have and does not have yet.

Each test fails today for the reason in its mark. The change that makes a test pass removes the mark.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import ScopeKind
from fairwarning.engine.ports import Batch
from fairwarning.store.errors import StoreFailedError
from fairwarning.store.memory import MemoryStore
from tests.arm.azure import HOME, Azure, at, header
from tests.arm.compute import VM, both, compute, model, profile, scale_set
from tests.arm.deploying import ONE, deploy_set, deployable, interrupt
from tests.fleet_harness import run, span
from tests.store.gate import Gate, turns

DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
SHOP = "Microsoft.Compute/virtualMachineScaleSets/shop"
FULL_DISK = StoreFailedError(Path("a full disk"), "no space is left")


@contextmanager
def arranged() -> Iterator[None]:
    """Turn failures of the setup into errors: the mark expects only the assertion of the test."""
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
