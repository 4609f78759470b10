"""The sizes that machines and sets may have."""

import pytest

from fairwarning.core.document.render import Json
from tests.arm.azure import Azure, at
from tests.arm.compute import AVAILABILITY_SET, SET, VM, compute, scale_set

HERE: Json = {"location": "westeurope"}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(f"{VM}/db", HERE)
    azure.put(f"{AVAILABILITY_SET}/app", HERE)
    azure.put(f"{SET}/web", scale_set(1))
    return azure


@pytest.mark.parametrize("path", [f"{VM}/db", f"{AVAILABILITY_SET}/app"])
def test_a_machine_may_have_every_size(azure: Azure, path: str) -> None:
    sizes = at(azure.get(f"{path}/vmSizes"), "value")

    assert "Standard_D2s_v5" in azure.names(f"{path}/vmSizes")
    assert at(sizes, 0, "numberOfCores") == 1
    assert at(sizes, 0, "maxDataDiskCount") == 2


def test_so_may_the_instances_of_a_set(azure: Azure) -> None:
    skus = at(azure.get(f"{SET}/web/skus"), "value")

    assert isinstance(skus, list)
    assert "Standard_D2s_v5" in [at(sku, "sku", "name") for sku in skus]
    assert at(skus[0], "resourceType") == "Microsoft.Compute/virtualMachineScaleSets"
    assert at(skus[0], "capacity") == {
        "minimum": 0,
        "maximum": 1000,
        "defaultCapacity": 1,
        "scaleType": "Automatic",
    }


@pytest.mark.parametrize(
    "path", [f"{VM}/none/vmSizes", f"{AVAILABILITY_SET}/none/vmSizes", f"{SET}/none/skus"]
)
def test_what_is_not_there_has_no_sizes(azure: Azure, path: str) -> None:
    assert azure.refused("GET", path)[:2] == (404, "ResourceNotFound")
