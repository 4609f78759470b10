"""The bill of materials names the wheel, all that an installation brings, and vendored files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fairwarning
from tests.release.yaml_documents import Member, items, member
from tools.environments import environment
from tools.release import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

VALIDATE = """\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""


@pytest.fixture(scope="module")
def file(dist: Path) -> Path:
    words = [sys.executable, "-m", "tools.release", "sbom", "--dist", str(dist)]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return dist / f"fairwarning-{fairwarning.__version__}.cdx.json"


@pytest.fixture(scope="module")
def bill(file: Path) -> Member:
    found: Member = json.loads(file.read_text())
    return found


def test_the_file_follows_the_schema_of_cyclonedx(file: Path) -> None:
    python = environment(ROOT / "tools" / "release" / "sbom.txt") / "python"

    done = subprocess.run([python, "-c", VALIDATE], input=file.read_text(), capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_bill_is_that_of_this_version_and_has_every_part(bill: Member) -> None:
    parts = {str(part["name"]).lower() for part in items(bill, "components")}

    assert member(bill, "metadata", "component", "name") == "fairwarning"
    assert member(bill, "metadata", "component", "version") == fairwarning.__version__
    assert {"click", "cryptography", "psycopg", "psycopg-binary", "starlette", "uvicorn", "htmx.org"} <= parts
    assert parts & {"pip", "pytest", "mypy", "fairwarning"} == set()


def test_nothing_of_this_machine_and_this_moment_is_in_the_bill(file: Path, bill: Member) -> None:
    assert "serialNumber" not in bill
    assert "file://" not in file.read_text()
    assert str(Path.home()) not in file.read_text()
