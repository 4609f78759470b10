"""The real az creates, restarts, redeploys, evicts and deletes machines."""

import pytest

from fairwarning.arm.documents import get_path
from fairwarning.core.document.render import Json
from tests.arm.live import Live
from tests.az.tool import Az

pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]

LOGIN = "--image UbuntuLTS --admin-username azureuser --generate-ssh-keys"
PROFILE = '{"terminateNotificationProfile": {"enable": true, "notBeforeTimeout": "PT5M"}}'


@pytest.mark.story
@pytest.mark.rule("L-14", "L-15")
@pytest.mark.parametrize(
    ("command", "kind", "minutes"),
    [
        pytest.param("restart", "Reboot", 15, id="a restart is a Reboot"),
        pytest.param("redeploy", "Redeploy", 10, id="a redeployment is a Redeploy"),
        pytest.param("restart --force", "Redeploy", 10, id="a forced restart is a Redeploy"),
    ],
)
def test_az_waits_for_the_machine_to_approve(
    cloud: Live, az: Az, command: str, kind: str, minutes: int
) -> None:
    guest = cloud.guest("db")
    guest.sees()

    with az.meanwhile(f"az vm {command} --resource-group fairwarning --name db") as process:
        event = cloud.warned(guest, kind)
        notice, waiting = cloud.notice(event), process.poll() is None
        guest.approve(event)
        cloud.advance()

    assert (notice, waiting) == (minutes, True)
    assert guest.sees() == []


@pytest.mark.rule("L-15")
def test_a_machine_that_nobody_listens_on_is_restarted_at_once(cloud: Live, az: Az) -> None:
    with az.meanwhile("az vm restart --resource-group fairwarning --name quiet"):
        cloud.announced("Reboot")
        cloud.advance()

    assert [row["kind"] for row in cloud.server.history() if "quiet" in row["resources"]][-1] == "finished"


@pytest.mark.rule("T-03", "T-24", "L-05")
def test_a_spot_machine_is_evicted_and_another_is_not(cloud: Live, az: Az) -> None:
    guest = cloud.guest("batch")
    guest.sees()

    az.run("az vm simulate-eviction --resource-group fairwarning --name batch")
    event = cloud.warned(guest, "Preempt")
    notice = cloud.notice(event)
    cloud.advance()
    state = az.run(
        "az vm show --show-details --resource-group fairwarning --name batch --query powerState --output tsv"
    )
    refused = az.attempt("az vm simulate-eviction --resource-group fairwarning --name db")

    assert notice == 0.5
    assert state.strip() == "VM deallocated"
    assert refused.returncode != 0
    assert "(OperationNotAllowed)" in refused.stderr


@pytest.mark.rule("T-09", "T-16")
def test_machines_are_made_in_an_availability_set_and_deleted_again(cloud: Live, az: Az) -> None:
    az.run("az group create --name two --location westeurope")
    az.run(
        "az vm availability-set create --resource-group two --name pair "
        "--platform-fault-domain-count 2 --platform-update-domain-count 2"
    )
    made = az.json(f"az vm create --resource-group two --name left --availability-set pair {LOGIN}")
    az.run(f"az vm update --resource-group two --name left --set scheduledEventsProfile='{PROFILE}'")
    az.run(f"az vm create --resource-group two --name right --availability-set pair {LOGIN}")
    left, right = cloud.guest("left"), cloud.guest("right")
    left.sees()

    with az.meanwhile("az vm delete --resource-group two --name left --yes"):
        event = cloud.warned(left, "Terminate")
        notice, shared = cloud.notice(event), right.sees()
        left.approve(event)
        cloud.advance()
    listed = az.json("az vm list --resource-group two --show-details")
    view = az.json("az vm availability-set show --resource-group two --name pair")

    assert get_path(made, "powerState") == "VM running"
    assert notice == 5
    assert [one["EventId"] for one in shared] == [event["EventId"]]
    assert isinstance(listed, list)
    assert [get_path(one, "name") for one in listed] == ["right"]
    assert get_path(view, "platformUpdateDomainCount") == 2


@pytest.mark.rule("T-24")
def test_a_spot_machine_that_is_deleted_when_evicted_is_gone_afterwards(cloud: Live, az: Az) -> None:
    az.run("az group create --name spots --location westeurope")
    az.run(
        f"az vm create --resource-group spots --name cheap {LOGIN} --priority Spot --eviction-policy Delete"
    )
    guest = cloud.guest("cheap")
    guest.sees()

    az.run("az vm simulate-eviction --resource-group spots --name cheap")
    guest.approve(cloud.warned(guest, "Preempt"))
    cloud.advance()

    assert az.json("az vm list --resource-group spots") == []


def names(resources: list[Json]) -> set[str]:
    return {str(get_path(resource, "name")) for resource in resources}


def test_the_lists_of_az_show_everything_there_is(az: Az) -> None:
    machines = az.json("az vm list")
    everything = az.json("az resource list --resource-group fairwarning")

    assert isinstance(machines, list)
    assert names(machines) >= {"batch", "db", "quiet"}
    assert isinstance(everything, list)
    disks = {name for name in names(everything) if "_OsDisk_" in name}
    assert names(everything) - disks == {"batch", "db", "pond", "quiet", "web"}
    assert {disk.partition("_")[0] for disk in disks} == {"batch", "db", "quiet"}


@pytest.mark.rule("T-03")
def test_a_machine_may_be_told_to_approve_its_restarts_by_itself(cloud: Live, az: Az) -> None:
    az.run("az group create --name own --location westeurope")
    az.run(
        f"az vm create --resource-group own --name calm {LOGIN} --enable-user-reboot-scheduled-events true "
        "--additional-scheduled-events true --scheduled-events-api-version 2020-07-01"
    )
    guest = cloud.guest("calm")
    guest.sees()

    with az.meanwhile("az vm restart --resource-group own --name calm"):
        event = cloud.warned(guest, "Reboot")
        cloud.advance()

    assert event["EventStatus"] == "Started"
