"""Deployments: the resources they create, their progress, their outputs, and what survives a restart."""

import pytest

from fairwarning.arm import operations
from fairwarning.core.document.render import Json
from tests.arm.azure import BASE, ROOT, Azure, at, header
from tests.arm.cloud import resource, template
from tests.arm.deploying import (
    DEPLOYMENTS,
    NET,
    ONE,
    SET,
    VMSS,
    body,
    deploy,
    deploy_set,
    deployable,
    facts,
    interrupt,
    listed,
)


@pytest.fixture
def azure() -> Azure:
    return deployable()


def test_a_deployment_makes_what_its_template_asks_for(azure: Azure) -> None:
    deploy_set(azure)

    assert facts(azure, "provisioningState") == "Succeeded"
    assert azure.fleet.machines("lab/web") == ["web_0", "web_1"]
    assert [ref.name for ref in azure.opened_endpoints] == ["web_0", "web_1"]
    assert azure.names("Microsoft.Network/loadBalancers/lb/inboundNatRules") == ["ssh"]
    assert at(azure.get(NET), "properties", "subnets", 0, "name") == "inner"


def test_the_first_answer_says_that_it_was_accepted_and_where_to_ask(azure: Azure) -> None:
    response = deploy_set(azure)

    assert response.status == 201
    assert at(response.body, "properties", "provisioningState") == "Accepted"
    assert at(response.body, "properties", "outputs") is None
    assert str(header(response, "Azure-AsyncOperation")).startswith(
        f"{BASE}{ROOT}/providers/{ONE}/operationStatuses/"
    )
    assert header(response, "Location") is None
    assert header(response, "x-ms-retry-after-ms") == "100"
    assert azure.progress(response) == "Succeeded"


def test_outputs_are_named_as_arm_names_them(azure: Azure) -> None:
    deploy_set(azure)

    outputs = facts(azure, "outputs")
    assert at(outputs, "vmss", "type") == "Object"
    assert at(outputs, "vmss", "value", "provisioningState") == "Succeeded"
    assert at(outputs, "vmss", "value", "upgradePolicy", "mode") == "Manual"
    assert at(outputs, "subnet", "value") == f"{ROOT}/providers/{NET}/subnets/inner"


def test_words_for_booleans_mean_booleans(azure: Azure) -> None:
    deploy_set(azure)

    profile = at(azure.get(f"{VMSS}/web"), "properties", "virtualMachineProfile", "scheduledEventsProfile")
    assert at(profile, "terminateNotificationProfile", "enable") is True


def test_a_deployment_tells_what_it_was_given_but_no_secrets(azure: Azure) -> None:
    deploy_set(azure)

    assert facts(azure, "parameters") == {
        "count": {"type": "Int", "value": 2},
        "adminPassword": {"type": "SecureString"},
    }
    assert "hunter2" not in str(azure.context.committed().document(f"{ROOT}/providers/{ONE}"))


def test_a_deployment_tells_what_it_has_deployed(azure: Azure) -> None:
    deploy_set(azure)

    resources = facts(azure, "outputResources")
    assert isinstance(resources, list)
    assert {str(at(one, "id")).rpartition("/")[2] for one in resources} == {"net", "lb", "ssh", "web"}
    assert {str(at(one, "namespace")) for one in listed(facts(azure, "providers"))} == {
        "Microsoft.Network",
        "Microsoft.Compute",
    }


def test_the_same_template_again_changes_nothing(azure: Azure) -> None:
    deploy_set(azure)

    response = deploy_set(azure)

    assert response.status == 200
    assert azure.progress(response) == "Succeeded"
    assert azure.fleet.machines("lab/web") == ["web_0", "web_1"]


def test_a_machine_and_what_it_is_made_with_come_in_one_go(azure: Azure) -> None:
    written = template(
        resource("sets", kind="Microsoft.Compute/availabilitySets", location="westeurope"),
        resource("nic", kind="Microsoft.Network/networkInterfaces"),
        resource(
            "db",
            "nic",
            "sets",
            kind="Microsoft.Compute/virtualMachines",
            location="westeurope",
            properties={
                "availabilitySet": {"id": "[resourceId('Microsoft.Compute/availabilitySets', 'sets')]"},
                "networkProfile": {
                    "networkInterfaces": [
                        {"id": "[resourceId('Microsoft.Network/networkInterfaces', 'nic')]"}
                    ]
                },
            },
        ),
    )

    deploy(azure, written)

    assert facts(azure, "provisioningState") == "Succeeded"
    assert azure.fleet.machines("lab/sets") == ["db"]


