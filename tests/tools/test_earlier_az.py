"""Earlier releases of az do what the newest does: create, warn, restart, delete."""

from collections.abc import Iterator

import pytest

from fairwarning.arm.documents import get_path
from tests.arm.live import Live, live
from tests.az.tool import Az, login, trap
from tests.tools.session import programs

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

SET = "--resource-group myResourceGroup --name myScaleSet"
CREATE = (
    f"az vmss create {SET} --image UbuntuLTS --admin-username azureuser --generate-ssh-keys "
    "--terminate-notification-time 10 --orchestration-mode Uniform"
)
VM = "--resource-group myResourceGroup --name till"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("cloud"), "--spot-vm", "batch") as server:
        yield server


@pytest.fixture(scope="module", params=["2.30", "2.50"])
def az(request: pytest.FixtureRequest, cloud: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Az]:
    home = tmp_path_factory.mktemp("home")
    with trap() as proxy:
        yield login(cloud, home, programs(f"az-{request.param}"), proxy)


def test_an_instance_is_warned_of_its_deletion_and_a_machine_of_its_restart(cloud: Live, az: Az) -> None:
    az.run("az group create --name myResourceGroup --location eastus")
    az.run(CREATE)
    az.run(f"az vmss update {SET} --enable-terminate-notification true --terminate-notification-time 10")
    az.run(f"az vmss update-instances {SET} --instance-ids '*'")
    instance = cloud.guest("myScaleSet_0")
    instance.sees()
    with az.meanwhile(f"az vmss delete-instances {SET} --instance-ids 0"):
        deletion = cloud.warned(instance, "Terminate")
        deletion_notice = cloud.notice(deletion)
        instance.approve(deletion)
        cloud.advance()
    az.run(f"az vmss scale {SET} --new-capacity 2")
    az.run(f"az vm create {VM} --image UbuntuLTS --admin-username azureuser --generate-ssh-keys")
    machine = cloud.guest("till")
    machine.sees()
    with az.meanwhile(f"az vm restart {VM}"):
        restart = cloud.warned(machine, "Reboot")
        restart_notice = cloud.notice(restart)
        machine.approve(restart)
        cloud.advance()
    listed = az.json("az vm list --show-details")
    with az.meanwhile("az group delete --name myResourceGroup --yes"):
        cloud.announced("Terminate")
        cloud.advance("15m")
        cloud.advance()

    assert (deletion["Resources"], deletion_notice) == (["myScaleSet_0"], 10)
    assert (restart["Resources"], restart_notice) == (["till"], 15)
    assert isinstance(listed, list)
    assert {(get_path(one, "name"), get_path(one, "powerState")) for one in listed} == {
        ("batch", "VM running"),
        ("till", "VM running"),
    }
    assert az.run("az group exists --name myResourceGroup").strip() == "false"


def test_a_spot_machine_is_evicted(cloud: Live, az: Az) -> None:
    guest = cloud.guest("batch")
    guest.sees()

    az.run("az vm simulate-eviction --resource-group fairwarning --name batch")
    event = cloud.warned(guest, "Preempt")
    cloud.advance()
    state = "--resource-group fairwarning --name batch --show-details --query powerState --output tsv"
    stopped = az.run(f"az vm show {state}")
    az.run("az vm start --resource-group fairwarning --name batch")

    assert event["Resources"] == ["batch"]
    assert stopped == "VM deallocated\n"
