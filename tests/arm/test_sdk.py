"""The Azure SDK, as published on PyPI, against a server in a process of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.core.polling import LROPoller
from azure.identity import ClientSecretCredential, ManagedIdentityCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute.models import (
    AvailabilitySet,
    ScheduledEventsProfile,
    Sku,
    SubResource,
    TerminateNotificationProfile,
    UpgradePolicy,
    VirtualMachine,
    VirtualMachineScaleSet,
    VirtualMachineScaleSetExtension,
    VirtualMachineScaleSetProperties,
    VirtualMachineScaleSetUpdate,
    VirtualMachineScaleSetUpdateProperties,
    VirtualMachineScaleSetUpdateVMProfile,
    VirtualMachineScaleSetVMInstanceIDs,
    VirtualMachineScaleSetVMInstanceRequiredIDs,
    VirtualMachineScaleSetVMProfile,
)
from azure.mgmt.maintenance import MaintenanceManagementClient
from azure.mgmt.maintenance.models import ScheduledEventsIdList
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.resources.models import ResourceGroup, Tags, TagsPatchResource, TagsResource

from fairwarning.arm.context import SUBSCRIPTION
from tests.arm.live import HOME, SOON, Live, live, options
from tests.cli.server import until

GROUP = "lab"
FLEET = (
    "--scale-set",
    "web=3",
    "--vm",
    "db",
    "--vm",
    "cache",
    "--vm",
    "quiet",
    "--spot-vm",
    "batch",
    "--identity",
)


@dataclass(frozen=True)
class Tools:
    """The clients of one user."""

    compute: ComputeManagementClient
    maintenance: MaintenanceManagementClient
    resources: ResourceManagementClient


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("sdk"), *FLEET) as server:
        yield server


@pytest.fixture(scope="module")
def tools(cloud: Live) -> Iterator[Tools]:
    with (
        credential(cloud) as user,
        ComputeManagementClient(user, SUBSCRIPTION, **options(cloud)) as machines,
        MaintenanceManagementClient(user, SUBSCRIPTION, **options(cloud)) as events,
        ResourceManagementClient(user, SUBSCRIPTION, **options(cloud)) as groups,
    ):
        groups.resource_groups.create_or_update(GROUP, ResourceGroup(location="westeurope"))
        yield Tools(machines, events, groups)


@pytest.fixture
def client(tools: Tools) -> ComputeManagementClient:
    return tools.compute


def credential(cloud: Live) -> ClientSecretCredential:
    return ClientSecretCredential(
        "adfs", "dev", "dev", authority=cloud.arm, connection_verify=cloud.ca, use_env_settings=False
    )


def finish(cloud: Live, *pollers: LROPoller[None]) -> None:
    """Advance the clock past an impact, and wait until the SDK has noticed its end."""
    cloud.advance()
    for poller in pollers:
        poller.result(SOON)
        assert poller.status() == "Succeeded"


def notify(minutes: int) -> ScheduledEventsProfile:
    notice = TerminateNotificationProfile(enable=True, not_before_timeout=f"PT{minutes}M")
    return ScheduledEventsProfile(terminate_notification_profile=notice)


def scale_set(capacity: int, minutes: int | None = None) -> VirtualMachineScaleSet:
    profile = None if minutes is None else notify(minutes)
    return VirtualMachineScaleSet(
        location="westeurope",
        sku=Sku(name="Standard_D2s_v5", capacity=capacity),
        properties=VirtualMachineScaleSetProperties(
            orchestration_mode="Uniform",
            upgrade_policy=UpgradePolicy(mode="Manual"),
            virtual_machine_profile=VirtualMachineScaleSetVMProfile(scheduled_events_profile=profile),
        ),
    )


def instances(client: ComputeManagementClient, name: str) -> dict[str, bool]:
    """Return the ids of a set's instances, and whether each follows the latest model."""
    listed = client.virtual_machine_scale_set_vms.list(GROUP, name)
    return {str(one.instance_id): bool(one.latest_model_applied) for one in listed}


