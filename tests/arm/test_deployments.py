"""Templates that are deployed: what they make, how far they are, what they say, and how they fail."""

import pytest

from fairwarning.arm import availability_sets, deployments, groups, network, operations, scalesets, vms
from fairwarning.arm.call import Reply
from fairwarning.core.wire import Json
from tests.arm.azure import BASE, ROOT, Azure, at, header
from tests.arm.cloud import resource, template
from tests.stage import run

DEPLOYMENTS = "Microsoft.Resources/deployments"
ONE = f"{DEPLOYMENTS}/one"
NET = "Microsoft.Network/virtualNetworks/net"
VMSS = "Microsoft.Compute/virtualMachineScaleSets"

SET = template(
    resource("net", location="westeurope", properties={"subnets": [{"name": "inner"}]}),
    resource("lb", kind="Microsoft.Network/loadBalancers"),
    resource("lb/ssh", "lb", kind="Microsoft.Network/loadBalancers/inboundNatRules"),
    resource(
        "web",
        "Microsoft.Network/virtualNetworks/net",
        kind=VMSS,
        location="westeurope",
        sku={"name": "Standard_D2s_v3", "capacity": "[parameters('count')]"},
        properties={
            "orchestrationMode": "Uniform",
            "upgradePolicy": {"mode": "manual"},
            "virtualMachineProfile": {
                "osProfile": {"adminPassword": "[parameters('adminPassword')]"},
                "scheduledEventsProfile": {
                    "terminateNotificationProfile": {"notBeforeTimeout": "PT10M", "enable": "true"}
                },
            },
        },
    ),
    parameters={"count": {"type": "int"}, "adminPassword": {"type": "secureString"}},
    outputs={
        "VMSS": {"type": "object", "value": f"[reference(resourceId('{VMSS}', 'web'), '2024-07-01')]"},
        "subnet": {"type": "string", "value": "[reference('net').subnets[0].id]"},
    },
)


@pytest.fixture
def azure() -> Azure:
    return Azure(
        groups.ROUTES,
        vms.ROUTES,
        scalesets.ROUTES,
        availability_sets.ROUTES,
        network.ROUTES,
        deployments.ROUTES,
    )


def body(written: Json, /, **parameters: Json) -> Json:
    given: dict[str, Json] = {name: {"value": value} for name, value in parameters.items()}
    return {"properties": {"mode": "incremental", "template": written, "parameters": given}}


def deploy(azure: Azure, written: Json, path: str = ONE, /, **parameters: Json) -> Reply:
    return azure.put(path, body(written, **parameters))


def facts(azure: Azure, *path: str | int, name: str = ONE) -> Json:
    return at(azure.get(name), "properties", *path)


def deploy_set(azure: Azure, count: int = 2) -> Reply:
    return deploy(azure, SET, count=count, adminPassword="secret")


def test_a_deployment_makes_what_its_template_asks_for(azure: Azure) -> None:
    deploy_set(azure)

    assert facts(azure, "provisioningState") == "Succeeded"
    assert azure.stage.machines("lab/web") == ["web_0", "web_1"]
    assert [ref.name for ref in azure.welcomed] == ["web_0", "web_1"]
    assert azure.names("Microsoft.Network/loadBalancers/lb/inboundNatRules") == ["ssh"]
    assert at(azure.get(NET), "properties", "subnets", 0, "name") == "inner"


def test_the_first_answer_says_that_it_was_accepted_and_where_to_ask(azure: Azure) -> None:
    reply = deploy_set(azure)

    assert reply.status == 201
    assert at(reply.body, "properties", "provisioningState") == "Accepted"
    assert at(reply.body, "properties", "outputs") is None
    assert str(header(reply, "Azure-AsyncOperation")).startswith(
        f"{BASE}{ROOT}/providers/{ONE}/operationStatuses/"
    )
    assert header(reply, "Location") is None
    assert header(reply, "x-ms-retry-after-ms") == "100"
    assert azure.progress(reply) == "Succeeded"


def test_outputs_are_named_as_arm_names_them(azure: Azure) -> None:
    deploy_set(azure)

    said = facts(azure, "outputs")
    assert at(said, "vmss", "type") == "Object"
    assert at(said, "vmss", "value", "provisioningState") == "Succeeded"
    assert at(said, "vmss", "value", "upgradePolicy", "mode") == "Manual"
    assert at(said, "subnet", "value") == f"{ROOT}/providers/{NET}/subnets/inner"


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
    assert "secret" not in str(azure.room.document(f"{ROOT}/providers/{ONE}"))


