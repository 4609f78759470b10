"""cloud-init's own code fetches the metadata a first boot needs."""

import json
from typing import TypedDict

import pytest

from tests.real.conftest import Pair

pytestmark = pytest.mark.netns

PYTHON = "/usr/bin/python3"

FETCH = """
import json, sys
from cloudinit import helpers
from cloudinit.sources import DataSourceAzure as azure

azure.IMDS_VER_WANT = sys.argv[1] if len(sys.argv) > 1 else azure.IMDS_VER_WANT
paths = helpers.Paths({"cloud_dir": "/nonexistent", "run_dir": "/nonexistent"})
source = azure.DataSourceAzure({}, distro=None, paths=paths)
found = source.get_imds_data_with_api_fallback(retries=0)
network = azure.generate_network_config_from_instance_network_metadata(found["network"])
print(json.dumps({
    "name": found["compute"]["name"],
    "hostname": azure._hostname_from_imds(found),
    "ethernets": len(network["ethernets"]),
}))
"""


class Found(TypedDict):
    name: str
    hostname: str | None
    ethernets: int


@pytest.mark.rule("I-08")
def test_cloud_init_reads_who_the_machine_is_and_how_its_network_looks(pair: Pair) -> None:
    found: Found = json.loads(pair.web_1.run(PYTHON, "-c", FETCH))

    assert found == {"name": "web_1", "hostname": "web000001", "ethernets": 1}


@pytest.mark.rule("R-07")
def test_cloud_init_falls_back_when_it_asks_for_a_version_that_is_not_served(pair: Pair) -> None:
    found: Found = json.loads(pair.web_0.run(PYTHON, "-c", FETCH, "2031-01-01"))

    assert found == {"name": "web_0", "hostname": None, "ethernets": 1}
