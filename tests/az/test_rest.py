"""The REST request in Azure's documentation of terminate notifications, sent with curl."""

import json
import subprocess

import pytest

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.arm.documents import get_path
from fairwarning.core.document.render import Json
from tests.arm.live import Live

pytestmark = [pytest.mark.az, pytest.mark.needs("curl")]

BODY = """
{
  "location": "westeurope",
  "properties": {
    "virtualMachineProfile": {
      "scheduledEventsProfile": {
        "terminateNotificationProfile": {
          "notBeforeTimeout": "PT5M",
          "enable": true
        }
      }
    }
  }
}
"""


def put(cloud: Live, version: str) -> tuple[str, Json]:
    """Put the body and return the status and the response."""
    set_ = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers/Microsoft.Compute"
    url = f"{cloud.arm}{set_}/virtualMachineScaleSets/web?api-version={version}"
    words = ["curl", "-sS", "--noproxy", "*", "--cacert", cloud.ca, "-w", "\n%{http_code}"]
    words += ["-H", f"Authorization: Bearer {cloud.token}", "-H", "Content-Type: application/json"]
    done = subprocess.run([*words, "-X", "PUT", "-d", BODY, url], capture_output=True, text=True, check=True)
    text, _, status = done.stdout.rpartition("\n")
    answer: Json = json.loads(text)
    return status, answer


@pytest.mark.rule("T-01")
def test_the_request_works_at_the_version_that_knows_the_profile(cloud: Live) -> None:
    status, answer = put(cloud, "2019-03-01")

    profile = get_path(answer, "properties", "virtualMachineProfile", "scheduledEventsProfile")
    assert status == "200"
    assert get_path(profile, "terminateNotificationProfile") == {"notBeforeTimeout": "PT5M", "enable": True}
    assert get_path(answer, "sku", "capacity") == 2


@pytest.mark.rule("T-01")
def test_an_older_version_does_not_know_the_profile(cloud: Live) -> None:
    status, answer = put(cloud, "2018-10-01")

    message = "Could not find member 'scheduledEventsProfile' on object of type 'VirtualMachineProfile'"
    assert status == "400"
    assert get_path(answer, "error", "code") == "BadRequest"
    assert str(get_path(answer, "error", "message")).startswith(message)
