"""Libraries from PyPI that find out by themselves which cloud they are in."""

import json

import pytest

from tests.real.conftest import Pair

# The first run on a machine installs the programs.
pytestmark = [pytest.mark.netns, pytest.mark.timeout(600)]

# In its own order: the first detector that answers names the cloud, so no other may match.
ELASTIC_APM = """
import json
from elasticapm.utils.cloud import aws_metadata, azure_metadata, gcp_metadata
print(json.dumps(aws_metadata() or gcp_metadata() or azure_metadata()))
"""

OPENTELEMETRY = """
import json
from opentelemetry.resource.detector.azure.vm import AzureVMResourceDetector
print(json.dumps(dict(AzureVMResourceDetector().detect().attributes)))
"""

CLOUD_DETECT = """
import asyncio, json
from cloud_detect import provider
from cloud_detect.providers import AzureProvider
print(json.dumps([provider(timeout=20), asyncio.run(AzureProvider().check_metadata_server())]))
"""


@pytest.mark.rule("I-05")
def test_elastic_apm_finds_azure_and_the_machine(pair: Pair, client_python: str) -> None:
    found: dict[str, str | dict[str, str]] = json.loads(pair.web_1.run(client_python, "-c", ELASTIC_APM))

    instance = found["instance"]
    assert isinstance(instance, dict)
    assert found["provider"] == "azure"
    assert instance["name"] == "web_1"
    assert found["region"]
    assert found["machine"] != {"type": ""}


@pytest.mark.rule("R-04")
def test_opentelemetry_describes_the_machine(pair: Pair, client_python: str) -> None:
    found: dict[str, str] = json.loads(pair.web_0.run(client_python, "-c", OPENTELEMETRY))

    assert found["cloud.provider"] == "azure"
    assert found["cloud.platform"] == "azure_vm"
    assert found["host.name"] == "web_0"
    assert found["azure.vm.scaleset.name"] == "web"
    assert found["cloud.resource_id"].endswith("/virtualMachineScaleSets/web/virtualMachines/0")
    assert found["host.id"] == found["service.instance.id"] != ""


@pytest.mark.rule("I-03")
def test_cloud_detect_says_azure_because_of_the_endpoint(pair: Pair, client_python: str) -> None:
    found: list[str | bool] = json.loads(pair.web_0.run(client_python, "-c", CLOUD_DETECT))

    assert found == ["azure", True]
