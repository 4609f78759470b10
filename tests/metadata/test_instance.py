"""The instance document of a machine."""

import json
import re
from collections.abc import Iterator

import pytest

from fairwarning.core.azure.creation import CreationSettings, PublicKey
from fairwarning.core.document.versions import IMDS_VERSIONS
from fairwarning.metadata.instance import (
    LeafNeedsTextError,
    MachineDisk,
    NoSuchElementError,
    computer_name,
    document,
    find_element,
    render,
    versions_document,
)
from fairwarning.metadata.instance_fields import InstanceFacts

NEWEST = IMDS_VERSIONS[-1]
WEB_3 = InstanceFacts(
    name="web_3",
    vm_id="7d5c1a90-0d7f-4b58-8d0e-3c6d1f1f0a03",
    update_domain=3,
    fault_domain=1,
    resource_group="rg1",
    tags=(("env", "test"), ("team", "core")),
    scale_set="web",
    placement_group_id="6f0c7a1e-3d0e-4f5e-9a55-1f7c6f0b2a11",
    computer_name=computer_name("web", 3),
    created=CreationSettings(
        public_keys=(PublicKey("ssh-ed25519 AAAA ops", "/home/ops/.ssh/authorized_keys"),)
    ),
    data_disks=(MachineDisk(lun=0, name="web_3_data"),),
    private_ip="10.1.0.7",
    subnet="10.1.0.0",
    ipv6=("fd00::7",),
    mac="00:0d:3a:f8:06:ec",
)
BARE = InstanceFacts(name="db", vm_id="b3a0c7de-6f21-4c0e-9d5b-52f0e1a7c918")


def text_at(facts: InstanceFacts, version: str, route: str) -> str:
    _, body = render(find_element(document(facts, version), route.split("/")), text=True)
    return body.decode()


def json_at(facts: InstanceFacts, version: str, route: str) -> object:
    _, body = render(find_element(document(facts, version), route.split("/") if route else ()), text=False)
    parsed: object = json.loads(body)
    return parsed


