"""What a machine is made of must exist: its size (T-40) and its network interfaces (T-41)."""

import pytest

from fairwarning.arm import catalog, network
from fairwarning.arm.compute import scalesets, vms
from fairwarning.core.document.render import Json
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import SET, VM, compute, scale_set

NIC = "Microsoft.Network/networkInterfaces/nic"

#: One size of each shape that Azure's names have.
SIZES = """
Basic_A0 Standard_A7 Standard_A2m_v2 Standard_B1ls Standard_B2ats_v2 Standard_B16pls_v2 Standard_D14
Standard_D2_v2_Promo Standard_D15i_v2 Standard_DS11-1_v2 Standard_DS14 Standard_D96alds_v6
Standard_D2ps_v6 Standard_DC2s Standard_DC8_v2 Standard_DC96ads_cc_v5 Standard_DC128es_v6
Standard_E64-16as_v4 Standard_E80ids_v4 Standard_E112ibds_v5 Standard_EC96iads_v5 Standard_F72s_v2
Standard_F64ams_v6 Standard_FX48-12mds_v2 Standard_G5 Standard_GS5-16 Standard_H16mr_Promo
Standard_HB120-16rs_v3 Standard_HB368rs_v5 Standard_HC44rs Standard_HX176-144rs Standard_L8s_v2
Standard_L12aos_v4 Standard_M128m Standard_M416-208ms_v2 Standard_M416s_10_v2 Standard_M96bds_2_v3
Standard_M1792ixds_32_v3 Standard_NC24r_Promo Standard_NC4as_T4_v3 Standard_NC80adis_H100_v5
Standard_NC128lds_xl_RTXPRO6000BSE_v6 Standard_NCC40ads_H100_v5 Standard_ND40rs_v2
Standard_ND96isrf_H200_v5 Standard_ND96isr_MI300X_v5 Standard_ND128isr_NDR_GB200_v6
Standard_NG32adms_V620_v1 Standard_NM16ads_MA35D_v1 Standard_NP10s Standard_NV6
Standard_NV36adms_A10_v5 Standard_PB6s standard_d2s_v3 STANDARD_D2S_V3
"""
NO_SIZES = [
    *(
        "Nonsense_X",
        "Standard_Nonsense",
        "Standard_",
        "Standard",
        "",
        "D2s_v3",
        "B1ls",
        "150",
        "Standard_D2sv3",
    ),
    *(
        "Standard_D2s_3",
        "Standard_DS4_.name",
        "Standard_Ds_v3",
        "Standard_Q2s_v3",
        "Basic_D2",
        "Standard-D2s-v3",
    ),
    *(
        "Standard_D2s_v3 ",
        " Standard_D2s_v3",
        "Standard_D2s_v3\n",
        "Standard_D2als_v6\u200b",
        "Standard_D\u0662s_v3",
    ),
]


# -- sizes


def sized(size: str) -> Json:
    return {"properties": {"hardwareProfile": {"vmSize": size}}}


@pytest.mark.rule("T-40")
def test_every_size_of_azure_is_taken() -> None:
    azure = compute()
    azure.put(f"{VM}/box", {})

    for size in [*SIZES.split(), *(str(entry["name"]) for entry in catalog.SIZES)]:
        azure.patch(f"{VM}/box", sized(size))
        assert at(azure.get(f"{VM}/box"), "properties", "hardwareProfile", "vmSize") == size


@pytest.mark.rule("T-40")
@pytest.mark.parametrize("size", NO_SIZES)
def test_any_other_size_is_refused(size: str) -> None:
    azure = compute()
    azure.put(f"{VM}/box", {})
    azure.put(f"{SET}/web", scale_set(1))

    requests: list[tuple[str, str, Json]] = [
        ("PUT", f"{VM}/new", sized(size)),
        ("PATCH", f"{VM}/box", sized(size)),
        ("PUT", f"{SET}/new", {"sku": {"name": size, "capacity": 1}}),
        ("PATCH", f"{SET}/web", {"sku": {"name": size}}),
    ]

    for method, path, body in requests:
        response = azure.send(method, path, body)
        assert (response.status, at(response.body, "error", "code")) == (400, "InvalidParameter")
        assert at(response.body, "error", "target") == "vmSize"
        message = str(at(response.body, "error", "message"))
        assert message.startswith(f"The value {size} provided for the VM size is not valid. ")
        assert "are: Standard_B1s,Standard_B2s," in message


