"""The asynchronous half of the Azure SDK, and two of its clients at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from azure.core.exceptions import HttpResponseError
from azure.identity.aio import ClientSecretCredential
from azure.mgmt.compute.aio import ComputeManagementClient
from azure.mgmt.compute.models import (
    VirtualMachineScaleSet,
    VirtualMachineScaleSetUpdate,
    VirtualMachineScaleSetVMInstanceRequiredIDs,
)
from azure.mgmt.maintenance.aio import MaintenanceManagementClient
from azure.mgmt.maintenance.models import ScheduledEventsIdList

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from tests.arm.live import HOME, SOON, Guest, Live, Warned, live, options

HERD = "resourceGroups/busy/providers/Microsoft.Compute/virtualMachineScaleSets/herd"
FLEET = ("--vm", "db", "--spot-vm", "batch", "--scale-set", "pair=2")
#: How many instances there are to begin with, and how many of them are deleted.
MANY, DELETED = 150, 100


@dataclass(frozen=True)
class Tools:
    """The clients of one user."""

    compute: ComputeManagementClient
    maintenance: MaintenanceManagementClient


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("aio"), *FLEET) as server:
        yield server


@asynccontextmanager
async def tools(cloud: Live) -> AsyncIterator[Tools]:
    async with (
        ClientSecretCredential(
            "adfs", "dev", "dev", authority=cloud.arm, connection_verify=cloud.ca, use_env_settings=False
        ) as user,
        ComputeManagementClient(user, SUBSCRIPTION, **options(cloud)) as compute,
        MaintenanceManagementClient(user, SUBSCRIPTION, **options(cloud)) as maintenance,
    ):
        yield Tools(compute, maintenance)


async def warned(cloud: Live, guest: Guest, kind: str) -> Warned:
    return await asyncio.to_thread(cloud.warned, guest, kind)


def profile(minutes: int) -> dict[str, Json]:
    notice: Json = {"enable": True, "notBeforeTimeout": f"PT{minutes}M"}
    return {
        "virtualMachineProfile": {"scheduledEventsProfile": {"terminateNotificationProfile": notice}},
    }


def ids(*instances: int) -> VirtualMachineScaleSetVMInstanceRequiredIDs:
    return VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=[str(one) for one in instances])


@pytest.mark.rule("L-14", "L-15")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        pytest.param("begin_restart", "Reboot", id="a restart is a Reboot"),
        pytest.param("begin_redeploy", "Redeploy", id="a redeployment is a Redeploy"),
    ],
)
def test_an_action_waits_for_the_machine_to_approve(cloud: Live, verb: str, kind: str) -> None:
    guest = cloud.guest("db")

    async def sequence() -> str:
        async with tools(cloud) as user:
            poller = await getattr(user.compute.virtual_machines, verb)(HOME, "db")
            waiting = asyncio.create_task(poller.result())
            event = await warned(cloud, guest, kind)
            assert not waiting.done()
            await asyncio.to_thread(guest.approve, event)
            await asyncio.to_thread(cloud.advance)
            await asyncio.wait_for(waiting, SOON)
            return str(poller.status())

    guest.sees()

    assert asyncio.run(sequence()) == "Succeeded"


@pytest.mark.rule("T-24")
def test_only_spot_machines_can_be_evicted(cloud: Live) -> None:
    async def sequence() -> tuple[int | None, Warned]:
        async with tools(cloud) as user:
            await user.compute.virtual_machines.simulate_eviction(HOME, "batch")
            with pytest.raises(HttpResponseError) as refusal:
                await user.compute.virtual_machines.simulate_eviction(HOME, "db")
            return refusal.value.status_code, await warned(cloud, guest, "Preempt")

    guest = cloud.guest("batch")
    guest.sees()

    status, event = asyncio.run(sequence())

    assert status == 409
    assert event["Resources"] == ["batch"]


def test_several_events_are_approved_from_outside_their_machines(cloud: Live) -> None:
    guest = cloud.guest("pair_0")

    async def sequence() -> list[str]:
        async with tools(cloud) as user:
            every = await user.compute.virtual_machine_scale_sets.begin_restart(HOME, "pair")
            waiting = asyncio.create_task(every.result())
            event = await warned(cloud, guest, "Reboot")
            wish = ScheduledEventsIdList(value=[one["EventId"] for one in guest.sees()])
            kind = "virtualMachineScaleSets"
            await user.maintenance.scheduled_events.acknowledge_list(HOME, kind, "pair", wish)
            await asyncio.to_thread(cloud.advance)
            await asyncio.wait_for(waiting, SOON)
            return event["Resources"]

    guest.sees()

    assert "pair_0" in asyncio.run(sequence())
    assert guest.sees() == []


@pytest.mark.slow
@pytest.mark.rule("T-06", "T-09", "T-16")
def test_two_hundred_changes_at_once_leave_a_set_that_adds_up(cloud: Live) -> None:
    group = "busy"
    cloud.send("PUT", f"resourcegroups/{group}", {"location": "westeurope"})
    body = VirtualMachineScaleSet(
        {
            "location": "westeurope",
            "sku": {"name": "Standard_D2s_v5", "capacity": MANY},
            "properties": {"upgradePolicy": {"mode": "Manual"}, **profile(5)},
        }
    )

    async def update(user: Tools, number: int) -> None:
        change = VirtualMachineScaleSetUpdate({"properties": profile(5 + number % 11)})
        sets = user.compute.virtual_machine_scale_sets
        await sets.begin_update(group, "herd", change, polling=False)

    async def delete(user: Tools, instance: int) -> None:
        sets = user.compute.virtual_machine_scale_sets
        await sets.begin_delete_instances(group, "herd", ids(instance), polling=False)

    async def storm() -> None:
        async with tools(cloud) as one, tools(cloud) as other:
            poller = await one.compute.virtual_machine_scale_sets.begin_create_or_update(group, "herd", body)
            await poller.result()
            await asyncio.to_thread(cloud.guest("herd_0").sees)
            changes = [update(one, number) for number in range(DELETED)]
            deletes = [delete(other, number) for number in range(DELETED)]
            await asyncio.gather(*(work for both in zip(changes, deletes, strict=True) for work in both))

    asyncio.run(storm())
    asked = cloud.send("GET", HERD).json()
    events = [e for e in cloud.guest("herd_0").sees() if e["EventType"] == "Terminate"]
    concerned = Counter(name for event in events for name in event["Resources"])
    before = cloud.machines(f"{group}/herd")
    cloud.send("POST", f"{HERD}/manualupgrade", {"instanceIds": ["*"]})
    upgraded = cloud.machines(f"{group}/herd")
    cloud.advance("16m")
    after = cloud.machines(f"{group}/herd")

    assert asked["sku"]["capacity"] == MANY - DELETED
    assert concerned == {f"herd_{number}": 1 for number in range(DELETED)}
    assert len(before) == MANY
    assert {m["latest_model_applied"] for m in before} == {False}
    assert {m["latest_model_applied"] for m in upgraded} == {True}
    assert sorted(m["name"] for m in after) == sorted(f"herd_{n}" for n in range(DELETED, MANY))
