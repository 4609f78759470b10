"""What CONTRIBUTING and SECURITY name exists."""

import re
from pathlib import Path

import pytest

from tests.pages import Page

ROOT = Path(__file__).parents[2]
CONTRIBUTING, SECURITY = Page("CONTRIBUTING.md"), Page("SECURITY.md")


def test_the_commands_of_contributors_exist() -> None:
    named = set(re.findall(r"\./dev ([a-z]+)", CONTRIBUTING.text))
    known = re.findall(r"^  ([a-z]+)  ", (ROOT / "dev").read_text(), re.MULTILINE)

    assert {"check", "fix", "test", "release"} <= named <= set(known)


@pytest.mark.parametrize("page", [CONTRIBUTING, SECURITY], ids=["CONTRIBUTING", "SECURITY"])
def test_the_files_that_are_named_exist(page: Page) -> None:
    files = re.findall(r"`((?:\.ci|tests|docs|tools|packaging)/[\w./-]+)`", page.text)

    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_tests_that_are_named_have_their_mark() -> None:
    project = (ROOT / "pyproject.toml").read_text()

    assert [mark for mark in re.findall(r"-m (\w+)", CONTRIBUTING.text) if f'"{mark}: ' not in project] == []


def test_readers_find_how_to_report_a_vulnerability() -> None:
    assert "](SECURITY.md)" in CONTRIBUTING.text
    assert "](docs/threat-model.md)" in SECURITY.text
