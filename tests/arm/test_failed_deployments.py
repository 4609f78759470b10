"""Failing deployments: refused before anything is created, or stopped on the way."""

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.stored.kinds import OPERATION
from tests.arm.azure import ROOT, Azure, at, header
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
    listed,
)

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


@pytest.fixture
def azure() -> Azure:
    return deployable()


def test_a_resource_that_is_refused_fails_the_deployment(azure: Azure) -> None:
    response = deploy(azure, BAD)

    status = azure.get(str(header(response, "Azure-AsyncOperation")))
    assert at(status, "status") == "Failed"
    assert at(status, "error", "code") == "DeploymentFailed"
    assert at(status, "error", "details", 0, "code") == "InvalidParameter"
    assert facts(azure, "provisioningState") == "Failed"
    assert facts(azure, "error") == at(status, "error")


@pytest.mark.parametrize("path", [f"{ONE}/operations", f"{ROOT}/deployments/one/operations"])
def test_the_operations_of_a_deployment_say_which_resource_failed(azure: Azure, path: str) -> None:
    deploy(azure, BAD)

    steps = [at(step, "properties") for step in listed(at(azure.get(path), "value"))]
    assert [at(step, "targetResource", "resourceName") for step in steps] == ["net", "web"]
    assert [at(step, "provisioningState") for step in steps] == ["Succeeded", "Failed"]
    assert at(steps[1], "statusMessage", "error", "code") == "InvalidParameter"


def test_a_reference_to_what_is_not_there_fails_the_deployment(azure: Azure) -> None:
    outside = f"[reference('{ROOT}/providers/{NET}').x]"
    response = deploy(azure, template(outputs={"it": {"type": "string", "value": outside}}))

    assert azure.progress(response) == "Failed"
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


def test_a_deletion_that_is_cancelled_fails_the_deployment_that_asked_for_it(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")
    response = deploy_set(azure, count=1)

    for event in azure.waiting():
        azure.fleet.cancel(event)

    assert azure.progress(response) == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "OperationCanceled"


def test_a_deployment_stays_failed_when_its_operations_are_forgotten(azure: Azure) -> None:
    deploy_set(azure)
    azure.poll("web_0")
    deploy_set(azure, count=1)
    for event in azure.waiting():
        azure.fleet.cancel(event)
    error = facts(azure, "error")

    for _ in range(4):
        azure.advance("2h")
        azure.get(ONE)

    assert not [key for key in azure.fleet.engine.texts() if key.startswith(OPERATION.prefix)]
    assert facts(azure, "provisioningState") == "Failed"
    assert facts(azure, "error") == error
