"""Limits on the size of a request, and work that grows no faster than the request."""

from collections.abc import Iterator

import pytest

from fairwarning.arm import groups, network
from fairwarning.arm.app import (
    DEEPEST,
    LONGEST_URL,
    MOST_BYTES,
    MOST_FIELDS,
    MOST_PUBLIC_BYTES,
    MOST_RESOURCE_BYTES,
)
from fairwarning.arm.compute import vms
from fairwarning.arm.resources import lists
from fairwarning.arm.templates.jsonc import to_strict_json
from fairwarning.core.document.render import Json
from fairwarning.engine.fold import FoldView
from tests.arm.arm_client import ONE, ArmClient, arm_client
from tests.arm.azure import ROOT, Azure, at

GROUP = f"{ONE}/resourceGroups/lab"
VERSION = "?api-version=2022-12-01"
LOGIN = "/adfs/oauth2/token"


def refused(client: ArmClient, path: str, content: bytes, token: str | None = "") -> tuple[int, str]:
    response = client.send("PUT", f"{path}{VERSION}", content=content, token=token)
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize(
    "path",
    [
        GROUP,
        f"{GROUP}/providers/Microsoft.Network/virtualNetworks/net",
        f"{GROUP}/providers/Microsoft.Compute/virtualMachines/one",
        f"{GROUP}/providers/Microsoft.Resources/deployments/one",
    ],
)
@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 100_000])
def test_a_body_that_nests_too_deeply_is_refused(path: str, levels: int) -> None:
    client = arm_client()
    client.send("PUT", f"{GROUP}{VERSION}", {"location": "westeurope"})
    nested = b'{"location": "westeurope", "properties": ' + b"[" * levels + b"]" * levels + b"}"

    assert refused(client, path, nested) == (400, "InvalidRequestContent")


