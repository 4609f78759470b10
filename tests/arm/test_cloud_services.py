"""Cloud services (extended support): roles, role instances, and actions on them."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType, ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import compute

SERVICES = "Microsoft.Compute/cloudServices"
SHOP = f"{SERVICES}/shop"
FRONT = f"{SHOP}/roleInstances/FrontEnd_IN_0"


def roles(**capacities: Json) -> Json:
    profiles: list[Json] = [{"name": name, "sku": {"capacity": count}} for name, count in capacities.items()]
    return {"properties": {"roleProfile": {"roles": profiles}}}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(SHOP, roles(FrontEnd=2, BackEnd=1))
    azure.poll("FrontEnd_IN_0")
    return azure


def test_every_role_has_its_instances_and_they_share_a_scope(azure: Azure) -> None:
    assert azure.fleet.machines("lab/shop") == ["FrontEnd_IN_0", "FrontEnd_IN_1", "BackEnd_IN_0"]
    assert azure.names(f"{SHOP}/roleInstances") == ["BackEnd_IN_0", "FrontEnd_IN_0", "FrontEnd_IN_1"]
    assert at(azure.get(SHOP), "id") == f"{ROOT}/providers/{SHOP}"
    assert at(azure.get(FRONT), "id") == f"{ROOT}/providers/{FRONT}"
    assert at(azure.get(f"{FRONT}/instanceView"), "platformUpdateDomain") == 0


@pytest.mark.rule("L-15")
def test_restarting_a_role_instance_is_an_event_and_an_operation(azure: Azure) -> None:
    response = azure.post(f"{FRONT}/restart")

    (event,) = azure.fleet.shown("BackEnd_IN_0")
    assert (event.kind, event.resources) == (EventType.REBOOT, ("FrontEnd_IN_0",))
    assert azure.progress(response) == "InProgress"

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


@pytest.mark.parametrize(
    ("body", "count"), [(None, 3), ({"roleInstances": ["*"]}, 3), ({"roleInstances": ["BackEnd_IN_0"]}, 1)]
)
def test_several_role_instances_are_restarted_at_once(azure: Azure, body: Json, count: int) -> None:
    azure.post(f"{SHOP}/restart", body)

    assert len(azure.waiting()) == count


def test_reimaging_a_role_instance_is_not_announced(azure: Azure) -> None:
    response = azure.post(f"{FRONT}/reimage")

    assert azure.fleet.shown("FrontEnd_IN_0") == ()

    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


def test_a_cloud_service_is_deleted_with_everything_in_it(azure: Azure) -> None:
    response = azure.delete(SHOP)
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.refused("GET", SHOP)[:2] == (404, "ResourceNotFound")
    assert azure.delete(SHOP).status == 204


def test_what_is_said_of_a_service_can_be_changed_and_its_roles_cannot(azure: Azure) -> None:
    azure.put(SHOP, {"tags": {"a": "b"}})

    assert at(azure.get(SHOP), "tags") == {"a": "b"}
    assert azure.refused("PUT", SHOP, roles(FrontEnd=5))[:2] == (409, "PropertyChangeNotAllowed")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no roles"),
        pytest.param(roles(), id="an empty list of roles"),
        pytest.param(roles(FrontEnd="two"), id="a capacity in words"),
        pytest.param(roles(FrontEnd=-1), id="a negative capacity"),
        pytest.param(roles(FrontEnd=10**9), id="too many"),
        pytest.param({"properties": {"roleProfile": {"roles": [5]}}}, id="a number for a role"),
    ],
)
def test_a_service_needs_roles_that_make_sense(body: Json) -> None:
    azure = compute()

    assert azure.refused("PUT", SHOP, body)[:2] == (400, "InvalidParameter")


def test_a_service_that_up_has_made_is_in_the_home_group() -> None:
    azure = compute(Blueprint(name="old", kind=ScopeKind.CLOUD_SERVICE, roles=(("Web", 2),)))

    assert azure.names(f"{HOME}/{SERVICES}") == ["old"]
    assert azure.names(f"/subscriptions/1/providers/{SERVICES}") == ["old"]
    role = at(azure.get(f"{HOME}/{SERVICES}/old"), "properties", "roleProfile", "roles", 0)
    assert (at(role, "name"), at(role, "sku", "capacity")) == ("Web", 2)


def test_a_role_instance_that_is_not_there_is_not_found(azure: Azure) -> None:
    for method, path in (("GET", ""), ("POST", "/restart"), ("GET", "/instanceView")):
        missing = f"{SHOP}/roleInstances/None_IN_0{path}"
        assert azure.refused(method, missing)[:2] == (404, "ResourceNotFound")
    assert azure.refused("POST", f"{SHOP}/restart", {"roleInstances": ["No"]})[0] == 404
    assert azure.refused("POST", f"{SHOP}/restart", {"roleInstances": 5})[0] == 400
