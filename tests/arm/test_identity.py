"""A machine is the same to the management API and to the software that runs on it."""

import json
import uuid

import jwt
import pytest

from fairwarning.access import stored_secret
from fairwarning.arm.compute.user_data import KEY_NAME, machine_user_data
from fairwarning.arm.tokens import Tokens, machine_token
from fairwarning.core.azure.identity import identify
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from fairwarning.metadata import instance
from tests.arm.arm_client import NOON
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import SET, VM, both, compute, model, scale_set
from tests.fleet_harness import run

DEBIAN: dict[str, Json] = {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}
UBUNTU: dict[str, Json] = {
    "publisher": "Canonical",
    "offer": "0001-com-ubuntu-server-jammy",
    "sku": "22_04-lts-gen2",
    "version": "latest",
}


def seen_inside(azure: Azure, name: str, version: str = "2021-12-13") -> Json:
    """Return the compute part of ``/metadata/instance`` on a machine."""
    machine = azure.fleet.machine(name)
    scope = azure.fleet.scope(machine.scope)
    facts = instance.instance_facts(machine, scope.facts, azure.fleet.engine.stored)
    return at(instance.document(facts, version), "compute")


@pytest.mark.rule("S-06")
def test_an_instance_has_one_computer_name() -> None:
    azure = compute()
    azure.put(f"{SET}/web", scale_set(12))

    outside = at(azure.get(f"{SET}/web/virtualMachines/11"), "properties", "osProfile", "computerName")
    view = at(azure.get(f"{SET}/web/virtualMachines/11/instanceView"), "computerName")

    assert (outside, view) == ("web00000B", "web00000B")
    assert at(seen_inside(azure, "web_11"), "osProfile", "computerName") == "web00000B"


@pytest.mark.rule("S-06")
def test_the_prefix_of_computer_names_is_that_of_the_set() -> None:
    azure = compute()
    azure.put(f"{SET}/web", both(scale_set(1), model(osProfile={"computerNamePrefix": "shop"})))

    outside = at(azure.get(f"{SET}/web/virtualMachines/0"), "properties", "osProfile", "computerName")

    assert outside == "shop000000"
    assert at(seen_inside(azure, "web_0"), "osProfile", "computerName") == "shop000000"


def test_a_machine_knows_the_group_that_it_was_made_in() -> None:
    azure = compute()
    azure.put(f"{SET}/web", scale_set(1))
    azure.put(f"{VM}/db", {"location": "westeurope"})

    instance_of_set, machine = seen_inside(azure, "web_0"), seen_inside(azure, "db")

    assert at(instance_of_set, "resourceGroupName") == at(machine, "resourceGroupName") == "lab"
    assert at(instance_of_set, "resourceId") == at(azure.get(f"{SET}/web/virtualMachines/0"), "id")
    assert at(instance_of_set, "resourceId") == f"{ROOT}/providers/{SET}/web/virtualMachines/0"
    assert at(machine, "resourceId") == at(azure.get(f"{VM}/db"), "id")


def test_a_machine_that_no_client_has_described_is_in_the_home_group() -> None:
    azure = compute(Blueprint(name="web", count=1), Blueprint(name="box", kind=ScopeKind.STANDALONE))

    assert at(seen_inside(azure, "box"), "resourceId") == f"{HOME}/{VM}/box"
    assert at(seen_inside(azure, "web_0"), "resourceId") == f"{HOME}/{SET}/web/virtualMachines/0"
    assert at(seen_inside(azure, "box"), "resourceGroupName") == "fairwarning"


def test_a_machine_knows_its_size_location_and_image() -> None:
    azure = compute()
    profile: Json = {
        "hardwareProfile": {"vmSize": "Standard_E4s_v5"},
        "storageProfile": {"imageReference": DEBIAN},
    }
    azure.put(f"{VM}/db", {"location": "northeurope", "properties": profile})

    inside = seen_inside(azure, "db")

    assert at(inside, "vmSize") == "Standard_E4s_v5"
    assert at(inside, "location") == "northeurope"
    assert (at(inside, "publisher"), at(inside, "offer"), at(inside, "sku")) == ("Debian", "debian-12", "12")


