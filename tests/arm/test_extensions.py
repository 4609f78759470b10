"""Extensions of machines, instances and scale sets."""

import pytest

from fairwarning.arm.documents import get_fields, overlay
from fairwarning.core.document.render import Json
from tests.arm.azure import ROOT, Azure, at
from tests.arm.cloud import resource, template
from tests.arm.compute import SET, VM, both, compute, model, scale_set
from tests.arm.deploying import deploy, deployable, facts

pytestmark = pytest.mark.rule("T-35")

DB, WEB = f"{VM}/db", f"{SET}/web"
FIRST = f"{WEB}/virtualMachines/0"
HERE: Json = {"location": "westeurope"}
SCRIPT: dict[str, Json] = {
    "publisher": "Microsoft.Azure.Extensions",
    "type": "CustomScript",
    "typeHandlerVersion": "2.1",
    "settings": {"commandToExecute": "true"},
}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(DB, HERE)
    azure.put(WEB, scale_set(2))
    return azure


def test_a_machine_that_is_read_and_put_back_has_its_extensions_once(azure: Azure) -> None:
    azure.put(f"{DB}/extensions/Script", {"properties": SCRIPT})
    azure.put(DB, azure.get(DB))
    azure.delete(f"{DB}/extensions/Script")

    assert "resources" not in get_fields(azure.get(DB))


@pytest.mark.parametrize("owner", [DB, WEB, FIRST])
def test_an_extension_is_what_was_put(azure: Azure, owner: str) -> None:
    created = azure.put(f"{owner}/extensions/Script", {"properties": SCRIPT})

    read = azure.get(f"{owner.lower()}/extensions/script")

    assert (created.status, azure.progress(created)) == (201, "Succeeded")
    assert overlay(created.body, {"properties": {"provisioningState": "Succeeded"}}) == read
    assert at(read, "id") == f"{ROOT}/providers/{owner}/extensions/Script"
    assert at(read, "type") == f"{'/'.join(owner.split('/')[0:2])}" + (
        "/virtualMachines/extensions" if owner == FIRST else "/extensions"
    )
    assert at(read, "properties") == {**SCRIPT, "provisioningState": "Succeeded"}
    assert azure.names(f"{owner}/extensions") == ["Script"]


@pytest.mark.parametrize("owner", [DB, WEB, FIRST])
def test_an_extension_is_changed_and_deleted(azure: Azure, owner: str) -> None:
    azure.put(f"{owner}/extensions/script", {"properties": SCRIPT})

    again = azure.put(f"{owner}/extensions/script", {"properties": {**SCRIPT, "typeHandlerVersion": "2.2"}})
    azure.patch(f"{owner}/extensions/script", {"properties": {"autoUpgradeMinorVersion": "true"}})
    properties = at(azure.get(f"{owner}/extensions/script"), "properties")
    statuses = [azure.delete(f"{owner}/extensions/script").status for _ in range(2)]

    assert again.status == 200
    assert (at(properties, "typeHandlerVersion"), at(properties, "autoUpgradeMinorVersion")) == ("2.2", True)
    assert statuses == [200, 204]
    assert azure.names(f"{owner}/extensions") == []
    assert azure.refused("GET", f"{owner}/extensions/script")[:2] == (404, "ResourceNotFound")


def test_the_extensions_of_a_set_are_part_of_its_model(azure: Azure) -> None:
    azure.put(WEB, model(extensionProfile={"extensions": [{"name": "first", "properties": SCRIPT}]}))
    before = azure.names(f"{WEB}/extensions")

    azure.put(f"{WEB}/extensions/second", {"properties": SCRIPT})

    profile = at(azure.get(WEB), "properties", "virtualMachineProfile", "extensionProfile", "extensions")
    assert before == ["first"]
    assert isinstance(profile, list)
    assert [at(item, "name") for item in profile] == ["first", "second"]
    assert at(azure.get(FIRST), "properties", "latestModelApplied") is False
    assert at(azure.get(WEB), "sku", "capacity") == 2


def test_an_instance_has_the_extensions_of_its_set_and_its_own(azure: Azure) -> None:
    azure.put(f"{WEB}/extensions/shared", {"properties": SCRIPT})
    azure.put(f"{FIRST}/extensions/own", both(HERE, {"properties": SCRIPT}))

    lists = [azure.names(f"{WEB}/virtualMachines/{number}/extensions") for number in (0, 1)]
    shared = azure.get(f"{FIRST}/extensions/shared")

    assert lists == [["own", "shared"], ["shared"]]
    assert at(shared, "id") == f"{ROOT}/providers/{FIRST}/extensions/shared"
    assert azure.refused("DELETE", f"{FIRST}/extensions/shared")[:2] == (409, "OperationNotAllowed")


@pytest.mark.parametrize("owner", [DB, FIRST])
def test_extensions_go_with_their_machine(azure: Azure, owner: str) -> None:
    azure.put(f"{owner}/extensions/script", {"properties": SCRIPT})

    azure.delete(owner)
    azure.approve_all()
    azure.advance("1m")

    assert [key for key in azure.fleet.engine.texts() if "/extensions/" in key] == []


@pytest.mark.parametrize("owner", [f"{VM}/none", f"{SET}/none", f"{WEB}/virtualMachines/7"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_what_is_not_there_has_no_extensions(azure: Azure, owner: str, method: str) -> None:
    refusal = azure.refused(method, f"{owner}/extensions/script", {"properties": SCRIPT})

    assert refusal[:2] == (404, "ParentResourceNotFound")
    assert azure.refused("GET", f"{owner}/extensions")[:2] == (404, "ParentResourceNotFound")


def test_a_template_has_extensions() -> None:
    azure = deployable()
    vm = resource("db", kind=VM, location="westeurope")
    script = resource("db/script", DB, kind=f"{VM}/extensions", location="westeurope", properties=SCRIPT)

    deploy(azure, template(vm, script))

    assert facts(azure, "provisioningState") == "Succeeded"
    assert at(azure.get(f"{DB}/extensions/script"), "properties", "type") == "CustomScript"
