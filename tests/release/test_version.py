"""The version and the changelog, from the work between two releases to a release and on."""

from datetime import date
from pathlib import Path

import pytest

import fairwarning
from tools.release import ReleaseError
from tools.release.version import UNRELEASED, Sources, is_release

CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- Warnings arrive by pigeon.

## 0.1.0 - 2026-11-15

- The first release.
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """A checkout between 0.1.0 and 0.2.0."""
    sources = Sources(tmp_path)
    sources.module.parent.mkdir(parents=True)
    sources.module.write_text('"""A package."""\n\n__version__ = "0.2.0.dev0"\n')
    sources.changelog.write_text(CHANGELOG)
    return sources


def test_closing_sets_the_version_and_dates_the_section(sources: Sources) -> None:
    sources.close("0.2.0", date(2026, 12, 1))

    assert sources.version() == "0.2.0"
    assert list(sources.sections()) == ["0.2.0 - 2026-12-01", "0.1.0 - 2026-11-15"]
    assert sources.changelog.read_text() == CHANGELOG.replace("[Unreleased]", "0.2.0 - 2026-12-01")
    assert sources.notes() == "### Added\n\n- Warnings arrive by pigeon."


def test_the_work_on_the_next_release_begins_with_an_empty_section(sources: Sources) -> None:
    sources.close("0.2.0", date(2026, 12, 1))

    sources.open_next("0.3.0")

    assert sources.version() == "0.3.0.dev0"
    assert list(sources.sections()) == [UNRELEASED, "0.2.0 - 2026-12-01", "0.1.0 - 2026-11-15"]
    assert sources.notes() == ""


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        ("0.1.0", "0.1.0 is not newer than 0.1.0, the newest release in CHANGELOG.md"),
        ("0.0.9", "0.0.9 is not newer than 0.1.0, the newest release in CHANGELOG.md"),
        ("0.2", "invalid version '0.2' (expected e.g. 0.2.0)"),
        ("v0.2.0", "invalid version 'v0.2.0' (expected e.g. 0.2.0)"),
    ],
)
def test_a_version_that_cannot_be_next_changes_nothing(
    sources: Sources, version: str, complaint: str
) -> None:
    with pytest.raises(ReleaseError) as refusal:
        sources.close(version, date(2026, 12, 1))

    assert str(refusal.value) == complaint
    assert sources.changelog.read_text() == CHANGELOG


def test_a_release_without_changes_is_refused(sources: Sources) -> None:
    sources.changelog.write_text(CHANGELOG.replace("### Added\n\n- Warnings arrive by pigeon.\n\n", ""))

    with pytest.raises(ReleaseError, match="there is nothing to release"):
        sources.close("0.2.0", date(2026, 12, 1))


def test_a_release_whose_section_is_not_closed_is_refused(sources: Sources) -> None:
    sources.module.write_text('__version__ = "0.2.0"\n')

    with pytest.raises(ReleaseError) as refusal:
        sources.notes()

    assert str(refusal.value) == (
        "the first section of CHANGELOG.md is '[Unreleased]', not that of 0.2.0; "
        "close the section with ./dev release --close 0.2.0, and commit"
    )


def test_the_package_has_the_version_of_its_changelog() -> None:
    sources = Sources()
    first, *_ = sources.sections()

    assert sources.version() == fairwarning.__version__
    if is_release(fairwarning.__version__):
        assert first.startswith(f"{fairwarning.__version__} - ")
    else:
        assert fairwarning.__version__.endswith(".dev0")
        assert first == UNRELEASED