def test_a_deployment_tells_what_it_has_deployed(azure: Azure) -> None:
    deploy_set(azure)

    found = facts(azure, "outputResources")
    assert isinstance(found, list)
    assert {str(at(one, "id")).rpartition("/")[2] for one in found} == {"net", "lb", "ssh", "web"}
    assert {str(at(one, "namespace")) for one in _list(facts(azure, "providers"))} == {
        "Microsoft.Network",
        "Microsoft.Compute",
    }


def test_the_same_template_again_changes_nothing(azure: Azure) -> None:
    deploy_set(azure)

    reply = deploy_set(azure)

    assert reply.status == 200
    assert azure.progress(reply) == "Succeeded"
    assert azure.stage.machines("lab/web") == ["web_0", "web_1"]


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
    assert azure.stage.machines("lab/sets") == ["db"]


def test_a_template_may_refer_to_what_stands_already(azure: Azure) -> None:
    deploy_set(azure)
    said: Json = {
        "count": {
            "type": "int",
            "value": f"[reference(resourceId('{VMSS}', 'web'), 'x', 'Full').sku.capacity]",
        }
    }

    deploy(azure, template(outputs=said), f"{DEPLOYMENTS}/two")

    assert facts(azure, "outputs", "count", "value", name=f"{DEPLOYMENTS}/two") == 2


def test_a_deployment_runs_for_as_long_as_what_it_has_begun(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")

    reply = deploy_set(azure, count=1)
    during = azure.progress(reply), facts(azure, "provisioningState"), facts(azure, "outputs")
    azure.advance("11m")

    assert during == ("Running", "Running", None)
    assert azure.progress(reply) == "Succeeded"
    assert len(azure.stage.machines("lab/web")) == 1


# Nested deployments.


def nested(inner: Json, name: str = "inner", **more: Json) -> Json:
    return resource(name, kind=DEPLOYMENTS, properties={"mode": "Incremental", "template": inner, **more})


def test_a_deployment_may_hold_another(azure: Azure) -> None:
    inner = template(resource("net"), outputs={"It": {"type": "string", "value": "said"}})
    said: Json = {"it": {"type": "string", "value": "[reference('inner').outputs.it.value]"}}

    deploy(azure, template(nested(inner), outputs=said))

    assert facts(azure, "outputs", "it", "value") == "said"
    assert sorted(azure.names(DEPLOYMENTS)) == ["inner", "one"]
    assert at(azure.get(NET), "name") == "net"


def test_what_fails_inside_fails_outside(azure: Azure) -> None:
    inner = template(resource("db/ssh", kind="Microsoft.Network/loadBalancers/inboundNatRules"))

    reply = deploy(azure, template(nested(inner)))

    assert azure.progress(reply) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "DeploymentFailed"
    assert facts(azure, "error", "details", 0, "details", 0, "code") == "ParentResourceNotFound"


def test_a_deployment_cannot_hold_itself(azure: Azure) -> None:
    reply = deploy(azure, template(nested(template(), name="one")))

    assert azure.progress(reply) == "Failed"
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


# What fails.

BAD = template(
    resource("net"),
    resource(
        "web",
        "net",
        kind=VMSS,
        location="westeurope",
        sku={"name": "Standard_D2s_v3", "capacity": 1},
        properties={
            "virtualMachineProfile": {
                "scheduledEventsProfile": {
                    "terminateNotificationProfile": {"notBeforeTimeout": "PT1H", "enable": True}
                }
            }
        },
    ),
)


def test_a_resource_that_is_refused_fails_the_deployment(azure: Azure) -> None:
    reply = deploy(azure, BAD)

    told = azure.get(str(header(reply, "Azure-AsyncOperation")))
    assert at(told, "status") == "Failed"
    assert at(told, "error", "code") == "DeploymentFailed"
    assert at(told, "error", "details", 0, "code") == "InvalidParameter"
    assert facts(azure, "provisioningState") == "Failed"
    assert facts(azure, "error") == at(told, "error")


@pytest.mark.parametrize("path", [f"{ONE}/operations", f"{ROOT}/deployments/one/operations"])
def test_the_operations_of_a_deployment_say_which_resource_failed(azure: Azure, path: str) -> None:
    deploy(azure, BAD)

    steps = [at(step, "properties") for step in _list(at(azure.get(path), "value"))]
    assert [at(step, "targetResource", "resourceName") for step in steps] == ["net", "web"]
    assert [at(step, "provisioningState") for step in steps] == ["Succeeded", "Failed"]
    assert at(steps[1], "statusMessage", "error", "code") == "InvalidParameter"


def test_a_reference_to_what_is_not_there_fails_the_deployment(azure: Azure) -> None:
    outside = f"[reference('{ROOT}/providers/{NET}').x]"
    reply = deploy(azure, template(outputs={"it": {"type": "string", "value": outside}}))

    assert azure.progress(reply) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "InvalidTemplate"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(None, "InvalidRequestContent", id="there is no body"),
        pytest.param({"properties": []}, "InvalidRequestContent", id="properties are an object"),
        pytest.param({"properties": {}}, "InvalidTemplate", id="there is no template"),
        pytest.param(
            {"properties": {"templateLink": {"uri": "x"}}}, "InvalidTemplate", id="links are not followed"
        ),
        pytest.param(
            body(template(resource("[nonsense()]"))), "InvalidTemplate", id="nobody knows the function"
        ),
        pytest.param(body(SET), "InvalidTemplate", id="a parameter is missing"),
        pytest.param(
            body(template(resource("x", kind="Microsoft.Sql/servers"))),
            "NoRegisteredProviderFound",
            id="nobody knows the type",
        ),
        pytest.param(
            body(template(resource("a/b/c", kind="Microsoft.Network/x/y/z"))),
            "NoRegisteredProviderFound",
            id="nobody knows the depth",
        ),
        pytest.param(
            {"properties": {"mode": "Complete", "template": template()}},
            "InvalidDeploymentMode",
            id="nothing is deleted by a deployment",
        ),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PUT", ONE), ("POST", f"{ONE}/validate")])
def test_what_cannot_be_deployed_is_refused_before_anything_is(
    azure: Azure, method: str, path: str, sent: Json, code: str
) -> None:
    assert azure.refused(method, path, sent)[:2] == (400, code)
    assert azure.names(DEPLOYMENTS) == []


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        pytest.param("GET", ONE, 404, "DeploymentNotFound", id="no deployment"),
        pytest.param("HEAD", ONE, 404, "DeploymentNotFound", id="no deployment to look for"),
        pytest.param("GET", f"{ONE}/operations", 404, "DeploymentNotFound", id="no operations of it"),
        pytest.param("PUT", f"{DEPLOYMENTS}/a%20b", 400, "InvalidDeploymentName", id="no blank in names"),
        pytest.param("PUT", f"{ROOT}x/providers/{ONE}", 404, "ResourceGroupNotFound", id="no group"),
    ],
)
def test_what_is_not_there_is_not_found(azure: Azure, method: str, path: str, status: int, code: str) -> None:
    assert azure.refused(method, path, body(template()))[:2] == (status, code)


