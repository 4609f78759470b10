"""The page about upgrades is true: its commands work on data of the first release, its messages are said."""

import subprocess
from pathlib import Path

import pytest

from fairwarning import __version__
from fairwarning.agent.hooks.options import Options, SettingsError
from fairwarning.agent.journal import NewerStateError
from fairwarning.config.read_file import ConfigError, read_file
from fairwarning.core.errors import FairWarningError
from fairwarning.database.errors import NewerBackupError
from fairwarning.operator.routes import ROUTES
from fairwarning.store.migrate import NewerDatabaseError
from tests.cli.server import call
from tests.fixtures.release import FIRST
from tests.pages import Page
from tools.release.version import Sources

PAGE = Page("docs/upgrading.md")


@pytest.mark.runs("docs/upgrading.md")
def test_the_data_directory_of_the_first_release_is_upgraded_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FIRST.copied(tmp_path)
    monkeypatch.chdir(tmp_path)

    for command in PAGE.commands():
        with command.running() as text:
            program, *words = text.split()
            if program == "fairwarning":
                done = call(*words)
                assert done.code == 0, done.stderr
            else:
                subprocess.run([program, *words], check=True)

    kept = (tmp_path / "data-before" / "fairwarning.db").read_bytes()
    assert kept == (FIRST.folder / "fairwarning.db").read_bytes()


def unknown_key(folder: Path) -> FairWarningError:
    (folder / "fleet.toml").write_text("[quorum]\n")
    with pytest.raises(ConfigError) as refused:
        read_file(folder / "fleet.toml", {})
    return refused.value


def unknown_option() -> FairWarningError:
    with pytest.raises(SettingsError) as refused:
        Options("agent", {"quorum": 3}, ("…",))
    return refused.value


def test_the_page_has_what_a_version_says_about_newer_data(tmp_path: Path) -> None:
    refusals = (
        NewerDatabaseError(7, 6, "0.3.0"),
        NewerBackupError(Path("fleet.backup"), 2, 1, "0.3.0"),
        NewerStateError(Path("journal.jsonl"), 2, "0.3.0"),
        unknown_key(tmp_path),
        unknown_option(),
    )

    place = f"{tmp_path}/fleet.toml: "
    said = [str(refusal).replace(__version__, "0.2.0").removeprefix(place) for refusal in refusals]

    assert [text for text in said if f"`{text}`" not in PAGE.text] == []


def test_the_page_lists_every_deprecated_route() -> None:
    deprecated = {route.path.split("/{")[0] for route in ROUTES if route.deprecated}

    assert [path for path in sorted(deprecated) if f"| `{path}` |" not in PAGE.text] == []
    assert deprecated


def test_the_changelog_begins_with_notes_and_what_to_know_when_upgrading() -> None:
    (_, newest), (earlier, _), *_ = Sources().sections().items()

    assert newest[0].isalpha()  # a paragraph, then lists
    assert f"### Upgrading from {earlier.split()[0]}\n" in newest
    assert "(docs/upgrading.md)" in newest