@pytest.mark.rule("L-14", "L-15")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        pytest.param("begin_restart", "Reboot", id="a restart is a Reboot"),
        pytest.param("begin_redeploy", "Redeploy", id="a redeployment is a Redeploy"),
        pytest.param("begin_perform_maintenance", "Redeploy", id="maintenance is a Redeploy"),
    ],
)
def test_an_action_waits_for_the_machine_to_approve(
    cloud: Live, client: ComputeManagementClient, verb: str, kind: str
) -> None:
    guest = cloud.guest("db")
    guest.sees()

    poller: LROPoller[None] = getattr(client.virtual_machines, verb)(HOME, "db")
    event = cloud.warned(guest, kind)
    before = (poller.status(), cloud.notice(event))
    guest.approve(event)
    finish(cloud, poller)

    assert before == ("InProgress", 15 if kind == "Reboot" else 10)
    assert guest.sees() == []


@pytest.mark.rule("L-15")
def test_an_action_on_a_machine_that_nobody_listens_on_is_done_at_once(
    cloud: Live, client: ComputeManagementClient
) -> None:
    poller = client.virtual_machines.begin_restart(HOME, "quiet")
    finish(cloud, poller)

    assert [row["kind"] for row in cloud.server.history() if "quiet" in row["resources"]][-1] == "finished"


@pytest.mark.rule("T-28")
def test_a_delete_that_warns_no_machine_does_not_wait_for_the_clock(client: ComputeManagementClient) -> None:
    machines = client.virtual_machines
    machines.begin_create_or_update(GROUP, "brief", VirtualMachine(location="westeurope")).result(SOON)

    poller = machines.begin_delete(GROUP, "brief")
    poller.result(SOON)

    assert poller.status() == "Succeeded"
    with pytest.raises(ResourceNotFoundError):
        machines.get(GROUP, "brief")


@pytest.mark.rule("T-06", "T-09", "T-16")
def test_a_scale_set_is_made_changed_upgraded_and_shrunk(
    cloud: Live, client: ComputeManagementClient
) -> None:
    sets = client.virtual_machine_scale_sets
    created = sets.begin_create_or_update(GROUP, "farm", scale_set(3)).result(SOON)
    change = VirtualMachineScaleSetUpdate(
        properties=VirtualMachineScaleSetUpdateProperties(
            virtual_machine_profile=VirtualMachineScaleSetUpdateVMProfile(scheduled_events_profile=notify(10))
        )
    )
    sets.begin_update(GROUP, "farm", change).result(SOON)
    changed = instances(client, "farm")
    some = VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=["0", "1"])
    sets.begin_update_instances(GROUP, "farm", some).result(SOON)
    upgraded = instances(client, "farm")
    guest = cloud.guest("farm_0")
    guest.sees()

    delete = sets.begin_delete_instances(
        GROUP, "farm", VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=["0"])
    )
    event = cloud.warned(guest, "Terminate")
    asked, notice = sets.get(GROUP, "farm"), cloud.notice(event)
    guest.approve(event)
    finish(cloud, delete)

    assert created.sku is not None
    assert created.sku.capacity == 3
    assert changed == {"0": False, "1": False, "2": False}
    assert upgraded == {"0": True, "1": True, "2": False}
    assert notice == 10
    assert asked.sku is not None
    assert asked.sku.capacity == 2
    assert instances(client, "farm") == {"1": True, "2": False}


@pytest.mark.rule("T-25")
def test_a_change_can_depend_on_what_the_client_has_seen(client: ComputeManagementClient) -> None:
    def put(etag: str | None, condition: MatchConditions, **tags: str) -> VirtualMachine:
        machine = VirtualMachine(location="westeurope", tags=tags)
        poller = client.virtual_machines.begin_create_or_update(
            GROUP, "guarded", machine, etag=etag, match_condition=condition
        )
        return poller.result(SOON)

    created = put("*", MatchConditions.IfMissing)

    changed = put(created.etag, MatchConditions.IfNotModified, team="web")

    assert changed.etag != created.etag
    with pytest.raises(ResourceModifiedError, match="PreconditionFailed"):
        put(created.etag, MatchConditions.IfNotModified)
    with pytest.raises(ResourceExistsError):
        put("*", MatchConditions.IfMissing)
    assert client.virtual_machines.get(GROUP, "guarded").tags == {"team": "web"}


