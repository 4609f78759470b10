"""Resource groups, and what their deletion deletes."""

import asyncio

import pytest

from fairwarning.arm import groups, network
from fairwarning.arm.compute import availability_sets, cloud_services, scalesets, vms
from fairwarning.arm.messages import ArmResponse
from fairwarning.arm.resources import lists
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at, header
from tests.fleet_harness import run, span

GROUPS = ROOT.rpartition("/")[0]
HOME_GROUP = HOME.removesuffix("/providers")
NETWORK = "Microsoft.Network/virtualNetworks/net"
WEB = Blueprint(name="web", count=2, terminate_notice=span("5m"))
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)


def azure(*blueprints: Blueprint, watched: bool = True) -> Azure:
    modules = (groups, lists, vms, scalesets, availability_sets, cloud_services, network)
    tables = (module.ROUTES for module in modules)
    return Azure(*tables, blueprints=blueprints, watched=watched)


def test_a_group_is_made_where_there_was_none() -> None:
    cloud = azure()

    response = cloud.put(f"{GROUPS}/Mine", {"location": "West Europe", "tags": {"team": "a"}})

    assert response.status == 201
    assert response.body == cloud.get(f"{GROUPS}/mine")
    assert response.body == {
        "id": f"{GROUPS}/Mine",
        "name": "Mine",
        "type": "Microsoft.Resources/resourceGroups",
        "location": "westeurope",
        "tags": {"team": "a"},
        "properties": {"provisioningState": "Succeeded"},
    }


def test_a_group_that_is_there_keeps_its_name_and_gets_new_tags() -> None:
    cloud = azure()
    cloud.put(f"{GROUPS}/Mine", {"location": "westeurope", "tags": {"old": "1"}})

    response = cloud.put(f"{GROUPS.lower()}/MINE", {"location": "westeurope", "tags": {"new": "2"}})

    assert response.status == 200
    assert at(response.body, "name") == "Mine"
    assert at(response.body, "tags") == {"new": "2"}


def test_a_patch_that_is_silent_about_tags_leaves_them() -> None:
    cloud = azure()
    cloud.put(f"{GROUPS}/mine", {"location": "westeurope", "tags": {"old": "1"}})

    cloud.patch(f"{GROUPS}/mine", {})

    assert at(cloud.get(f"{GROUPS}/mine"), "tags") == {"old": "1"}


def test_a_patch_replaces_the_tags() -> None:
    cloud = azure()

    cloud.patch(ROOT, {"tags": {"new": "2"}})

    assert at(cloud.get(ROOT), "tags") == {"new": "2"}


def test_a_head_says_whether_there_is_such_a_group() -> None:
    cloud = azure()

    assert cloud.send("HEAD", ROOT).status == 204
    assert cloud.send("HEAD", f"{GROUPS}/nowhere").status == 404


def test_the_list_holds_the_groups_and_not_what_is_in_them() -> None:
    cloud = azure()
    cloud.put(NETWORK, {})

    assert cloud.names(GROUPS) == ["fairwarning", "lab"]


@pytest.mark.parametrize(
    ("method", "name", "body", "status", "code"),
    [
        pytest.param("GET", "nowhere", None, 404, "ResourceGroupNotFound", id="nothing is there to get"),
        pytest.param("PATCH", "nowhere", {}, 404, "ResourceGroupNotFound", id="nothing is there to change"),
        pytest.param(
            "DELETE", "nowhere", None, 404, "ResourceGroupNotFound", id="nothing is there to delete"
        ),
        pytest.param("PUT", "new", {}, 400, "LocationRequired", id="a group is somewhere"),
        pytest.param("PUT", "new", {"location": 7}, 400, "LocationRequired", id="a location is a word"),
        pytest.param("PUT", "new", [], 400, "InvalidRequestContent", id="a group is an object"),
        pytest.param("PUT", "a b", {"location": "x"}, 400, "InvalidResourceGroup", id="no blank in names"),
        pytest.param("PUT", "x" * 91, {"location": "x"}, 400, "InvalidResourceGroup", id="not too long"),
        pytest.param("PUT", "dot.", {"location": "x"}, 400, "InvalidResourceGroup", id="no dot at the end"),
        pytest.param(
            "PUT", "new", {"location": "x", "tags": {"a": 1}}, 400, "InvalidParameter", id="tags are words"
        ),
        pytest.param(
            "PUT", "lab", {"location": "eastus"}, 409, "InvalidResourceGroupLocation", id="groups do not move"
        ),
    ],
)
def test_what_makes_no_sense_is_refused(method: str, name: str, body: Json, status: int, code: str) -> None:
    refusal = azure().refused(method, f"{GROUPS}/{name}", body)

    assert refusal[:2] == (status, code)


