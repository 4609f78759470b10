"""Resources that are stored without behaviour, and the members that are filled in."""

import re

import pytest

from fairwarning.arm import network
from fairwarning.arm.compute import vms
from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.arm.documents import get_fields
from fairwarning.core.document.render import Json
from tests.arm.azure import ROOT, Azure, at

NET = "Microsoft.Network/virtualNetworks/net"
NIC = "Microsoft.Network/networkInterfaces/nic"
VM = "Microsoft.Compute/virtualMachines/Db"
LB = "Microsoft.Network/loadBalancers/lb"


@pytest.fixture
def azure() -> Azure:
    return Azure(network.ROUTES)


def test_what_is_put_is_there(azure: Azure) -> None:
    response = azure.put(
        NET, {"tags": {"a": "b"}, "properties": {"addressSpace": {"addressPrefixes": ["x"]}}}
    )

    assert response.status == 201
    assert at(response.body, "etag") == at(azure.get(NET), "etag")
    assert {**get_fields(azure.get(NET)), "etag": ""} == {
        "etag": "",
        "id": f"{ROOT}/providers/{NET}",
        "name": "net",
        "type": "Microsoft.Network/virtualNetworks",
        "location": "westeurope",
        "tags": {"a": "b"},
        "properties": {
            "addressSpace": {"addressPrefixes": ["x"]},
            "enableDdosProtection": False,
            "provisioningState": "Succeeded",
            "resourceGuid": "00515f38-871e-9bc9-313f-a1801047d3f0",
            "subnets": [],
            "virtualNetworkPeerings": [],
        },
    }


def test_a_put_replaces_what_was_there(azure: Azure) -> None:
    azure.put(NET, {"location": "eastus", "properties": {"old": 1}})

    response = azure.put(NET, {"properties": {"new": 2}})

    assert response.status == 200
    assert at(response.body, "properties", "new") == 2
    assert at(response.body, "properties", "old") is None


def test_a_patch_is_laid_over_what_is_there(azure: Azure) -> None:
    azure.put(NET, {"properties": {"old": 1}})

    azure.patch(NET, {"tags": {"a": "b"}, "properties": {"new": 2}})

    assert at(azure.get(NET), "tags") == {"a": "b"}
    assert [at(azure.get(NET), "properties", name) for name in ("old", "new")] == [1, 2]


def test_ids_are_found_in_any_case_and_keep_their_own(azure: Azure) -> None:
    azure.put("microsoft.network/VIRTUALNETWORKS/Net", {})

    again = azure.put(f"{ROOT.replace('resourceGroups', 'resourcegroups')}//providers/{NET.upper()}", {})

    assert again.status == 200
    assert at(again.body, "id") == f"{ROOT}/providers/Microsoft.Network/virtualNetworks/Net"
    assert at(azure.get(NET), "name") == "Net"


def test_words_for_booleans_become_booleans(azure: Azure) -> None:
    azure.put(NIC, {"properties": {"ipConfigurations": [{"name": "one", "properties": {"primary": "true"}}]}})

    assert at(azure.get(NIC), "properties", "ipConfigurations", 0, "properties", "primary") is True


def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_mistake(azure: Azure) -> None:
    azure.put(NET, {})

    statuses = [azure.delete(NET).status for _ in range(2)]

    assert statuses == [200, 204]
    assert azure.refused("GET", NET) == (
        404,
        "ResourceNotFound",
        "The Resource 'Microsoft.Network/virtualNetworks/net' under resource group 'lab' was not found.",
    )


def test_lists_hold_what_is_of_their_type(azure: Azure) -> None:
    for name in ("one", "two"):
        azure.put(f"Microsoft.Network/virtualNetworks/{name}", {})
    azure.put(NIC, {})
    everywhere = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Network/virtualNetworks"

    assert azure.names("Microsoft.Network/virtualNetworks") == ["one", "two"]
    assert azure.names(everywhere) == ["one", "two"]
    assert azure.names("Microsoft.Network/publicIPAddresses") == []


