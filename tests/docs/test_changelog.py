"""The changelog and the package agree on the version."""

import re
from pathlib import Path

import fairwarning

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_newest_release_in_the_changelog_is_the_packaged_version() -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}$", CHANGELOG.read_text(), re.M)

    assert newest is not None
    assert newest[1] == fairwarning.__version__


def test_what_is_not_released_yet_comes_first() -> None:
    headings = re.findall(r"^## .*$", CHANGELOG.read_text(), re.M)

    assert headings[0] == "## [Unreleased]"