@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_the_machines_of_a_set_have_its_size_location_and_image(mode: str) -> None:
    azure = compute()
    body = both(scale_set(1), model(storageProfile={"imageReference": DEBIAN}))
    own: Json = {
        "location": "eastus",
        "sku": {"name": "Standard_F8s_v2"},
        "properties": {"orchestrationMode": mode},
    }
    azure.put(f"{SET}/web", both(body, own))

    (name,) = azure.fleet.machines("lab/web")
    inside = seen_inside(azure, name)

    assert at(inside, "vmSize") == "Standard_F8s_v2"
    assert at(inside, "location") == "eastus"
    assert at(inside, "publisher") == "Debian"


def test_the_document_of_an_earlier_machine_says_nothing_about_its_successor() -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"properties": {"hardwareProfile": {"vmSize": "Standard_E4s_v5"}}})
    machine = azure.fleet.machine("db")
    texts = {
        key: json.dumps({**json.loads(text), "properties": {"vmId": "another"}})
        for key, text in azure.fleet.engine.texts().items()
    }

    facts = identify(machine, azure.fleet.scope("lab/db").facts, lambda key: json.loads(texts[key.lower()]))

    assert facts.size == "Standard_D2s_v5"


@pytest.mark.rule("I-13")
@pytest.mark.parametrize(
    ("reference", "version"),
    [
        pytest.param(UBUNTU, "22.04.202608060", id="the newest version of a known image"),
        pytest.param({**UBUNTU, "publisher": "canonical"}, "22.04.202608060", id="names in any case"),
        pytest.param(
            {**UBUNTU, "version": "22.04.202307010"}, "22.04.202307010", id="a version that was named"
        ),
        pytest.param(DEBIAN, "1.0.0", id="an image that the catalog does not have"),
        pytest.param(
            {"id": f"{ROOT}/providers/Microsoft.Compute/images/mine"}, "", id="an image of a gallery"
        ),
    ],
)
def test_a_machine_knows_the_version_that_latest_stands_for(reference: dict[str, Json], version: str) -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"properties": {"storageProfile": {"imageReference": reference}}})

    inside = seen_inside(azure, "db", "2023-07-01")

    assert at(inside, "version") == version
    assert at(inside, "storageProfile", "imageReference", "exactVersion") == version
    assert at(inside, "storageProfile", "imageReference", "version") == reference.get("version", "")


@pytest.mark.rule("I-14")
@pytest.mark.parametrize("priority", ["Regular", "Spot", "Low"])
def test_a_machine_has_the_priority_it_was_created_with(priority: str) -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"properties": {"priority": priority}})
    azure.put(f"{SET}/web", both(scale_set(1), model(priority=priority)))

    assert at(seen_inside(azure, "db"), "priority") == priority
    assert at(seen_inside(azure, "web_0"), "priority") == priority


@pytest.mark.rule("I-14")
def test_a_machine_that_was_created_without_a_priority_leaves_it_empty() -> None:
    azure = compute(
        Blueprint(name="box", kind=ScopeKind.STANDALONE),
        Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True),
    )
    azure.put(f"{VM}/db", {"location": "westeurope"})

    assert at(seen_inside(azure, "db"), "priority") == at(seen_inside(azure, "box"), "priority") == ""
    assert at(seen_inside(azure, "batch"), "priority") == "Spot"


def identity_inside(azure: Azure, name: str) -> tuple[str, str]:
    """Return the client id and the principal id in a token of a machine."""
    tokens = Tokens("k" * 32, lambda: NOON)
    answer = machine_token(tokens, azure.fleet.engine, azure.fleet.ref(name), "https://management.azure.com/")
    claims = jwt.decode(str(answer["access_token"]), options={"verify_signature": False})
    assert claims["appid"] == answer["client_id"]
    return str(answer["client_id"]), str(claims["oid"])