@pytest.mark.rule("T-09", "T-16")
def test_a_scale_in_waits_for_the_newest_instance(cloud: Live, client: ComputeManagementClient) -> None:
    sets = client.virtual_machine_scale_sets
    sets.begin_create_or_update(GROUP, "pond", scale_set(3, minutes=5)).result(SOON)
    guest = cloud.guest("pond_2")
    guest.sees()

    smaller = sets.begin_create_or_update(GROUP, "pond", scale_set(2, minutes=5))
    event = cloud.warned(guest, "Terminate")
    guest.approve(event)
    cloud.advance()
    left = smaller.result(SOON)

    assert event["Resources"] == ["pond_2"]
    assert left.sku is not None
    assert left.sku.capacity == 2
    assert sorted(instances(client, "pond")) == ["0", "1"]


@pytest.mark.rule("T-24", "L-05")
def test_an_eviction_gives_a_spot_machine_half_a_minute(cloud: Live, client: ComputeManagementClient) -> None:
    guest = cloud.guest("batch")
    guest.sees()

    client.virtual_machines.simulate_eviction(HOME, "batch")
    event = cloud.warned(guest, "Preempt")
    notice = cloud.notice(event)
    cloud.advance()

    assert notice == 0.5
    assert [m["power"] for m in cloud.machines() if m["name"] == "batch"] == ["stopped"]


@pytest.mark.rule("T-24")
def test_only_spot_machines_can_be_evicted(client: ComputeManagementClient) -> None:
    with pytest.raises(HttpResponseError) as refusal:
        client.virtual_machines.simulate_eviction(HOME, "db")

    assert refusal.value.status_code == 409
    assert refusal.value.error is not None
    assert refusal.value.error.code == "OperationNotAllowed"


def test_an_event_is_approved_from_outside_the_machine(cloud: Live, tools: Tools) -> None:
    guest = cloud.guest("cache")
    guest.sees()
    restart = tools.compute.virtual_machines.begin_restart(HOME, "cache")
    event = cloud.warned(guest, "Reboot")

    result = tools.maintenance.scheduled_events.acknowledge(
        HOME, "virtualMachines", "cache", event["EventId"]
    )
    finish(cloud, restart)

    assert result.value == "Successfully approved scheduled event"


def test_several_events_are_approved_from_outside_their_machines(cloud: Live, tools: Tools) -> None:
    guest = cloud.guest("web_0")
    guest.sees()
    two = (
        tools.compute.virtual_machine_scale_set_vms.begin_restart(HOME, "web", "0"),
        tools.compute.virtual_machine_scale_set_vms.begin_redeploy(HOME, "web", "1"),
    )
    until(lambda: len(guest.sees()) == 2, "both are announced")
    ids = [event["EventId"] for event in guest.sees()]

    tools.maintenance.scheduled_events.acknowledge_list(
        HOME, "virtualMachineScaleSets", "web", ScheduledEventsIdList(value=ids)
    )
    finish(cloud, *two)

    assert guest.sees() == []


def test_an_event_that_is_not_there_cannot_be_approved(tools: Tools) -> None:
    nothing = "00000000-0000-0000-0000-000000000000"

    with pytest.raises(ResourceNotFoundError) as refusal:
        tools.maintenance.scheduled_events.acknowledge(HOME, "virtualMachines", "db", nothing)

    assert "Scheduled event not found" in str(refusal.value)


@pytest.mark.rule("T-32")
def test_approving_events_that_are_not_there_says_which_ones(tools: Tools) -> None:
    nothing = "00000000-0000-0000-0000-000000000000"
    ids = ScheduledEventsIdList(value=[nothing])

    with pytest.raises(HttpResponseError) as refusal:
        tools.maintenance.scheduled_events.acknowledge_list(HOME, "virtualMachines", "db", ids)

    assert refusal.value.status_code == 207
    assert nothing in str(refusal.value)


