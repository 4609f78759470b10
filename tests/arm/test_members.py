"""The members of compute resources: unknown ones are refused, known ones get Azure's spelling (T-01)."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from fairwarning.arm.compute.members import TYPES
from fairwarning.arm.documents import get_items
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.cloud import resource, template
from tests.arm.compute import AVAILABILITY_SET, NEWEST, SET, VM, compute, model, profile, scale_set
from tests.arm.deploying import deploy, deployable, facts
from tools.compute_members import Table, models_of


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(f"{SET}/web", scale_set(1))
    azure.put(f"{VM}/box", {})
    azure.put(f"{AVAILABILITY_SET}/app", {})
    return azure


MISSPELT = [
    pytest.param(
        f"{SET}/web",
        model(scheduledEventsProfil={}),
        "vmss.properties.virtualMachineProfile.scheduledEventsProfil",
        "Could not find member 'scheduledEventsProfil' on object of type 'VirtualMachineProfile'. "
        "Path 'properties.virtualMachineProfile.scheduledEventsProfil', line 1, position 64.",
        id="the profile of a scale set",
    ),
    pytest.param(
        f"{VM}/box",
        {"properties": {"scheduledEventsProfile": {"terminateNotificationProfil": {"enable": True}}}},
        "vm.properties.scheduledEventsProfile.terminateNotificationProfil",
        "Could not find member 'terminateNotificationProfil' on object of type 'ScheduledEventsProfile'. "
        "Path 'properties.scheduledEventsProfile.terminateNotificationProfil', line 1, position 71.",
        id="the terminate notification of a machine",
    ),
    pytest.param(
        f"{SET}/web/virtualMachines/0",
        {"properties": {"protectionPolicy": {"protectFromScalein": True, "protectFromDelete": True}}},
        "vm.properties.protectionPolicy.protectFromDelete",
        "Could not find member 'protectFromDelete' on object of type "
        "'VirtualMachineScaleSetVMProtectionPolicy'. "
        "Path 'properties.protectionPolicy.protectFromDelete', line 1, position 81.",
        id="the protection of an instance",
    ),
    pytest.param(
        f"{AVAILABILITY_SET}/app",
        {"properties": {"platformUpdateDomains": 3}},
        "availabilitySet.properties.platformUpdateDomains",
        "Could not find member 'platformUpdateDomains' on object of type 'Properties'. "
        "Path 'properties.platformUpdateDomains', line 1, position 39.",
        id="a count of an availability set",
    ),
    pytest.param(
        f"{VM}/box",
        {
            "properties": {
                "storageProfile": {"dataDisks": [{"lun": 0}, {"lun": 1, "diskSizeGb": 4, "size": 4}]}
            }
        },
        "vm.properties.storageProfile.dataDisks[1].size",
        "Could not find member 'size' on object of type 'DataDisk'. "
        "Path 'properties.storageProfile.dataDisks[1].size', line 1, position 87.",
        id="a member in a list",
    ),
    pytest.param(
        f"{AVAILABILITY_SET}/app",
        {"zones": ["1"]},
        "availabilitySet.zones",
        "Could not find member 'zones' on object of type 'AvailabilitySet'. "
        "Path 'zones', line 1, position 9.",
        id="a member that other resources have",
    ),
]


@pytest.mark.rule("T-01")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(("path", "body", "target", "message"), MISSPELT)
def test_a_misspelt_member_is_refused_in_azures_words(
    azure: Azure, method: str, path: str, body: Json, target: str, message: str
) -> None:
    before = azure.get(path)

    response = azure.send(method, path, body)

    assert response.status == 400
    assert at(response.body, "error") == {"code": "BadRequest", "message": message, "target": target}
    assert azure.get(path) == before


@pytest.mark.rule("T-01")
def test_a_member_that_no_resource_has_is_refused_by_the_resource_manager(azure: Azure) -> None:
    refused = azure.refused("PUT", f"{VM}/box", {"location": "westeurope", "propertys": {}})

    assert refused == (
        400,
        "InvalidRequestContent",
        "The request content was invalid and could not be deserialized: "
        "'Could not find member 'propertys' on object of type 'ResourceDefinition'. "
        "Path 'propertys', line 1, position 37.'.",
    )


@pytest.mark.rule("T-01")
def test_an_empty_object_is_a_use_of_a_member(azure: Azure) -> None:
    body: Json = {"properties": {"securityProfile": {}}}

    status, code, message = azure.refused("PUT", f"{VM}/box", body, version="2019-12-01")

    assert (status, code) == (400, "BadRequest")
    assert message.startswith("Could not find member 'securityProfile' on object of type 'Properties'.")
    assert azure.send("PUT", f"{VM}/box", body, version="2020-06-01").status == 200


@pytest.mark.rule("T-01")
def test_a_template_with_a_misspelt_member_fails() -> None:
    azure = deployable()
    misspelt = resource("web", kind=SET, properties={"virtualMachineProfile": {"scheduledEventsProfil": {}}})

    deploy(azure, template(misspelt))

    assert facts(azure, "provisioningState") == "Failed"
    error = facts(azure, "error", "details", 0)
    assert at(error, "code") == "BadRequest"
    assert at(error, "target") == "vmss.properties.virtualMachineProfile.scheduledEventsProfil"


def test_what_a_template_says_about_a_resource_is_no_member() -> None:
    azure = deployable()
    described = resource("box", kind=VM, comments="ours", metadata={"description": "ours"})

    deploy(azure, template(described))

    assert facts(azure, "provisioningState") == "Succeeded"


def test_members_are_kept_in_azures_spelling(azure: Azure) -> None:
    address: Json = {"Name": "public", "Properties": {"idletimeoutinminutes": 5}}
    address_properties: Json = {"publicipaddressconfiguration": address}
    interface: Json = {
        "name": "nic",
        "properties": {"ipConfigurations": [{"properties": address_properties}]},
    }

    azure.put(f"{SET}/web", model(networkprofile={"networkInterfaceConfigurations": [interface]}))

    network = at(azure.get(f"{SET}/web"), "properties", "virtualMachineProfile", "networkProfile")
    configuration = at(network, "networkInterfaceConfigurations", 0, "properties", "ipConfigurations", 0)
    assert at(configuration, "properties", "publicIPAddressConfiguration") == {
        "name": "public",
        "properties": {"idleTimeoutInMinutes": 5},
    }


@pytest.mark.parametrize(
    "properties",
    [
        {"settings": {"Any": {"thing": [1]}}},
        {"protectedSettings": {"Any": "thing"}},
    ],
    ids=["settings", "protected settings"],
)
def test_what_an_extension_reads_is_left_to_the_extension(azure: Azure, properties: dict[str, Json]) -> None:
    extension: Json = {"name": "script", "properties": {"publisher": "Acme", "type": "Script", **properties}}

    azure.put(f"{SET}/web", model(extensionProfile={"extensions": [extension]}))


def test_names_that_a_client_chooses_are_no_members(azure: Azure) -> None:
    name = f"{ROOT}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/mine"
    identity: Json = {"type": "UserAssigned", "userAssignedIdentities": {name: {}}}
    wrong: Json = {"type": "UserAssigned", "userAssignedIdentities": {name: {"client": "x"}}}

    azure.put(f"{VM}/box", {"identity": identity, "tags": {"scheduledEventsProfil": "x"}})

    status, _, message = azure.refused("PUT", f"{VM}/box", {"identity": wrong})
    assert status == 400
    assert "member 'client' on object of type 'UserAssignedIdentitiesValue'" in message


# -- what clients send back

POLICY: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}


def fleet() -> Azure:
    """Return all kinds of machines and sets: those that ``up`` creates and those that clients create."""
    azure = compute(
        Blueprint(name="uniform", count=1),
        Blueprint(name="flexible", count=1, kind=ScopeKind.FLEXIBLE_SET),
        Blueprint(name="available", count=1, kind=ScopeKind.AVAILABILITY_SET),
        Blueprint(name="alone", kind=ScopeKind.STANDALONE),
    )
    profiles: Json = {**profile(7), "priority": "Regular"}
    azure.put(f"{SET}/web", scale_set(1, virtualMachineProfile=profiles))
    azure.put(f"{SET}/flex", scale_set(1, virtualMachineProfile=profile(7), orchestrationMode="Flexible"))
    azure.put(f"{VM}/box", {"properties": {**profile(7), "scheduledEventsPolicy": POLICY}})
    azure.put(f"{AVAILABILITY_SET}/app", {"properties": {"scheduledEventsPolicy": POLICY}})
    return azure


@pytest.mark.parametrize(
    "version", ["2015-05-01-preview", "2016-04-30-preview", "2019-03-01", "2022-12-31", NEWEST, "2099-01-01"]
)
def test_what_is_read_can_be_put_back(version: str) -> None:
    azure = fleet()
    folders = [f"{root}{kind}" for root in ("", f"{HOME}/") for kind in (VM, SET, AVAILABILITY_SET)]
    paths = [path for folder in folders for path in listed(azure, folder)]
    sets = [path for path in paths if SET in path]
    paths += [path for scale_set in sets for path in listed(azure, f"{scale_set}/virtualMachines")]

    for path in paths:
        for query in ("", "?$expand=instanceView"):
            response = azure.send("PUT", path, azure.get(f"{path}{query}", version=version), version=version)
            assert response.status == 200, response

    assert len(paths) == 15


def listed(azure: Azure, path: str) -> list[str]:
    return [str(at(document, "id")) for document in get_items(azure.get(path), "value")]


# -- the table


def test_the_table_has_every_member_that_the_newest_sdk_sends() -> None:
    sdk = find_spec("azure.mgmt.compute")
    assert sdk is not None
    assert sdk.origin is not None
    table = Table()

    table.add(NEWEST, models_of(Path(sdk.origin).with_name("models").joinpath("_models.py").read_text()))

    members = {(name, member.lower()) for name, entries in table.types.items() for member in entries}
    assert len(members) > 600
    assert members - {(name, member) for name, known in TYPES.items() for member in known} == set()


def test_every_type_in_the_table_is_there() -> None:
    named = {member.type for members in TYPES.values() for member in members.values()}

    assert named - {""} <= set(TYPES)
    assert {member.type for member in TYPES["VirtualMachineIdentity"].values() if member.is_map} == {
        "UserAssignedIdentitiesValue"
    }