def test_an_empty_group_goes_at_once() -> None:
    cloud = azure()
    cloud.put(NETWORK, {})

    response = cloud.delete(ROOT)

    assert response.status == 202
    assert cloud.progress(response) == "Succeeded"
    assert cloud.send("GET", ROOT).status == 404
    assert cloud.context.committed().document(f"{ROOT}/providers/{NETWORK}") is None


@pytest.mark.rule("T-09")
def test_a_group_goes_once_its_machines_were_warned_and_are_gone() -> None:
    cloud = azure(WEB, DB)

    response = cloud.delete(HOME_GROUP)
    waiting = cloud.waiting()
    during = cloud.progress(response), at(cloud.get(HOME_GROUP), "properties", "provisioningState")
    cloud.approve(*waiting)
    cloud.advance("10s")

    assert len(waiting) == 2
    assert during == ("InProgress", "Deleting")
    assert cloud.progress(response) == "Succeeded"
    assert cloud.send("GET", HOME_GROUP).status == 404
    assert not cloud.fleet.engine.scopes()


@pytest.mark.rule("T-09")
def test_a_server_that_is_restarted_finishes_what_was_begun() -> None:
    cloud = azure(WEB)
    cloud.keep({f"{HOME}/{NETWORK}": {"id": "net", "type": "x"}})
    response = cloud.delete(HOME_GROUP)

    cloud.restart()
    between = cloud.progress(response)
    cloud.advance("6m")
    cloud.restart()

    assert between == "InProgress"
    assert cloud.progress(response) == "Succeeded"
    assert cloud.context.committed().document(f"{HOME}/{NETWORK}") is None


@pytest.mark.rule("T-09")
def test_forced_types_go_unwarned_and_the_others_do_not() -> None:
    cloud = azure(WEB, Blueprint(name="api", kind=ScopeKind.FLEXIBLE_SET, terminate_notice=span("5m")))

    cloud.delete(f"{HOME_GROUP}?forceDeletionTypes=Microsoft.Compute/virtualMachines")
    unforced = len(cloud.waiting())
    response = cloud.delete(f"{HOME_GROUP}?forceDeletionTypes=Microsoft.Compute/virtualMachineScaleSets")

    assert unforced == 3
    assert header(response, "Azure-AsyncOperation") is not None


def test_whoever_deletes_a_group_again_waits_for_the_same_machines() -> None:
    cloud = azure(WEB)
    first = cloud.delete(HOME_GROUP)

    second = cloud.delete(HOME_GROUP)
    waiting = cloud.waiting()
    during = cloud.progress(second)
    cloud.advance("6m")

    assert len(waiting) == 2
    assert during == "InProgress"
    assert (cloud.progress(first), cloud.progress(second)) == ("Succeeded", "Succeeded")


def test_a_group_waits_for_machines_that_were_going_already() -> None:
    cloud = azure(WEB)
    cloud.fleet.remove("web")

    response = cloud.delete(HOME_GROUP)
    during = cloud.progress(response)
    cloud.advance("6m")

    assert during == "InProgress"
    assert cloud.progress(response) == "Succeeded"


def test_nothing_is_put_into_a_group_that_goes() -> None:
    cloud = azure(WEB)
    cloud.delete(HOME_GROUP)

    kinds = ("virtualMachines", "virtualMachineScaleSets", "availabilitySets", "cloudServices")
    compute = [f"{HOME}/Microsoft.Compute/{kind}/late" for kind in kinds]

    refusals = [
        cloud.refused("PUT", path, {"location": "westeurope"})[:2]
        for path in (HOME_GROUP, f"{HOME}/{NETWORK}", *compute)
    ]

    assert set(refusals) == {(409, "ResourceGroupBeingDeleted")}