def test_every_instance_of_a_set_is_redeployed_by_one_call(
    cloud: Live, client: ComputeManagementClient
) -> None:
    sets = client.virtual_machine_scale_sets
    sets.begin_create_or_update(GROUP, "trio", scale_set(3)).result(SOON)
    guest = cloud.guest("trio_0")
    guest.sees()

    every = sets.begin_redeploy(GROUP, "trio", VirtualMachineScaleSetVMInstanceIDs(instance_ids=["*"]))
    until(lambda: sum(len(event["Resources"]) for event in guest.sees()) == 3, "all are announced")
    guest.approve(*guest.sees())
    finish(cloud, every)

    assert guest.sees() == []


def test_a_machine_is_made_in_an_availability_set_and_deleted_with_its_group(
    cloud: Live, tools: Tools
) -> None:
    tools.resources.resource_groups.create_or_update("short", ResourceGroup(location="westeurope"))
    created = tools.compute.availability_sets.create_or_update(
        "short", "pair", AvailabilitySet(location="westeurope", sku=Sku(name="Aligned"))
    )
    machine = VirtualMachine(
        {
            "location": "westeurope",
            "properties": {
                "availabilitySet": {"id": created.id},
                "scheduledEventsProfile": {
                    "terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}
                },
            },
        }
    )
    vm = tools.compute.virtual_machines.begin_create_or_update("short", "left", machine).result(SOON)
    guest = cloud.guest("left")
    guest.sees()

    gone = tools.resources.resource_groups.begin_delete("short")
    event = cloud.warned(guest, "Terminate")
    under_way = gone.status()
    guest.approve(event)
    cloud.advance()
    gone.result(SOON)

    assert isinstance(vm.availability_set, SubResource)
    assert str(vm.availability_set.id).lower() == str(created.id).lower()
    assert under_way == "InProgress"
    assert not tools.resources.resource_groups.check_existence("short")


def test_a_machine_restarts_another_with_its_own_identity(
    cloud: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.guest("cache").url)

    with (
        ManagedIdentityCredential(use_env_settings=False) as machine,
        ComputeManagementClient(machine, SUBSCRIPTION, **options(cloud)) as client,
    ):
        restart = client.virtual_machines.begin_restart(HOME, "quiet")
        finish(cloud, restart)

    assert [row["kind"] for row in cloud.server.history() if "quiet" in row["resources"]][-1] == "finished"


def test_a_refusal_is_an_exception_that_says_why(client: ComputeManagementClient) -> None:
    with pytest.raises(ResourceNotFoundError) as refusal:
        client.virtual_machines.get(HOME, "nobody")

    assert refusal.value.error is not None
    assert refusal.value.error.code == "ResourceNotFound"
    assert "nobody" in str(refusal.value.error.message)


@pytest.mark.rule("L-16")
def test_the_eleventh_operation_at_once_is_one_too_many_in_2017(tmp_path: Path) -> None:
    words = ("--profile", "preview2017", "--availability-set", "app=11", "--start-enabled")
    with (
        live(tmp_path, *words) as cloud,
        credential(cloud) as user,
        ComputeManagementClient(user, SUBSCRIPTION, **options(cloud)) as client,
    ):
        restart = client.virtual_machines.begin_restart
        for number in range(10):
            restart(HOME, f"app-{number}", polling=False)

        with pytest.raises(HttpResponseError) as refusal:
            restart(HOME, "app-10", polling=False)

    assert refusal.value.status_code == 409
    assert refusal.value.error is not None
    assert refusal.value.error.code == "OperationNotAllowed"


@pytest.mark.parametrize(
    "thousands",
    [
        pytest.param(1, id="a thousand"),
        pytest.param(10, id="ten thousand", marks=pytest.mark.slow),
    ],
)
def test_machines_are_listed_page_by_page(tmp_path: Path, thousands: int) -> None:
    words = [word for number in range(thousands) for word in ("--flexible-set", f"pool{number}=1000")]
    with (
        live(tmp_path, *words) as cloud,
        credential(cloud) as user,
        ComputeManagementClient(user, SUBSCRIPTION, **options(cloud)) as client,
    ):
        pages = [list(page) for page in islice(client.virtual_machines.list_all().by_page(), 3)]
        sizes, _ = cloud.pages("providers/Microsoft.Compute/virtualMachines")

    assert [len(page) for page in pages] == [200, 200, 200]
    assert len({str(machine.id) for page in pages for machine in page}) == 600
    assert sizes == [200] * 5 * thousands


