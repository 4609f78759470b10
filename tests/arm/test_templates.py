"""Templates: their documents, what expressions can refer to, and outputs."""

import pytest

from fairwarning.arm.templates.coercion import coerce
from fairwarning.core.document.render import Json
from tests.arm.cloud import COMPUTE, NETWORK, ROOT, SUBSCRIPTION, TENANT, Cloud, resource, template


def value_of(cloud: Cloud, expression: str, given: Json = None, **sections: Json) -> Json:
    outputs = cloud.outputs(
        template(**sections, outputs={"it": {"type": "string", "value": f"[{expression}]"}}), given
    )["it"]
    assert isinstance(outputs, dict)
    return outputs["value"]


# What az sends.

VMSS = template(
    resource("webVNET", location="westeurope", properties={"subnets": [{"name": "webSubnet"}]}),
    resource("webLBPublicIP", kind="Microsoft.Network/publicIPAddresses", sku={"name": "Standard"}),
    resource(
        "webLB",
        "Microsoft.Network/virtualNetworks/webVNET",
        "Microsoft.Network/publicIpAddresses/webLBPublicIP",
        kind="Microsoft.Network/loadBalancers",
        properties={"frontendIPConfigurations": [{"name": "front"}]},
    ),
    resource(
        "webLB/nat",
        "[concat('Microsoft.Network/loadBalancers/', 'webLB')]",
        kind="Microsoft.Network/loadBalancers/inboundNatRules",
        properties={
            "frontendIPConfiguration": {
                "id": "[concat(resourceId('Microsoft.Network/loadBalancers', 'webLB'),"
                " '/frontendIPConfigurations/', 'front')]"
            }
        },
    ),
    resource(
        "web",
        "Microsoft.Network/virtualNetworks/webVNET",
        "Microsoft.Network/loadBalancers/webLB",
        kind="Microsoft.Compute/virtualMachineScaleSets",
        sku={"name": "Standard_D2s_v3", "capacity": 2},
        tags={"primary": "true"},
        properties={
            "orchestrationMode": "uniform",
            "upgradePolicy": {"mode": "manual"},
            "virtualMachineProfile": {
                "osProfile": {"adminPassword": "[parameters('adminPassword')]"},
                "networkProfile": {"networkInterfaceConfigurations": [{"properties": {"primary": "true"}}]},
                "scheduledEventsProfile": {
                    "terminateNotificationProfile": {"notBeforeTimeout": "PT10M", "enable": "true"}
                },
            },
        },
    ),
    parameters={
        "adminPassword": {"type": "securestring", "metadata": {"description": "Secure adminPassword"}}
    },
    variables={},
    outputs={
        "VMSS": {
            "type": "object",
            "value": "[reference(resourceId('Microsoft.Compute/virtualMachineScaleSets', 'web'),"
            "providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0])]",
        }
    },
)
PASSWORD: Json = {"adminPassword": {"value": "[not an expression]"}}


def test_the_template_of_a_scale_set_is_planned_from_the_network_up(cloud: Cloud) -> None:
    planned = cloud.plan(VMSS, PASSWORD)

    assert [one.id for one in planned] == [
        f"{NETWORK}/virtualNetworks/webVNET",
        f"{NETWORK}/publicIPAddresses/webLBPublicIP",
        f"{NETWORK}/loadBalancers/webLB",
        f"{NETWORK}/loadBalancers/webLB/inboundNatRules/nat",
        f"{COMPUTE}/virtualMachineScaleSets/web",
    ]
    assert planned[-1].type == "Microsoft.Compute/virtualMachineScaleSets"
    assert planned[-1].api_version == "2022-01-01"


def test_the_documents_of_a_scale_set_are_evaluated_and_say_nothing_of_the_template(cloud: Cloud) -> None:
    bodies = cloud.deploy(VMSS, PASSWORD)

    assert bodies["webLB/nat"] == {
        "type": "Microsoft.Network/loadBalancers/inboundNatRules",
        "name": "webLB/nat",
        "properties": {
            "frontendIPConfiguration": {"id": f"{NETWORK}/loadBalancers/webLB/frontendIPConfigurations/front"}
        },
    }
    assert "[not an expression]" in str(bodies["web"])


def test_the_output_of_a_scale_set_is_called_as_arm_calls_it(cloud: Cloud) -> None:
    bodies = cloud.deploy(VMSS, PASSWORD)

    outputs = cloud.outputs(VMSS, PASSWORD)

    assert outputs == {"vmss": {"type": "Object", "value": bodies["web"]["properties"]}}


def test_the_words_of_a_scale_set_become_what_arm_keeps(cloud: Cloud) -> None:
    set_body = coerce(cloud.deploy(VMSS, PASSWORD)["web"])

    assert isinstance(set_body, dict)
    assert set_body["tags"] == {"primary": "true"}
    assert set_body["properties"] == {
        "orchestrationMode": "Uniform",
        "upgradePolicy": {"mode": "Manual"},
        "virtualMachineProfile": {
            "osProfile": {"adminPassword": "[not an expression]"},
            "networkProfile": {"networkInterfaceConfigurations": [{"properties": {"primary": True}}]},
            "scheduledEventsProfile": {
                "terminateNotificationProfile": {"notBeforeTimeout": "PT10M", "enable": True}
            },
        },
    }