def test_it_is_all_there_after_a_restart(azure: Azure) -> None:
    azure.put(NET, {"tags": {"a": "b"}})
    before = azure.get(NET)

    azure.restart()

    assert azure.get(NET) == before


# What Azure fills in.


def test_the_parts_of_a_network_have_ids(azure: Azure) -> None:
    azure.put(NET, {"properties": {"subnets": [{"name": "inner", "properties": {"addressPrefix": "x"}}]}})

    subnet = at(azure.get(NET), "properties", "subnets", 0)
    assert at(subnet, "id") == f"{ROOT}/providers/{NET}/subnets/inner"
    assert at(subnet, "type") == "Microsoft.Network/virtualNetworks/subnets"
    assert at(subnet, "properties", "addressPrefix") == "x"
    assert at(subnet, "properties", "provisioningState") == "Succeeded"


def test_an_interface_has_addresses(azure: Azure) -> None:
    azure.put(NIC, {"properties": {"ipConfigurations": [{"name": "one"}, {"name": "two"}]}})

    facts = at(azure.get(NIC), "properties")
    first, second = at(facts, "ipConfigurations", 0), at(facts, "ipConfigurations", 1)
    assert re.fullmatch(r"10(\.\d+){3}", str(at(first, "properties", "privateIPAddress")))
    assert at(first, "properties", "privateIPAddress") != at(second, "properties", "privateIPAddress")
    assert [at(one, "properties", "primary") for one in (first, second)] == [True, False]


def test_addresses_stay_what_they_are(azure: Azure) -> None:
    body: Json = {"properties": {"ipConfigurations": [{"name": "one"}]}}
    before = azure.put(NIC, body).body

    assert azure.put(NIC, body).body == before


def test_a_public_address_is_an_address(azure: Azure) -> None:
    azure.put(
        "Microsoft.Network/publicIpAddresses/ip", {"properties": {"publicIPAllocationMethod": "Static"}}
    )

    facts = at(azure.get("Microsoft.Network/publicIPAddresses/ip"), "properties")
    assert re.fullmatch(r"198\.1[89](\.\d+){2}", str(at(facts, "ipAddress")))
    assert at(facts, "publicIPAllocationMethod") == "Static"


def test_an_interface_knows_the_machine_it_belongs_to_for_as_long_as_that_is_there() -> None:
    azure = Azure(network.ROUTES, vms.ROUTES)
    azure.put(NIC, {})
    attached: Json = {"networkProfile": {"networkInterfaces": [{"id": f"{ROOT}/providers/{NIC}"}]}}
    azure.put(VM, {"location": "westeurope", "properties": attached})

    during = [azure.get(NIC), at(azure.get(NIC.rpartition("/")[0]), "value", 0)]
    azure.delete(VM)
    azure.advance("1m")

    assert [at(one, "properties", "virtualMachine", "id") for one in during] == [f"{ROOT}/providers/{VM}"] * 2
    assert re.fullmatch(r"00-0D-3A(-[0-9A-F]{2}){3}", str(at(during[0], "properties", "macAddress")))
    assert at(azure.get(NIC), "properties", "virtualMachine") is None
    assert at(azure.get(NIC), "properties", "macAddress") is None


# What has a path inside another resource.


def test_a_rule_of_its_own_is_part_of_its_load_balancer(azure: Azure) -> None:
    azure.put(LB, {"properties": {"inboundNatRules": []}})

    created = azure.put(f"{LB}/inboundNatRules/ssh", {"properties": {"frontendPort": 22}})
    changed = azure.put(f"{LB}/inboundnatrules/SSH", {"properties": {"frontendPort": 23}})

    assert (created.status, changed.status) == (201, 200)
    rule = azure.get(f"{LB}/inboundNatRules/ssh")
    assert at(azure.get(LB), "properties", "inboundNatRules") == [rule]
    assert at(rule, "etag") == at(changed.body, "etag")
    assert at(rule, "properties", "frontendPort") == at(changed.body, "properties", "frontendPort") == 23
    assert str(at(created.body, "id")).endswith(f"{LB}/inboundNatRules/ssh")