def test_a_group_stays_if_the_deletion_of_a_machine_is_cancelled() -> None:
    cloud = azure(WEB)
    response = cloud.delete(HOME_GROUP)

    for event in cloud.waiting():
        cloud.fleet.cancel(event)

    assert cloud.progress(response) == "Canceled"
    assert at(cloud.get(HOME_GROUP), "properties", "provisioningState") == "Succeeded"


def test_the_same_name_can_be_used_again() -> None:
    cloud = azure()
    cloud.put(NETWORK, {})
    cloud.delete(ROOT)

    response = cloud.put(ROOT, {"location": "eastus"})

    assert response.status == 201
    assert cloud.names(f"{ROOT}/resources") == []


def test_a_group_that_is_made_anew_survives_everybody_who_asks_after_the_old_one() -> None:
    cloud = azure(WEB)
    url = str(header(cloud.delete(HOME_GROUP), "Azure-AsyncOperation"))
    cloud.advance("6m")

    async def all_at_once() -> list[ArmResponse]:
        polls = [cloud.answer("GET", url) for _ in range(10)]
        makers = [cloud.answer("PUT", HOME_GROUP, {"location": "eastus"}) for _ in range(10)]
        return await asyncio.gather(*polls, *makers)

    replies = run(all_at_once())

    assert [at(response.body, "status") for response in replies[:10]] == ["Succeeded"] * 10
    assert sorted(response.status for response in replies[10:]) == [200] * 9 + [201]
    assert at(cloud.get(HOME_GROUP), "location") == "eastus"


# Everything there is.

EVERYTHING = f"{GROUPS.rpartition('/')[0]}/resources"


def without_disks(names: list[str]) -> list[str]:
    """Return the names of resources that are not the disk of a machine, in order."""
    return sorted(name for name in names if "_OsDisk_1_" not in name)


def everything() -> Azure:
    cloud = azure(WEB, DB, Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET))
    cloud.put(NETWORK, {"tags": {"team": "blue"}})
    return cloud


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("", ["web", "db", "app", "app-0", "net"], id="sets, machines and documents"),
        pytest.param("resourceGroup eq 'LAB'", ["net"], id="of one group"),
        pytest.param(
            "resourceType eq 'microsoft.compute/virtualmachines'", ["db", "app-0"], id="of one type"
        ),
        pytest.param("name eq 'db' and location eq 'westeurope'", ["db"], id="two clauses"),
        pytest.param("tagName eq 'team' and tagValue eq 'blue'", ["net"], id="by tag"),
        pytest.param("substringof('PP', name)", ["app", "app-0"], id="by a part of the name"),
        pytest.param(
            "substringof('app', name) and resourceType eq 'Microsoft.Compute/availabilitySets'",
            ["app"],
            id="by a part of the name, and the type",
        ),
        pytest.param(
            "name eq 'net' or substringof( 'eb' ,name )", ["net", "web"], id="one clause or another"
        ),
        pytest.param(
            "resourceGroup ne 'lab' and name ne 'web' and name ne 'app'", ["app-0", "db"], id="all others"
        ),
        pytest.param(
            "substringof('air', resourceGroup) and name eq 'db'", ["db"], id="by a part of the group"
        ),
        pytest.param("substringof('it''s', name)", [], id="a quote in a name"),
    ],
)
def test_the_list_of_resources_holds_what_the_filter_lets_through(query: str, names: list[str]) -> None:
    cloud = everything()

    assert without_disks(cloud.names(f"{EVERYTHING}?$filter={query}")) == sorted(names)


def test_the_list_of_a_group_holds_what_is_in_it() -> None:
    cloud = everything()

    assert cloud.names(f"{ROOT}/resources") == ["net"]
    assert without_disks(cloud.names(f"{HOME_GROUP}/resources")) == ["app", "app-0", "db", "web"]


@pytest.mark.parametrize(
    "query",
    [
        "name gt 'x'",
        "substringof('a', location)",
        "substringof('a' name)",
        "colour eq 'red'",
        "name eq x",
        "name eq 'x' and",
        "or name eq 'x'",
        "name eq 'x' name eq 'y'",
        "name eq 'x'and" + " " * 5000 + "x",
    ],
)
def test_a_filter_that_nobody_understands_is_refused(query: str) -> None:
    refusal = azure().refused("GET", f"{EVERYTHING}?$filter={query}")

    assert refusal[:2] == (400, "InvalidFilterInQueryString")