def test_a_template_may_refer_to_what_stands_already(azure: Azure) -> None:
    deploy_set(azure)
    outputs: Json = {
        "count": {
            "type": "int",
            "value": f"[reference(resourceId('{VMSS}', 'web'), 'x', 'Full').sku.capacity]",
        }
    }

    deploy(azure, template(outputs=outputs), f"{DEPLOYMENTS}/two")

    assert facts(azure, "outputs", "count", "value", name=f"{DEPLOYMENTS}/two") == 2


def test_a_deployment_runs_for_as_long_as_what_it_has_begun(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")

    response = deploy_set(azure, count=1)
    during = azure.progress(response), facts(azure, "provisioningState"), facts(azure, "outputs")
    azure.advance("11m")

    assert during == ("Running", "Running", None)
    assert azure.progress(response) == "Succeeded"
    assert len(azure.fleet.machines("lab/web")) == 1


# Nested deployments.


def nested(inner: Json, name: str = "inner", **more: Json) -> Json:
    return resource(name, kind=DEPLOYMENTS, properties={"mode": "Incremental", "template": inner, **more})


def test_a_deployment_may_hold_another(azure: Azure) -> None:
    inner = template(resource("net"), outputs={"It": {"type": "string", "value": "said"}})
    outputs: Json = {"it": {"type": "string", "value": "[reference('inner').outputs.it.value]"}}

    deploy(azure, template(nested(inner), outputs=outputs))

    assert facts(azure, "outputs", "it", "value") == "said"
    assert sorted(azure.names(DEPLOYMENTS)) == ["inner", "one"]
    assert at(azure.get(NET), "name") == "net"


def test_what_fails_inside_fails_outside(azure: Azure) -> None:
    inner = template(resource("db/ssh", kind="Microsoft.Network/loadBalancers/inboundNatRules"))

    response = deploy(azure, template(nested(inner)))

    assert azure.progress(response) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "DeploymentFailed"
    assert facts(azure, "error", "details", 0, "details", 0, "code") == "ParentResourceNotFound"


def test_a_deployment_cannot_hold_itself(azure: Azure) -> None:
    response = deploy(azure, template(nested(template(), name="one")))

    assert azure.progress(response) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "DeploymentActive"


def test_a_nested_deployment_may_go_to_another_group(azure: Azure) -> None:
    other = ROOT.replace("/lab", "/other")
    azure.put(other, {"location": "westeurope"})
    inner = resource(
        "inner",
        kind=DEPLOYMENTS,
        resourceGroup="other",
        properties={"template": template(resource("net")), "expressionEvaluationOptions": {"scope": "inner"}},
    )

    deploy(azure, template(inner))

    assert at(azure.get(f"{other}/providers/{NET}"), "name") == "net"


# What else clients ask.


def test_a_template_can_be_validated_without_being_deployed(azure: Azure) -> None:
    response = azure.post(f"{ONE}/validate", body(SET, count=2, adminPassword="hunter2"))

    assert at(response.body, "properties", "provisioningState") == "Succeeded"
    assert len(listed(at(response.body, "properties", "validatedResources"))) == 4
    assert "hunter2" not in str(response.body)
    assert azure.send("GET", ONE).status == 404
    assert azure.send("GET", NET).status == 404


def test_a_deployment_that_is_deleted_leaves_what_it_deployed(azure: Azure) -> None:
    deploy(azure, template(resource("net")))

    statuses = [azure.send("HEAD", ONE).status, azure.delete(ONE).status, azure.delete(ONE).status]

    assert statuses == [204, 204, 204]
    assert azure.send("GET", ONE).status == 404
    assert at(azure.get(NET), "name") == "net"


# What survives.


def test_a_deployment_is_there_after_a_restart(azure: Azure) -> None:
    deploy_set(azure)
    before = azure.get(ONE)

    azure.restart()

    assert azure.get(ONE) == before


def test_a_resource_that_a_template_puts_below_another_is_there_after_a_restart(azure: Azure) -> None:
    kind, scope = "Microsoft.Authorization/roleAssignments", "Microsoft.Compute/virtualMachines/db"
    deploy(azure, template(resource("reader", kind=kind, scope=scope)))

    azure.restart()

    assert facts(azure, "provisioningState") == "Succeeded"
    assert azure.context.committed().document(f"{ROOT}/providers/{scope}/providers/{kind}/reader")


def test_what_a_server_left_undone_is_taken_up_by_the_next(azure: Azure) -> None:
    response = deploy_set(azure)

    interrupt(azure, count=3)

    assert azure.progress(response) == "Succeeded"
    assert len(azure.fleet.machines("lab/web")) == 3


def test_an_operation_that_was_forgotten_holds_no_deployment_up(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")
    response = deploy_set(azure, count=1)
    for _ in range(3):
        azure.advance("2h")
        azure.get(ROOT)

    assert not list(operations.all_operations(azure.context.committed().view))
    assert azure.progress(response) == "Succeeded"