@pytest.mark.rule("I-15")
def test_the_token_of_a_machine_names_the_principal_that_the_management_api_shows() -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"location": "westeurope", "identity": {"type": "SystemAssigned"}})

    client_id, principal_id = identity_inside(azure, "db")

    assert principal_id == at(azure.get(f"{VM}/db"), "identity", "principalId")
    assert uuid.UUID(client_id) != uuid.UUID(principal_id)
    assert identity_inside(azure, "db") == (client_id, principal_id)


@pytest.mark.rule("I-15")
def test_the_instances_of_a_scale_set_share_its_identity() -> None:
    azure = compute()
    azure.put(f"{SET}/web", both(scale_set(2), {"identity": {"type": "SystemAssigned"}}))

    (identity,) = {identity_inside(azure, name) for name in ("web_0", "web_1")}

    assert identity[1] == at(azure.get(f"{SET}/web"), "identity", "principalId")


LINUX: Json = {
    "adminUsername": "azureuser",
    "linuxConfiguration": {
        "disablePasswordAuthentication": True,
        "ssh": {"publicKeys": [{"path": "/home/azureuser/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA"}]},
    },
}


@pytest.mark.rule("I-18")
@pytest.mark.parametrize("kind", ["machine", "instance"])
def test_a_machine_reads_what_its_creator_asked_for(kind: str) -> None:
    azure = compute()
    plan: Json = {"plan": {"name": "gold", "product": "shop", "publisher": "contoso"}}
    profile: dict[str, Json] = {"osProfile": LINUX, "licenseType": "RHEL_BYOS"}
    azure.put(f"{VM}/db", both(plan, {"properties": profile}))
    azure.put(f"{SET}/web", both(plan, both(scale_set(1), model(**profile))))

    inside = seen_inside(azure, "db" if kind == "machine" else "web_0")

    assert at(inside, "osProfile", "adminUsername") == "azureuser"
    assert at(inside, "osProfile", "disablePasswordAuthentication") == "true"
    assert at(inside, "publicKeys") == [
        {"keyData": "ssh-rsa AAAA", "path": "/home/azureuser/.ssh/authorized_keys"}
    ]
    assert at(inside, "licenseType") == "RHEL_BYOS"
    assert at(inside, "plan") == {"name": "gold", "product": "shop", "publisher": "contoso"}


@pytest.mark.rule("I-18")
@pytest.mark.parametrize(
    ("profile", "keys_only"),
    [
        pytest.param(
            {"linuxConfiguration": {"disablePasswordAuthentication": False}}, "false", id="passwords"
        ),
        pytest.param({"adminUsername": "ops"}, "false", id="the default of Azure"),
        pytest.param({"windowsConfiguration": {}}, "", id="Windows"),
    ],
)
def test_a_machine_reads_whether_passwords_are_accepted(profile: Json, keys_only: str) -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"properties": {"osProfile": profile}})

    assert at(seen_inside(azure, "db"), "osProfile", "disablePasswordAuthentication") == keys_only


@pytest.mark.rule("I-20")
@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_a_machine_reads_its_user_data(mode: str) -> None:
    azure = compute()
    azure.put(f"{VM}/db", {"location": "westeurope", "properties": {"userData": "aGVsbG8="}})
    azure.put(f"{VM}/bare", {"location": "westeurope"})
    orchestration: Json = {"properties": {"orchestrationMode": mode}}
    azure.put(f"{SET}/web", both(both(scale_set(1), orchestration), model(userData="d29ybGQ=")))
    key = run(stored_secret(azure.fleet.engine.store, KEY_NAME))

    def inside(name: str) -> str:
        return machine_user_data(azure.fleet.engine, key, azure.fleet.ref(name))

    assert inside("db") == "aGVsbG8="
    assert [inside(name) for name in azure.fleet.machines("lab/web")] == ["d29ybGQ="]
    assert inside("bare") == ""