# What else clients ask.


def test_a_template_can_be_validated_without_being_deployed(azure: Azure) -> None:
    reply = azure.post(f"{ONE}/validate", body(SET, count=2, adminPassword="secret"))

    assert at(reply.body, "properties", "provisioningState") == "Succeeded"
    assert len(_list(at(reply.body, "properties", "validatedResources"))) == 4
    assert "secret" not in str(reply.body)
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


def test_what_a_server_left_undone_is_taken_up_by_the_next(azure: Azure) -> None:
    reply = deploy_set(azure)
    key = f"{ROOT}/providers/{ONE}"
    done = azure.room.document(key)
    assert done is not None
    given: Json = {"count": {"value": 3}, "adminPassword": {"value": "secret"}}
    undone = {word: done[word] for word in done if word != "result"}
    run(azure.room.keep({key: {**undone, "work": {"template": SET, "parameters": given}}}))

    azure.restart()

    assert azure.progress(reply) == "Succeeded"
    assert len(azure.stage.machines("lab/web")) == 3


def test_a_deletion_that_is_cancelled_fails_the_deployment_that_asked_for_it(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")
    reply = deploy_set(azure, count=1)

    for event in azure.waiting():
        azure.stage.cancel(event)

    assert azure.progress(reply) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "OperationCanceled"


def test_an_operation_that_was_forgotten_holds_no_deployment_up(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")
    reply = deploy_set(azure, count=1)
    for _ in range(3):
        azure.advance("2h")
        azure.get(ROOT)

    assert not list(azure.room.documents(operations.PREFIX))
    assert azure.progress(reply) == "Succeeded"


def _list(found: Json) -> list[Json]:
    assert isinstance(found, list)
    return found