# What machines and sets have.


@pytest.mark.rule("T-31")
def test_a_machine_leaves_its_disk_behind_and_the_disk_is_deleted(cloud: Live, tools: Tools) -> None:
    group, compute = "lab(disks)", tools.compute
    tools.resources.resource_groups.create_or_update(group, ResourceGroup(location="westeurope"))
    vm = compute.virtual_machines.begin_create_or_update(
        group, "box", VirtualMachine({"location": "westeurope", "properties": {"userData": "c2VjcmV0"}})
    )
    disk = vm.result(SOON).storage_profile.os_disk
    attached = compute.disks.get(group, disk.name)
    with pytest.raises(ResourceExistsError):
        compute.disks.begin_delete(group, disk.name).result(SOON)
    plain = compute.virtual_machines.get(group, "box")
    with_data = compute.virtual_machines.get(group, "box", expand="userData")

    finish(cloud, compute.virtual_machines.begin_delete(group, "box"))
    left = [(item.name, item.disk_state) for item in compute.disks.list_by_resource_group(group)]
    compute.disks.begin_delete(group, disk.name).result(SOON)

    assert attached.id == disk.managed_disk.id
    assert attached.managed_by == plain.id
    assert (plain.user_data, with_data.user_data) == (None, "c2VjcmV0")
    assert left == [(disk.name, "Unattached")]
    assert list(compute.disks.list_by_resource_group(group)) == []


@pytest.mark.rule("T-33")
def test_the_tags_of_a_machine_are_changed_by_themselves(tools: Tools) -> None:
    scope, tags = str(tools.compute.virtual_machines.get(HOME, "quiet").id), tools.resources.tags

    tags.begin_create_or_update_at_scope(scope, TagsResource(properties=Tags(tags={"a": "1"}))).result(SOON)
    more = TagsPatchResource(operation="Merge", properties=Tags(tags={"b": "2"}))
    tags.begin_update_at_scope(scope, more).result(SOON)
    read = tags.get_at_scope(scope).properties.tags
    tags.begin_delete_at_scope(scope).result(SOON)

    assert read == {"a": "1", "b": "2"}
    assert tools.compute.virtual_machines.get(HOME, "quiet").tags == {}


@pytest.mark.rule("T-35")
def test_a_set_and_its_instances_have_extensions(tools: Tools) -> None:
    sets, instances = (
        tools.compute.virtual_machine_scale_set_extensions,
        tools.compute.virtual_machine_scale_set_vm_extensions,
    )
    script = VirtualMachineScaleSetExtension(
        {
            "properties": {
                "publisher": "Microsoft.Azure.Extensions",
                "type": "CustomScript",
                "typeHandlerVersion": "2.1",
                "protectedSettings": {"commandToExecute": "secret"},
            }
        }
    )

    created = sets.begin_create_or_update(HOME, "web", "script", script).result(SOON)
    of_instance = instances.get(HOME, "web", "0", "script")
    names = [extension.name for extension in sets.list(HOME, "web")]
    sets.begin_delete(HOME, "web", "script").result(SOON)

    assert (created.name, created.protected_settings) == ("script", None)
    assert of_instance.properties is not None
    assert of_instance.properties.publisher == "Microsoft.Azure.Extensions"
    assert names == ["script"]
    assert list(sets.list(HOME, "web")) == []


def test_the_sizes_of_a_machine_and_of_a_set_are_listed(client: ComputeManagementClient) -> None:
    sizes = [size.name for size in client.virtual_machines.list_available_sizes(HOME, "db")]
    skus = [str(sku.sku.name) for sku in client.virtual_machine_scale_sets.list_skus(HOME, "web") if sku.sku]

    assert "Standard_D2s_v5" in sizes
    assert set(skus) == set(sizes)