def test_the_parts_of_a_resource_are_listed_and_deleted(azure: Azure) -> None:
    azure.put(NET, {"properties": {"subnets": [{"name": "one"}]}})
    azure.put(f"{NET}/subnets/two", {})

    statuses = [azure.delete(f"{NET}/subnets/one").status for _ in range(2)]

    assert statuses == [200, 204]
    assert azure.names(f"{NET}/subnets") == ["two"]
    assert azure.refused("GET", f"{NET}/subnets/one")[:2] == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "path",
    [
        "Microsoft.Storage/storageAccounts/store",
        "Microsoft.Compute/snapshots/snapshot",
        "Microsoft.ManagedIdentity/userAssignedIdentities/me",
        "Microsoft.Authorization/roleAssignments/role",
    ],
)
def test_whatever_else_clients_put_is_kept(azure: Azure, path: str) -> None:
    response = azure.put(path, {"properties": {"some": "thing"}})

    assert response.status == 200
    assert at(azure.get(path), "properties", "some") == "thing"
    assert azure.names(path.rpartition("/")[0]) == [path.rpartition("/")[2]]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        pytest.param("PATCH", NET, {}, 404, "ResourceNotFound", id="there is nothing to patch"),
        pytest.param("PUT", NET, [], 400, "InvalidRequestContent", id="a document is an object"),
        pytest.param("PUT", NET, {"properties": 7}, 400, "InvalidParameter", id="properties are an object"),
        pytest.param(
            "PUT",
            f"{LB}/inboundNatRules/x",
            {},
            404,
            "ParentResourceNotFound",
            id="a rule is part of something",
        ),
        pytest.param(
            "GET", f"{LB}/inboundNatRules", None, 404, "ResourceNotFound", id="so is a list of rules"
        ),
        pytest.param(
            "PUT", f"{ROOT}x/providers/{NET}", {}, 404, "ResourceGroupNotFound", id="a group has to be there"
        ),
        pytest.param("POST", NET, {}, 405, "HttpMethodNotAllowed", id="nothing is done here"),
    ],
)
def test_what_makes_no_sense_is_refused(
    azure: Azure, method: str, path: str, body: Json, status: int, code: str
) -> None:
    assert azure.refused(method, path, body)[:2] == (status, code)


def test_what_a_client_reads_it_can_put_back_and_the_etag_stays(azure: Azure) -> None:
    azure.put(NET, {"properties": {"subnets": [{"name": "inner", "properties": {"addressPrefix": "x"}}]}})
    network = azure.get(NET)

    azure.put(NET, network)

    assert azure.get(NET) == network
    assert at(network, "etag") == at(network, "properties", "subnets", 0, "etag")


def test_every_change_of_a_network_changes_its_etag(azure: Azure) -> None:
    azure.put(NET, {})
    before = at(azure.get(NET), "etag")

    azure.put(f"{NET}/subnets/inner", {})

    assert at(azure.get(NET), "etag") != before
    assert at(azure.get(f"{NET}/subnets/inner"), "etag") == at(azure.get(NET), "etag")


def test_a_network_goes_once_the_interfaces_in_it_are_gone(azure: Azure) -> None:
    azure.put(
        NET, {"properties": {"subnets": [{"name": "inner", "properties": {"addressPrefix": "10.1.2.0/24"}}]}}
    )
    subnet: Json = {"subnet": {"id": f"{ROOT}/providers/{NET}/subnets/inner"}}
    azure.put(NIC, {"properties": {"ipConfigurations": [{"name": "main", "properties": subnet}]}})

    refused = azure.refused("DELETE", NET)[:2]
    azure.delete(NIC)

    assert refused == (400, "InUseSubnetCannotBeDeleted")
    assert azure.delete(NET).status == 200
