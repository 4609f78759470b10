"""The real az changes tags, and guests read them when Azure's would (I-11)."""

import httpx2
import pytest

from tests.arm.live import Live
from tests.az.tool import Az

pytestmark = [pytest.mark.az, pytest.mark.timeout(600), pytest.mark.rule("I-11")]

TAGS_LIST = "/metadata/instance/compute/tagsList?api-version=2021-02-01"


def tags(cloud: Live, machine: str) -> dict[str, str]:
    """Return the tags that the guest of a machine reads."""
    address = cloud.guest(machine).url
    listed = httpx2.get(f"{address}{TAGS_LIST}", headers={"Metadata": "true"}).raise_for_status().json()
    return {tag["name"]: tag["value"] for tag in listed}


def test_a_changed_tag_of_a_machine_reaches_its_guest_at_once_and_survives_a_restart(
    cloud: Live, az: Az
) -> None:
    az.run("az vm update --resource-group fairwarning --name quiet --set tags.a=b")
    at_once = tags(cloud, "quiet")
    with az.meanwhile("az vm restart --resource-group fairwarning --name quiet"):
        cloud.announced("Reboot")
        cloud.advance()
    found = az.run("az resource list --tag a=b --query [].name --output tsv")

    assert at_once == tags(cloud, "quiet") == {"a": "b"}
    assert found.split() == ["quiet"]


# The tests share a set, in any order: each has a tag and an instance of its own.
def test_a_changed_tag_of_a_scale_set_reaches_an_instance_when_it_restarts(cloud: Live, az: Az) -> None:
    az.run("az vmss update --resource-group fairwarning --name web --set tags.restarted=yes")
    before = tags(cloud, "web_1")
    with az.meanwhile("az vmss restart --resource-group fairwarning --name web --instance-ids 1"):
        cloud.announced("Reboot")
        cloud.advance()

    assert "restarted" not in before
    assert "restarted" not in tags(cloud, "web_0")
    assert tags(cloud, "web_1")["restarted"] == "yes"


def test_a_changed_tag_of_a_scale_set_reaches_an_instance_when_a_disk_is_attached(
    cloud: Live, az: Az
) -> None:
    az.run("az vmss update --resource-group fairwarning --name web --set tags.attached=yes")
    az.run("az disk create --resource-group fairwarning --name logs --size-gb 8")
    before = tags(cloud, "web_0")
    az.run("az vmss disk attach --resource-group fairwarning --vmss-name web --instance-id 0 --disk logs")

    assert "attached" not in before
    assert "attached" not in tags(cloud, "web_1")
    assert tags(cloud, "web_0")["attached"] == "yes"