def leaves(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Return every single value with its path."""
    if isinstance(node, dict):
        for key, child in node.items():
            yield from leaves(child, f"{path}/{key}")
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from leaves(child, f"{path}/{index}")
    else:
        yield path.removeprefix("/"), node


@pytest.mark.rule("I-01")
@pytest.mark.parametrize("version", IMDS_VERSIONS)
def test_every_version_describes_the_machine_and_its_network(version: str) -> None:
    top = document(WEB_3, version)

    assert isinstance(top, dict)
    assert list(top) == ["compute", "network"]


@pytest.mark.rule("I-02")
@pytest.mark.rule("I-03")
def test_the_versions_are_listed_oldest_first() -> None:
    assert versions_document() == {"apiVersions": sorted(IMDS_VERSIONS)}
    assert (IMDS_VERSIONS[0], IMDS_VERSIONS[-1], len(IMDS_VERSIONS)) == (
        "2017-03-01",
        "2025-04-07",
        35,
    )


@pytest.mark.rule("I-04")
@pytest.mark.parametrize("version", IMDS_VERSIONS)
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(WEB_3, id="a scale set instance with everything"),
        pytest.param(BARE, id="a standalone machine with nothing"),
    ],
)
def test_every_single_value_is_a_string(facts: InstanceFacts, version: str) -> None:
    odd = [route for route, value in leaves(document(facts, version)) if not isinstance(value, str)]

    assert odd == []


@pytest.mark.rule("I-04")
@pytest.mark.parametrize(
    "route",
    [
        "compute/evictionPolicy",
        "compute/placementGroupId",
        "compute/priority",
        "compute/tags",
        "compute/virtualMachineScaleSet/id",
        "compute/vmScaleSetName",
        "compute/zone",
        "network/interface/0/ipv4/ipAddress/0/publicIpAddress",
    ],
)
def test_what_does_not_apply_is_present_and_empty(route: str) -> None:
    assert text_at(BARE, NEWEST, route) == ""


@pytest.mark.rule("I-04")
@pytest.mark.parametrize(
    "route",
    [
        "compute/publicKeys",
        "compute/storageProfile/dataDisks",
        "compute/tagsList",
        "network/interface/0/ipv6/ipAddress",
    ],
)
def test_a_list_of_nothing_is_an_empty_list(route: str) -> None:
    assert json_at(BARE, NEWEST, route) == []


@pytest.mark.rule("I-04")
def test_json_is_compact_and_says_what_it_is() -> None:
    content_type, body = render(find_element(document(WEB_3, NEWEST), ["compute", "plan"]), text=False)

    assert content_type == "application/json; charset=utf-8"
    assert body == b'{"name":"","product":"","publisher":""}'


@pytest.mark.rule("I-04")
def test_keys_come_in_alphabetical_order_at_every_depth() -> None:
    routes = [
        re.sub(r"\d+", lambda index: index[0].zfill(3), route).split("/")
        for route, _ in leaves(document(WEB_3, NEWEST))
    ]

    assert routes == sorted(routes)


@pytest.mark.rule("I-05")
@pytest.mark.parametrize(
    "route",
    [
        pytest.param(["compute", "Name"], id="a key in the wrong case"),
        pytest.param(["Compute"], id="a category in the wrong case"),
        pytest.param(["compute", "vmid"], id="a key all in lower case"),
        pytest.param(["compute", "name", "first"], id="a child of a single value"),
        pytest.param(["compute", "", "name"], id="an empty key on the way"),
        pytest.param(["network", "interface", "1"], id="an index past the end"),
        pytest.param(["network", "interface", "-1"], id="an index from the end"),
        pytest.param(["network", "interface", "9" * 5000], id="an index too long to count"),
        pytest.param(["network", "interface", "first"], id="a key where an index belongs"),
        pytest.param(["compute", "*"], id="a wildcard"),
    ],
)
def test_a_route_to_nothing_is_not_found(route: list[str]) -> None:
    with pytest.raises(NoSuchElementError) as refusal:
        find_element(document(WEB_3, NEWEST), route)

    assert refusal.value.status_hint == 404
    assert refusal.value.path == tuple(route)


@pytest.mark.rule("I-05")
@pytest.mark.parametrize("route", [[], ["compute"], ["compute", "name"], ["compute", "tagsList"]])
def test_a_trailing_slash_is_harmless(route: list[str]) -> None:
    whole = document(WEB_3, NEWEST)

    assert find_element(whole, [*route, ""]) == find_element(whole, route)


@pytest.mark.rule("I-05")
def test_a_single_value_has_no_json_form() -> None:
    leaf = find_element(document(WEB_3, NEWEST), ["compute", "name"])

    with pytest.raises(LeafNeedsTextError) as refusal:
        render(leaf, text=False)

    assert refusal.value.status_hint == 400


@pytest.mark.rule("I-06")
@pytest.mark.parametrize(
    ("route", "listing"),
    [
        pytest.param("", "compute/\nnetwork/", id="the root lists its categories"),
        pytest.param("compute/plan", "name\nproduct\npublisher", id="single values have no slash"),
        pytest.param("compute/tagsList", "0/\n1/", id="a list shows its indexes"),
        pytest.param("compute/tagsList/0", "name\nvalue", id="an element of a list"),
        pytest.param(
            "network/interface/0", "ipv4/\nipv6/\nmacAddress", id="branches and values side by side"
        ),
    ],
)
def test_a_branch_as_text_lists_its_children(route: str, listing: str) -> None:
    assert text_at(WEB_3, NEWEST, route) == listing


@pytest.mark.rule("I-06")
def test_the_metadata_root_as_text_names_the_instance_category() -> None:
    assert render({"instance": document(WEB_3, NEWEST)}, text=True)[1] == b"instance/"


@pytest.mark.rule("I-06")
def test_a_single_value_as_text_is_the_raw_value() -> None:
    leaf = find_element(document(WEB_3, NEWEST), ["compute", "tags"])

    content_type, body = render(leaf, text=True)

    assert content_type.startswith("text/plain")
    assert body == b"env:test;team:core"


@pytest.mark.rule("I-10")
def test_a_key_with_raw_newlines_is_still_valid_json() -> None:
    key = 'ssh-rsa AAAA\r\nBBBB "ops"\n'
    facts = InstanceFacts(
        name="db",
        vm_id="1",
        created=CreationSettings(public_keys=(PublicKey(key, "/home/ops/.ssh/authorized_keys"),)),
    )

    _, body = render(document(facts, NEWEST), text=False)

    assert b"\n" not in body
    assert json_at(facts, NEWEST, "compute/publicKeys") == [
        {"keyData": key, "path": "/home/ops/.ssh/authorized_keys"}
    ]


@pytest.mark.rule("S-06")
@pytest.mark.parametrize(
    ("instance_id", "hostname"),
    [
        pytest.param(0, "web000000", id="the first instance"),
        pytest.param(3, "web000003", id="below ten it looks decimal"),
        pytest.param(10, "web00000A", id="ten is a letter"),
        pytest.param(35, "web00000Z", id="the last single digit"),
        pytest.param(36, "web000010", id="the first carry"),
        pytest.param(85, "web00002D", id="two digits"),
        pytest.param(36**6 - 1, "webZZZZZZ", id="the last that fits"),
    ],
)
def test_a_uniform_instance_is_called_by_its_number_in_base_36(instance_id: int, hostname: str) -> None:
    assert computer_name("web", instance_id) == hostname


@pytest.mark.rule("S-08")
@pytest.mark.parametrize("version", IMDS_VERSIONS)
def test_a_guest_finds_the_name_that_events_use_in_every_version(version: str) -> None:
    assert text_at(WEB_3, version, "compute/name") == "web_3"


@pytest.mark.rule("S-08")
def test_the_hostname_is_not_the_name_that_events_use() -> None:
    assert text_at(WEB_3, NEWEST, "compute/osProfile/computerName") == "web000003"


@pytest.mark.rule("I-05")
@pytest.mark.rule("I-06")
@pytest.mark.parametrize(
    ("version", "route", "answer"),
    [
        pytest.param("2019-06-04", "compute/azEnvironment", "AzurePublicCloud", id="Nomad: cloud"),
        pytest.param("2019-06-04", "compute/name", "web_3", id="Nomad: name"),
        pytest.param("2019-06-04", "compute/vmScaleSetName", "web", id="Nomad: scale set"),
        pytest.param("2019-06-04", "compute/zone", "", id="Nomad: zone"),
        pytest.param("2019-06-04", "network/interface/0/macAddress", "000D3AF806EC", id="Nomad: mac"),
        pytest.param(
            "2019-06-04",
            "network/interface/0/ipv4/ipAddress/0/privateIpAddress",
            "10.1.0.7",
            id="Nomad: private address",
        ),
        pytest.param("2017-08-01", "compute/resourceGroupName", "rg1", id="an old handler: group"),
        pytest.param("2017-04-02", "compute/name", "web_3", id="the oldest handlers: name"),
        pytest.param("2025-04-07", "compute/userData", "", id="systemd-imdsd: user data"),
        pytest.param("2025-04-07", "compute/location", "westeurope", id="systemd-imdsd: region"),
    ],
)
def test_a_real_client_reads_one_key_as_text(version: str, route: str, answer: str) -> None:
    assert text_at(WEB_3, version, route) == answer


@pytest.mark.rule("I-05")
@pytest.mark.rule("I-08")
@pytest.mark.parametrize(
    ("version", "route", "needed"),
    [
        pytest.param(
            "2021-08-01",
            "",
            {
                "compute/vmId",
                "compute/osProfile/computerName",
                "compute/osProfile/adminUsername",
                "compute/osProfile/disablePasswordAuthentication",
                "compute/publicKeys/0/keyData",
                "compute/userData",
                "network/interface/0/macAddress",
                "network/interface/0/ipv4/subnet/0/prefix",
            },
            id="cloud-init reads the whole tree",
        ),
        pytest.param(
            "2019-06-01",
            "",
            {"compute/vmId", "compute/publicKeys/0/keyData", "network/interface/0/macAddress"},
            id="cloud-init falls back to an old tree",
        ),
        pytest.param(
            "2021-02-01",
            "",
            {
                "compute/name",
                "compute/tagsList/0/name",
                "network/interface/0/ipv4/ipAddress/0/privateIpAddress",
                "network/interface/0/ipv4/ipAddress/0/publicIpAddress",
            },
            id="ohai reads the whole tree",
        ),
        pytest.param("2019-06-04", "compute/tagsList", {"0/name", "1/value"}, id="Nomad reads the tag list"),
        pytest.param(
            "2019-08-01",
            "compute",
            {"name", "vmScaleSetName", "placementGroupId", "resourceGroupName"},
            id="a cluster agent reads the machine",
        ),
        pytest.param(
            "2021-12-13",
            "compute",
            {"location", "resourceId", "vmId", "name", "vmSize", "osType", "version", "sku"},
            id="OpenTelemetry reads the machine",
        ),
    ],
)
def test_a_real_client_reads_a_branch_as_json(version: str, route: str, needed: set[str]) -> None:
    served = {leaf for leaf, _ in leaves(json_at(WEB_3, version, route))}

    assert needed <= served
