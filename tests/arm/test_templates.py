"""What becomes of a template: its resources, their order, their documents, and what it says in the end."""

import pytest

from fairwarning.arm.coercion import coerce
from fairwarning.arm.templates import Planned
from fairwarning.core.wire import Json
from tests.arm.cloud import COMPUTE, NETWORK, ROOT, SUBSCRIPTION, TENANT, Cloud, resource, template


def names(planned: tuple[Planned, ...]) -> list[str]:
    return [one.name for one in planned]


def value_of(cloud: Cloud, expression: str, given: Json = None, **sections: Json) -> Json:
    said = cloud.outputs(
        template(**sections, outputs={"it": {"type": "string", "value": f"[{expression}]"}}), given
    )["it"]
    assert isinstance(said, dict)
    return said["value"]


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

    said = cloud.outputs(VMSS, PASSWORD)

    assert said == {"vmss": {"type": "Object", "value": bodies["web"]["properties"]}}


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


# Order.


@pytest.mark.parametrize(
    "need",
    [
        pytest.param("b", id="a bare name"),
        pytest.param("B", id="a bare name in another case"),
        pytest.param("Microsoft.Network/virtualNetworks/b", id="type and name"),
        pytest.param("microsoft.network/VIRTUALNETWORKS/b", id="type and name in another case"),
        pytest.param(f"{NETWORK}/virtualNetworks/b", id="an id"),
        pytest.param("[resourceId('Microsoft.Network/virtualNetworks', 'b')]", id="resourceId"),
        pytest.param("[concat('Microsoft.Network/virtualNetworks/', parameters('b'))]", id="an expression"),
    ],
)
def test_a_resource_comes_after_what_it_depends_on(cloud: Cloud, need: str) -> None:
    declared: Json = {"b": {"type": "string", "defaultValue": "b"}}

    planned = cloud.plan(template(resource("a", need), resource("b"), parameters=declared))

    assert names(planned) == ["b", "a"]


def test_resources_that_need_nothing_stay_in_the_order_they_are_written_in(cloud: Cloud) -> None:
    planned = cloud.plan(template(*(resource(name) for name in "dacb")))

    assert names(planned) == ["d", "a", "c", "b"]


def test_a_loop_is_waited_for_by_its_name(cloud: Cloud) -> None:
    loop = resource("[format('s{0}', copyIndex(1))]", copy={"name": "storageLoop", "count": 3})

    planned = cloud.plan(template(resource("a", "storageLoop"), loop))

    assert names(planned) == ["s1", "s2", "s3", "a"]


def test_a_loop_of_no_rounds_may_still_be_waited_for(cloud: Cloud) -> None:
    loop = resource("[format('s{0}', copyIndex())]", copy={"name": "storageLoop", "count": 0})

    assert names(cloud.plan(template(resource("a", "storageLoop"), loop))) == ["a"]


def test_a_name_that_several_resources_share_means_the_others(cloud: Cloud) -> None:
    card = resource("web", kind="Microsoft.Network/networkInterfaces")
    machine = resource("web", "web", kind="Microsoft.Compute/virtualMachines")

    planned = cloud.plan(template(machine, card))

    assert [one.type for one in planned] == [
        "Microsoft.Network/networkInterfaces",
        "Microsoft.Compute/virtualMachines",
    ]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("'b'", id="by its name"),
        pytest.param("resourceId('Microsoft.Network/virtualNetworks', 'b')", id="by its id"),
    ],
)
def test_a_reference_is_a_dependency_that_need_not_be_said(cloud: Cloud, target: str) -> None:
    asks = resource("a", properties={"seen": f"[reference({target}).range]"})

    bodies = cloud.deploy(template(asks, resource("b", properties={"range": "10.0.0.0/8"})))

    assert list(bodies) == ["b", "a"]
    assert bodies["a"]["properties"] == {"seen": "10.0.0.0/8"}


def test_a_child_may_be_written_inside_its_parent(cloud: Cloud) -> None:
    subnet: Json = {"type": "subnets", "name": "inner", "apiVersion": "2022-01-01"}

    parent, child = cloud.plan(template(resource("net", resources=[subnet])))

    assert "resources" not in parent.body()
    assert child.id == f"{NETWORK}/virtualNetworks/net/subnets/inner"
    assert child.type == "Microsoft.Network/virtualNetworks/subnets"
    assert child.name == "net/inner"