@pytest.mark.parametrize(
    ("path", "most"),
    [(GROUP, MOST_RESOURCE_BYTES), (f"{GROUP}/providers/Microsoft.Resources/deployments/a", MOST_BYTES)],
    ids=["a resource", "a template"],
)
def test_a_body_that_is_large_or_has_very_many_values_is_refused(path: str, most: int) -> None:
    many = b"[" + b"1," * (most // 16) + b"1]"

    assert refused(arm_client(), path, many) == (400, "InvalidRequestContent")
    assert refused(arm_client(), path, b" " * (most + 1)) == (413, "RequestContentTooLarge")


@pytest.mark.parametrize("path", [f"{ONE}/{'x' * LONGEST_URL}", f"{ONE}?x={'x' * LONGEST_URL}&"])
def test_an_address_that_is_too_long_is_refused(path: str) -> None:
    assert refused(arm_client(), path, b"{}") == (414, "RequestUriTooLong")


def test_who_has_no_token_sends_no_large_bodies() -> None:
    client = arm_client()

    response = client.send("POST", LOGIN, content=b"x" * (MOST_PUBLIC_BYTES + 1), token=None)

    assert response.status_code == 413
    assert refused(client, GROUP, b"x" * 5_000_000, token=None) == (401, "AuthenticationFailed")


def test_a_form_of_very_many_fields_is_refused() -> None:
    form = {f"f{number}": "" for number in range(MOST_FIELDS + 1)}

    response = arm_client().send("POST", LOGIN, form=form, token=None)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "InvalidRequestContent"


def test_a_filter_of_blanks_is_read_in_no_time() -> None:
    blanks = "x" + "+" * 300_000 + "x"

    status, code, _ = Azure(lists.ROUTES).refused("GET", f"{ONE}/resources?$filter={blanks}")

    assert (status, code) == (400, "InvalidFilterInQueryString")


def test_a_string_that_ends_in_half_an_escape_is_read_in_no_time() -> None:
    to_strict_json('"' + '\\"' * 300_000 + "\\")


@pytest.mark.parametrize(
    ("path", "clause"),
    [(f"{ONE}/resources", "name eq 'x'"), (f"{ONE}/resourceGroups", "tagName eq 'x'")],
    ids=["resources", "groups"],
)
@pytest.mark.parametrize("link", [" and ", " or "])
def test_a_filter_of_more_than_20_clauses_is_refused(path: str, clause: str, link: str) -> None:
    azure = Azure(lists.ROUTES, groups.ROUTES)

    status, code, message = azure.refused("GET", f"{path}?$filter={link.join([clause] * 21)}")

    assert (status, code) == (400, "InvalidFilterInQueryString")
    assert message == "The filter has more than 20 clauses."
    assert azure.names(f"{path}?$filter={link.join([clause] * 20)}") == []


# The configurations and the machine of network interfaces.

NICS, VM = "Microsoft.Network/networkInterfaces", "Microsoft.Compute/virtualMachines"
NET = "Microsoft.Network/virtualNetworks/net"


@pytest.fixture
def wired() -> Azure:
    azure = Azure(network.ROUTES, vms.ROUTES)
    subnets: Json = [
        {"name": f"s{number}", "properties": {"addressPrefix": f"10.9.{number}.0/24"}} for number in range(8)
    ]
    azure.put(NET, {"properties": {"subnets": subnets}})
    return azure


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prefixes under which the keys of all documents were read."""
    prefixes: list[str] = []
    keys_under = FoldView.keys_under

    def counted(view: FoldView, prefix: str) -> Iterator[str]:
        prefixes.append(prefix)
        return keys_under(view, prefix)

    monkeypatch.setattr(FoldView, "keys_under", counted)
    return prefixes


def configured(*subnets: str) -> Json:
    configurations: list[Json] = [
        {"name": f"c{number}", "properties": {"subnet": {"id": f"{ROOT}/providers/{NET}/subnets/{subnet}"}}}
        for number, subnet in enumerate(subnets)
    ]
    return {"properties": {"ipConfigurations": configurations}}


def test_the_addresses_that_are_taken_are_read_once_for_all_configurations(
    wired: Azure, scans: list[str]
) -> None:
    wired.put(f"{NICS}/one", configured("s0"))
    of_one = len(scans)
    scans.clear()

    card = wired.put(f"{NICS}/many", configured("s0", "S0", "s1", "s2", "s0")).body

    assert len(scans) == of_one == 1
    given = [
        at(card, "properties", "ipConfigurations", number, "properties", "privateIPAddress")
        for number in range(5)
    ]
    assert given == ["10.9.0.5", "10.9.0.6", "10.9.1.4", "10.9.2.4", "10.9.0.7"]


def test_an_interface_without_configurations_reads_no_addresses(wired: Azure, scans: list[str]) -> None:
    wired.put(f"{NICS}/bare", {})

    assert scans == []


def test_the_addresses_that_are_taken_are_read_once_for_all_subnets_of_a_network(
    wired: Azure, scans: list[str]
) -> None:
    wired.put(f"{NICS}/one", configured("s7"))
    scans.clear()

    assert wired.refused("DELETE", NET)[:2] == (400, "InUseSubnetCannotBeDeleted")
    assert len(scans) == 1


def test_an_interface_has_at_most_256_configurations(wired: Azure) -> None:
    refusal = wired.refused("PUT", f"{NICS}/many", configured(*["none"] * 257))

    assert refusal == (
        400,
        "InvalidParameter",
        "The value of parameter properties.ipConfigurations is invalid: "
        "a network interface has at most 256 configurations.",
    )
    assert wired.put(f"{NICS}/many", configured(*["s0"] * 128, *["s1"] * 128)).status == 201


def test_the_machines_are_read_once_for_all_interfaces_of_a_new_machine(
    wired: Azure, scans: list[str]
) -> None:
    for name in ("a", "b", "c", "d", "E"):
        wired.put(f"{NICS}/{name}", {})
    wired.put(f"{VM}/first", attached("a"))
    of_one = len(scans)
    scans.clear()

    wired.put(f"{VM}/second", attached("b", "c", "D"))

    assert len(scans) == of_one
    assert wired.refused("PUT", f"{VM}/third", attached("e", "A"))[1] == "NicInUse"
    assert wired.refused("PUT", f"{VM}/third", attached("e", "d", "none"))[1] == "NicInUse"
    assert wired.refused("PUT", f"{VM}/third", attached("none", "d"))[1] == "InvalidResourceReference"


def attached(*names: str) -> Json:
    ids: list[Json] = [{"id": f"{ROOT}/providers/{NICS}/{name}"} for name in names]
    return {"location": "westeurope", "properties": {"networkProfile": {"networkInterfaces": ids}}}
