"""Names in the management API contain no invisible characters."""

import pytest

from tests.arm.arm_client import ONE, arm_client
from tests.arm.cloud import resource, template
from tests.arm.deploying import deploy, deployable, facts


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (f"{ONE}/resourceGroups/la%E2%80%AEb", "U+202E"),
        (f"{ONE}/resourceGroups/la%00b", "U+0000"),
        (f"{ONE}/resourceGroups/lab/providers/Microsoft.Network/virtualNetworks/a%E2%80%8Bb", "U+200B"),
    ],
)
def test_a_name_in_a_path_has_no_hidden_characters_in_it(path: str, number: str) -> None:
    response = arm_client().send("PUT", f"{path}?api-version=2022-12-01", {"location": "westeurope"})

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "InvalidResourceName")
    assert number in error["message"]


def test_a_name_in_a_template_has_no_hidden_characters_in_it() -> None:
    azure = deployable()

    deploy(azure, template(resource("a\u202eb")))

    assert facts(azure, "error", "details", 0, "code") == "InvalidResourceName"
    assert "U+202E" in str(facts(azure, "error", "details", 0, "message"))