def test_a_child_comes_after_its_parent(cloud: Cloud) -> None:
    child = resource("net/inner", kind="Microsoft.Network/virtualNetworks/subnets")

    assert names(cloud.plan(template(child, resource("net")))) == ["net", "net/inner"]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        pytest.param(True, ["a", "b"], id="true keeps the resource"),
        pytest.param(False, ["b"], id="false leaves it out, and nobody waits for it"),
        pytest.param("[equals(parameters('mode'), 'dev')]", ["a", "b"], id="an expression is evaluated"),
        pytest.param("[not(equals(parameters('mode'), 'dev'))]", ["b"], id="an expression may leave it out"),
    ],
)
def test_a_condition_decides(cloud: Cloud, condition: Json, left: list[str]) -> None:
    declared: Json = {"mode": {"type": "string", "defaultValue": "dev"}}

    planned = cloud.plan(
        template(resource("a", condition=condition), resource("b", "a"), parameters=declared)
    )

    assert names(planned) == left


def test_one_resource_may_be_written_twice_under_opposite_conditions(cloud: Cloud) -> None:
    twins = [resource("net", condition=wanted, properties={"open": wanted}) for wanted in (True, False)]
    asks = resource("asks", "net", properties={"seen": "[reference('net').open]"})

    bodies = cloud.deploy(template(asks, *twins))

    assert bodies["asks"]["properties"] == {"seen": True}


def test_a_nested_deployment_is_evaluated_from_outside(cloud: Cloud) -> None:
    inside = template(resource("[parameters('name')]"))
    nested = resource(
        "nested",
        kind="Microsoft.Resources/deployments",
        resourceGroup="other",
        properties={"mode": "Incremental", "template": inside},
    )
    declared: Json = {"name": {"type": "string"}}

    (planned,) = cloud.plan(template(nested, parameters=declared), {"name": {"value": "net"}})

    there = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/other"
    assert planned.id == f"{there}/providers/Microsoft.Resources/deployments/nested"
    assert planned.body()["properties"] == {"mode": "Incremental", "template": template(resource("net"))}


def test_a_nested_deployment_may_evaluate_itself(cloud: Cloud) -> None:
    inside = template(resource("[listKeys(parameters('name'))]"))
    options: Json = {"scope": "inner"}
    nested = resource(
        "nested",
        kind="Microsoft.Resources/deployments",
        properties={"expressionEvaluationOptions": options, "template": inside},
    )

    (planned,) = cloud.plan(template(nested))

    assert planned.body()["properties"] == {"expressionEvaluationOptions": options, "template": inside}


def test_an_extension_resource_hangs_on_what_it_extends(cloud: Cloud) -> None:
    lock = resource(
        "keep", kind="Microsoft.Authorization/locks", scope="Microsoft.Compute/virtualMachines/vm"
    )

    (planned,) = cloud.plan(template(lock))

    assert planned.id == f"{COMPUTE}/virtualMachines/vm/providers/Microsoft.Authorization/locks/keep"


def test_an_array_may_be_made_by_a_loop(cloud: Cloud) -> None:
    disks: Json = [
        {"name": "disks", "count": 2, "input": {"lun": "[copyIndex('disks')]", "of": "[copyIndex()]"}}
    ]
    machine = resource(
        "[concat('vm', copyIndex())]", copy={"name": "vms", "count": 2}, properties={"copy": disks}
    )

    bodies = cloud.deploy(template(machine))

    assert bodies["vm1"]["properties"] == {"disks": [{"lun": 0, "of": 1}, {"lun": 1, "of": 1}]}


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
    found = value_of(
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

    assert found == value


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
    said = cloud.outputs(template(outputs={written: {"type": "int", "value": "[add(1, 2)]"}}))

    assert said == {answered: {"type": "Int", "value": 3}}


def test_an_output_may_have_a_condition(cloud: Cloud) -> None:
    said = cloud.outputs(template(outputs={"a": {"type": "string", "condition": False, "value": "[oops()]"}}))

    assert said == {}
