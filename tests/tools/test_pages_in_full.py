"""More unmodified tools that do what their pages say."""

import json
from pathlib import Path

import pytest

from tests.pages import Page
from tests.tools.session import follow, programs

# The first run on a machine installs the tools.
pytestmark = [pytest.mark.full, pytest.mark.timeout(600), pytest.mark.needs("curl")]


@pytest.mark.runs("docs/guides/tools/cloud-custodian.md")
def test_cloud_custodian(tmp_path: Path) -> None:
    session = follow(Page("docs/guides/tools/cloud-custodian.md"), tmp_path, programs("custodian"))

    def found(policy: str) -> list[str]:
        return [
            machine["name"]
            for machine in json.loads((tmp_path / "found" / policy / "resources.json").read_text())
        ]

    assert sorted(found("running")) == ["app-0", "app-1", "app-2", "batch", "db"]
    assert (found("sets"), found("restart-db"), found("tagged")) == (["web"], ["db"], ["db"])
    assert "ERROR" not in session.output("custodian run")
    assert session.steps("scheduled") == [("Reboot", "management:dev", ["db"])]


@pytest.mark.runs("docs/guides/tools/older-python-sdks.md")
@pytest.mark.parametrize(
    ("version", "program"),
    [
        ("4.6", "restart_with_adal.py"),
        ("12", "restart_with_adal.py"),
        ("22", "restart.py"),
        ("30", "restart.py"),
    ],
)
def test_earlier_sdks_for_python(tmp_path: Path, version: str, program: str) -> None:
    page = Page("docs/guides/tools/older-python-sdks.md")

    session = follow(page, tmp_path, programs(f"sdk-{version}"), {"restart.py": program})

    assert session.steps("scheduled") == [("Reboot", "management:dev", ["db"])]
    assert "web_0" not in session.machines
