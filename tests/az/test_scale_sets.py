"""The az commands in Azure's documentation of terminate notifications."""

import re

import pytest

from fairwarning.arm.documents import get_path
from tests.arm.live import Live
from tests.az.tool import Az

# The first run on a machine installs az.
pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]

GROUP = "az group create --name myResourceGroup --location eastus"
CREATE = (
    "az vmss create --resource-group myResourceGroup --name myScaleSet --image UbuntuLTS "
    "--admin-username azureuser --generate-ssh-keys --terminate-notification-time 10"
)
UPDATE = (
    "az vmss update --resource-group myResourceGroup --name myScaleSet "
    "--enable-terminate-notification true --terminate-notification-time 10"
)
SET = "--resource-group myResourceGroup --name myScaleSet"


@pytest.mark.rule("T-03", "T-06", "T-09", "T-16")
@pytest.mark.parametrize(
    ("more", "pattern"),
    [
        pytest.param("", r"myScaleSet_[0-9a-f]{8}", id="as printed: flexible"),
        pytest.param(" --orchestration-mode Uniform", r"myScaleSet_\d", id="uniform"),
    ],
)
def test_an_instance_is_warned_of_its_deletion_and_az_waits_for_it(
    cloud: Live, az: Az, more: str, pattern: str
) -> None:
    az.run(GROUP)
    made = az.json(CREATE + more)
    az.run(UPDATE)
    before = cloud.machines("myresourcegroup/myScaleSet")
    first, second = (cloud.guest(machine["name"]) for machine in before)
    chosen = first.name if not more else "0"
    first.sees()
    az.run(f"az vmss update-instances {SET} --instance-ids {chosen}")

    with az.meanwhile(f"az vmss delete-instances {SET} --instance-ids {chosen}") as command:
        event = cloud.warned(first, "Terminate")
        notice, waiting = cloud.notice(event), command.poll() is None
        first.approve(event)
        cloud.advance()
    listed = az.json(f"az vmss list-instances {SET}")
    capacity = az.run(f"az vmss show {SET} --query sku.capacity --output tsv")
    with az.meanwhile("az group delete --name myResourceGroup --yes"):
        second.approve(cloud.warned(second, "Terminate"))
        cloud.advance()

    profile = get_path(made, "vmss", "virtualMachineProfile", "scheduledEventsProfile")
    assert get_path(profile, "terminateNotificationProfile") == {"enable": True, "notBeforeTimeout": "PT10M"}
    assert all(re.fullmatch(pattern, machine["name"]) for machine in before)
    assert (event["EventStatus"], event["Resources"]) == ("Scheduled", [first.name])
    assert (notice, waiting) == (10, True)
    assert isinstance(listed, list)
    assert [get_path(one, "name") for one in listed] == [second.name]
    assert capacity.strip() == "1"
    assert az.run("az group exists --name myResourceGroup").strip() == "false"


@pytest.mark.rule("T-03", "T-08")
def test_notifications_are_switched_off_and_on_again(az: Az) -> None:
    where = "--resource-group fairwarning --name web"
    profile = "--query virtualMachineProfile.scheduledEventsProfile.terminateNotificationProfile"

    never = az.json(f"az vmss show {where} {profile}")
    switch = f"az vmss update {where} {profile} --enable-terminate-notification"
    on = az.json(f"{switch} true --terminate-notification-time 8")
    longer = az.json(f"az vmss update {where} {profile} --terminate-notification-time 9")
    off = az.json(f"{switch} false")

    assert never is None
    assert on == {"enable": True, "notBeforeTimeout": "PT8M"}
    assert longer == {"enable": True, "notBeforeTimeout": "PT9M"}
    assert off is None


@pytest.mark.rule("T-02")
def test_a_notice_that_is_too_long_is_refused_in_words_that_az_prints(az: Az) -> None:
    command = "az vmss update --resource-group fairwarning --name web --enable-terminate-notification true"

    refused = az.attempt(f"{command} --terminate-notification-time 16")

    assert refused.returncode == 1
    assert "(InvalidParameter)" in refused.stderr


@pytest.mark.rule("T-09", "T-16")
def test_a_scale_in_takes_the_newest_instance_once_it_has_approved(cloud: Live, az: Az) -> None:
    set_ = "--resource-group fairwarning --name pond"
    az.run(f"az vmss update {set_} --enable-terminate-notification true --terminate-notification-time 5")
    az.run(f"az vmss update-instances {set_} --instance-ids '*'")
    az.run(f"az vmss scale {set_} --new-capacity 4")
    guest = cloud.guest("pond_3")
    guest.sees()

    with az.meanwhile(f"az vmss scale {set_} --new-capacity 3"):
        event = cloud.warned(guest, "Terminate")
        guest.approve(event)
        cloud.advance()

    assert event["Resources"] == ["pond_3"]
    assert [machine["name"] for machine in cloud.machines("pond")] == ["pond_0", "pond_1", "pond_2"]


def test_what_up_has_made_is_a_scale_set_for_az(az: Az) -> None:
    listed = az.json("az vmss list --resource-group fairwarning")
    instances = az.json("az vmss list-instances --resource-group fairwarning --name web")

    assert isinstance(listed, list)
    assert [get_path(one, "name") for one in listed] == ["pond", "web"]
    assert isinstance(instances, list)
    assert [get_path(one, "name") for one in instances] == ["web_0", "web_1"]


@pytest.mark.rule("L-14", "L-15")
def test_one_instance_is_restarted_once_it_has_approved(cloud: Live, az: Az) -> None:
    guest = cloud.guest("web_1")
    guest.sees()

    with az.meanwhile("az vmss restart --resource-group fairwarning --name web --instance-ids 1") as command:
        event = cloud.warned(guest, "Reboot")
        waiting = command.poll() is None
        guest.approve(event)
        cloud.advance()

    assert (event["Resources"], waiting) == (["web_1"], True)
    assert guest.sees() == []
