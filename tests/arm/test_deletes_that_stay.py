"""A delete that ended with Succeeded has deleted the machine, even if other events hit it meanwhile."""

import pytest

from fairwarning.core.document.render import Json
from tests.arm.azure import Azure
from tests.arm.compute import SET, VM, compute, scale_set

BOX = f"{VM}/box"
WEB = f"{SET}/web"
SPOT: Json = {"properties": {"priority": "Spot", "evictionPolicy": "Deallocate"}}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(BOX, {"location": "westeurope"})
    azure.put(WEB, scale_set(2))
    azure.poll("box", "web_0")
    return azure


@pytest.mark.rule("T-16")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_machine_whose_host_fails_during_its_delete_is_not_there_once_that_succeeded(
    azure: Azure, restarted: bool
) -> None:
    deleting = azure.delete(f"{BOX}?forceDeletion=true")
    azure.fleet.cause("hardware-failure", "box")

    if restarted:
        azure.restart()
    azure.advance("5s")

    assert azure.progress(deleting) == "Succeeded"
    assert azure.send("GET", BOX).status == 404


@pytest.mark.rule("T-16")
def test_an_instance_whose_host_fails_during_its_delete_is_not_there_once_that_succeeded(
    azure: Azure,
) -> None:
    deleting = azure.delete(f"{WEB}/virtualMachines/0?forceDeletion=true")
    azure.fleet.cause("hardware-failure", "web_0")

    azure.advance("5s")

    assert azure.progress(deleting) == "Succeeded"
    assert azure.send("GET", f"{WEB}/virtualMachines/0").status == 404
    assert azure.names(f"{WEB}/virtualMachines") == ["web_1"]


@pytest.mark.rule("T-16")
def test_a_set_whose_hosts_fail_during_its_delete_leaves_no_scope_behind(azure: Azure) -> None:
    deleting = azure.delete(f"{WEB}?forceDeletion=true")
    azure.fleet.cause("hardware-failure", "web_0", "web_1")

    azure.advance("5s")

    assert azure.progress(deleting) == "Succeeded"
    assert azure.send("GET", WEB).status == 404
    assert not any(scope.endswith("web") for scope in azure.fleet.engine.scopes())


@pytest.mark.rule("T-24")
def test_a_spot_machine_stays_deallocated_when_the_platform_moves_it_while_it_is_evicted(
    azure: Azure,
) -> None:
    azure.put(f"{VM}/cheap", SPOT)
    azure.poll("cheap")
    azure.post(f"{VM}/cheap/simulateEviction")
    azure.fleet.cause("platform-redeploy", "cheap", notice="30s")

    azure.advance("36s")

    view = azure.get(f"{VM}/cheap/instanceView")
    assert isinstance(view, dict)
    assert "PowerState/deallocated" in str(view["statuses"])


@pytest.mark.rule("T-24")
def test_a_spot_machine_that_its_eviction_deleted_can_be_made_again(azure: Azure) -> None:
    cheap: Json = {"properties": {"priority": "Spot", "evictionPolicy": "Delete"}}
    azure.put(f"{VM}/cheap", cheap)
    azure.poll("cheap")
    azure.post(f"{VM}/cheap/simulateEviction")
    azure.advance("36s")
    assert azure.send("GET", f"{VM}/cheap").status == 404

    made_again = azure.send("PUT", f"{VM}/cheap", cheap)

    assert made_again.status == 201
    assert azure.send("GET", f"{VM}/cheap").status == 200