def test_several_machines_are_made_by_loops(cloud: Cloud) -> None:
    nics = [f"Microsoft.Network/networkInterfaces/vmNic{index}" for index in range(2)]
    machines = resource(
        "[concat('vm', copyIndex())]",
        *nics,
        kind="Microsoft.Compute/virtualMachines",
        copy={"name": "vmcopy", "mode": "parallel", "count": 2},
        properties={"nics": [{"id": f"[concat('{NETWORK}/networkInterfaces/vmNic', copyIndex())]"}]},
    )
    cards = resource(
        "[concat('vmNic', copyIndex())]",
        kind="Microsoft.Network/networkInterfaces",
        copy={"name": "niccopy", "count": 2},
    )

    bodies = cloud.deploy(template(machines, cards))

    assert list(bodies) == ["vmNic0", "vmNic1", "vm0", "vm1"]
    assert bodies["vm1"]["properties"] == {"nics": [{"id": f"{NETWORK}/networkInterfaces/vmNic1"}]}


def test_a_role_is_assigned_to_the_identity_that_the_machine_was_given(cloud: Cloud) -> None:
    machine_id = f"{COMPUTE}/virtualMachines/vm"
    role = resource(
        "vm/Microsoft.Authorization/abc",
        "Microsoft.Compute/virtualMachines/vm",
        kind="Microsoft.Compute/virtualMachines/providers/roleAssignments",
        properties={"principalId": f"[reference('{machine_id}', '2019-07-01', 'Full').identity.principalId]"},
    )
    machine = resource("vm", kind="Microsoft.Compute/virtualMachines", identity={"type": "SystemAssigned"})

    first, second = cloud.plan(template(role, machine))
    cloud.documents[first.id.lower()] = {"identity": {"principalId": "p-1"}}

    assert first.id == machine_id
    assert second.id == f"{machine_id}/providers/Microsoft.Authorization/roleAssignments/abc"
    assert second.body()["properties"] == {"principalId": "p-1"}


# What expressions can see.


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("parameters('size')", "small", id="a parameter that was given"),
        pytest.param("parameters('SIZE')", "small", id="a parameter in another case"),
        pytest.param("parameters('where')", "westeurope", id="a default that is an expression"),
        pytest.param("variables('names')[1]", "small-b", id="a variable that leans on a parameter"),
        pytest.param("variables('twice')", "small-a,small-b", id="a variable that leans on a variable"),
        pytest.param("variables('round')[1]", "r1", id="a variable made by a loop"),
        pytest.param("resourceGroup().location", "westeurope", id="the resource group"),
        pytest.param("subscription().tenantId", TENANT, id="the subscription"),
        pytest.param("resourceId('A.B/c', 'd')", f"{ROOT}/providers/A.B/c/d", id="an id in this group"),
        pytest.param(
            "resourceId('A.B/c/d', 'e', 'f')", f"{ROOT}/providers/A.B/c/e/d/f", id="an id of a child"
        ),
        pytest.param(
            "resourceId('g2', 'A.B/c', 'd')",
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g2/providers/A.B/c/d",
            id="an id in another group",
        ),
        pytest.param(
            "resourceId('s2', 'g2', 'A.B/c', 'd')",
            "/subscriptions/s2/resourceGroups/g2/providers/A.B/c/d",
            id="an id in another subscription",
        ),
    ],
)
def test_an_expression_sees(cloud: Cloud, expression: str, value: Json) -> None:
    result = value_of(
        cloud,
        expression,
        {"Size": {"value": "small"}},
        parameters={
            "size": {"type": "string", "allowedValues": ["small", "large"]},
            "where": {"type": "String", "defaultValue": "[resourceGroup().location]"},
        },
        variables={
            "names": ["[concat(parameters('size'), '-a')]", "[concat(parameters('size'), '-b')]"],
            "twice": "[format('{0},{1}', variables('names')[0], variables('names')[1])]",
            "copy": [{"name": "round", "count": 2, "input": "[concat('r', copyIndex('round'))]"}],
        },
    )

    assert result == value


def test_a_reference_reads_what_is_deployed_whatever_the_case_of_its_id(cloud: Cloud) -> None:
    cloud.deploy(template(resource("net", properties={"range": "10.0.0.0/8"})))
    target = f"{NETWORK}/virtualnetworks/NET"

    assert value_of(cloud, f"reference('{target}', '2022-01-01')") == {"range": "10.0.0.0/8"}
    assert value_of(cloud, f"reference('{target}', '2022-01-01', 'full').name") == "net"


@pytest.mark.parametrize(
    ("written", "answered"),
    [
        pytest.param("VMSS", "vmss", id="capitals alone are lowered"),
        pytest.param("Name", "name", id="a first capital is lowered"),
        pytest.param("VMSSName", "vmssName", id="the last capital begins the next word"),
        pytest.param("hostName", "hostName", id="a lower-case start is left alone"),
        pytest.param("", "", id="a name may be empty"),
    ],
)
def test_an_output_is_named_as_arm_names_it(cloud: Cloud, written: str, answered: str) -> None:
    outputs = cloud.outputs(template(outputs={written: {"type": "int", "value": "[add(1, 2)]"}}))

    assert outputs == {answered: {"type": "Int", "value": 3}}


def test_an_output_may_have_a_condition(cloud: Cloud) -> None:
    outputs = cloud.outputs(
        template(outputs={"a": {"type": "string", "condition": False, "value": "[oops()]"}})
    )

    assert outputs == {}