@pytest.mark.rule("T-40")
def test_a_scale_set_may_mix_sizes() -> None:
    azure = compute()

    def mixed(*sizes: Json) -> Json:
        profile: Json = {"vmSizes": [{"name": size} for size in sizes]}
        return {"sku": {"name": "Mix", "capacity": 1}, "properties": {"skuProfile": profile}}

    azure.put(f"{SET}/web", mixed("Standard_D2s_v5", "Standard_D2as_v5"))

    refused = azure.refused("PUT", f"{SET}/web", mixed("Standard_D2s_v5", "Nonsense_X"))
    assert refused[:2] == (400, "InvalidParameter")
    assert "The value Nonsense_X" in refused[2]


# -- interfaces


@pytest.fixture
def azure() -> Azure:
    azure = Azure(network.ROUTES, vms.ROUTES, scalesets.ROUTES)
    azure.put(NIC, {})
    azure.put(f"{VM}/box", attached(NIC))
    return azure


def attached(*interfaces: str) -> Json:
    ids: list[Json] = [{"id": f"{ROOT}/providers/{interface}"} for interface in interfaces]
    return {"location": "westeurope", "properties": {"networkProfile": {"networkInterfaces": ids}}}


@pytest.mark.rule("T-41")
@pytest.mark.parametrize(("method", "name"), [("PUT", "new"), ("PUT", "box"), ("PATCH", "box")])
@pytest.mark.parametrize(
    "missing",
    ["Microsoft.Network/networkInterfaces/none", "Microsoft.Network/virtualNetworks/net", f"{VM}/box"],
)
def test_an_interface_must_exist(azure: Azure, method: str, name: str, missing: str) -> None:
    azure.put("Microsoft.Network/virtualNetworks/net", {})

    refused = azure.refused(
        method, f"{VM}/{name}", attached(NIC, missing) if name == "box" else attached(missing)
    )

    assert refused == (
        400,
        "InvalidResourceReference",
        f"Resource {ROOT}/providers/{missing} referenced by resource {ROOT}/providers/{VM}/{name} was not "
        "found. Please make sure that the referenced resource exists, and that both resources are in the "
        "same region.",
    )


@pytest.mark.rule("T-41")
def test_an_interface_is_that_of_one_machine(azure: Azure) -> None:
    refused = azure.refused("PUT", f"{VM}/second", attached(NIC.replace("nic", "NIC")))

    assert refused == (
        400,
        "NicInUse",
        f"Network Interface {ROOT}/providers/{NIC.replace('nic', 'NIC')} is used by existing resource "
        f"{ROOT}/providers/{VM}/box. In order to delete the network interface, it must be dissociated from "
        "the resource. To learn more, see aka.ms/deletenic.",
    )
    assert azure.send("GET", f"{VM}/second").status == 404
    assert azure.put(f"{VM}/box", attached(NIC)).status == 200


@pytest.mark.rule("T-41")
def test_an_interface_is_free_once_its_machine_is_gone_or_has_another(azure: Azure) -> None:
    azure.put(f"{NIC}2", {})

    azure.patch(f"{VM}/box", attached(f"{NIC}2"))
    azure.put(f"{VM}/second", attached(NIC))
    azure.delete(f"{VM}/second")
    azure.advance("1m")
    azure.put(f"{VM}/third", attached(NIC))

    assert at(azure.get(NIC), "properties", "virtualMachine", "id") == f"{ROOT}/providers/{VM}/third"


@pytest.mark.rule("T-41")
def test_the_interface_of_a_machine_is_not_deleted(azure: Azure) -> None:
    assert azure.refused("DELETE", NIC)[:2] == (400, "NicInUse")

    azure.delete(f"{VM}/box")
    azure.advance("1m")

    assert azure.delete(NIC).status == 200
    assert azure.delete(NIC).status == 204
