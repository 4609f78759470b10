"""Helpers that deploy templates through the management API, and a template of a scale set."""

from fairwarning.arm import deployments, groups, network
from fairwarning.arm.compute import availability_sets, extensions, scalesets, vms
from fairwarning.arm.messages import ArmResponse
from fairwarning.core.document.render import Json
from fairwarning.engine.ports import Store
from tests.arm.azure import ROOT, Azure, at
from tests.arm.cloud import resource, template

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


def deployable(store: Store | None = None) -> Azure:
    """Return the routes that templates use."""
    return Azure(
        groups.ROUTES,
        vms.ROUTES,
        scalesets.ROUTES,
        availability_sets.ROUTES,
        extensions.ROUTES,
        network.ROUTES,
        deployments.ROUTES,
        store=store,
    )


def body(written: Json, /, **parameters: Json) -> Json:
    given: dict[str, Json] = {name: {"value": value} for name, value in parameters.items()}
    return {"properties": {"mode": "incremental", "template": written, "parameters": given}}


def deploy(azure: Azure, written: Json, path: str = ONE, /, **parameters: Json) -> ArmResponse:
    return azure.put(path, body(written, **parameters))


def facts(azure: Azure, *path: str | int, name: str = ONE) -> Json:
    return at(azure.get(name), "properties", *path)


def deploy_set(azure: Azure, count: int = 2) -> ArmResponse:
    return deploy(azure, SET, count=count, adminPassword="hunter2")


def interrupt(azure: Azure, count: int) -> None:
    """Restart the server as if it had stopped before it created so many instances."""
    key = f"{ROOT}/providers/{ONE}"
    done = azure.context.committed().document(key)
    assert done is not None
    given: Json = {"count": {"value": count}, "adminPassword": {"value": "hunter2"}}
    undone = {word: done[word] for word in done if word != "result"}
    azure.keep({key: {**undone, "work": {"template": SET, "parameters": given}}})
    azure.restart()


def listed(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value
