"""The resources of a template, their ids, and the order in which they are deployed."""

import pytest

from fairwarning.arm.templates.plan import PlannedResource
from fairwarning.core.document.render import Json
from tests.arm.cloud import COMPUTE, NETWORK, SUBSCRIPTION, Cloud, resource, template


def names(planned: tuple[PlannedResource, ...]) -> list[str]:
    return [one.name for one in planned]


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
    twins = [
        resource("net", condition=condition, properties={"open": condition}) for condition in (True, False)
    ]
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
