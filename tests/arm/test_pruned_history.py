"""The end of an operation is known as long as the operation is, even if the history is pruned."""

from datetime import timedelta

import pytest

from fairwarning.arm import groups, operations
from fairwarning.arm.compute import vms
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventId, ScopeKind
from fairwarning.core.policy import Retention
from fairwarning.engine.retention import Pruner
from tests.arm.azure import HOME, Azure
from tests.fleet_harness import run

DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
DB_ID = f"{HOME}/Microsoft.Compute/virtualMachines/db"


def prune(cloud: Azure) -> None:
    """Prune all of the history that is not required."""

    async def needed() -> set[EventId]:
        return operations.required_events(cloud.context.committed().view)

    engine, retention = cloud.fleet.engine, Retention(age=timedelta(0))
    run(Pruner(engine.store, engine.leases, engine.clock.now, retention, needed).prune())


@pytest.mark.parametrize(("cancelled", "status"), [(False, "Succeeded"), (True, "Canceled")])
def test_how_an_operation_ended_outlasts_its_history(cancelled: bool, status: str) -> None:
    cloud = Azure(groups.ROUTES, vms.ROUTES, blueprints=[DB])
    cloud.poll("db")
    response = cloud.post(f"{DB_ID}/restart")
    (event,) = cloud.waiting()
    prune(cloud)
    during = cloud.progress(response)
    if cancelled:
        cloud.fleet.cancel(EventId(event))
    cloud.advance("20m")
    cloud.fleet.cause("redeploy", "db")
    prune(cloud)

    assert during == "InProgress"
    assert run(cloud.fleet.store.pruned()) > 0
    assert cloud.progress(response) == status
