"""Vendored files are unchanged."""

import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

import fairwarning.console

STATIC = Path(fairwarning.console.__file__).parent / "static"
VENDORED = tomllib.loads((STATIC / "VENDORED.toml").read_text())
FILES = {file: known["sha256"] for entry in VENDORED.values() for file, known in entry["files"].items()}
OURS = {"console.css", "pages.css", "console.js", "theme.js", "icon.svg", "VENDORED.toml"}

#: What our own script may grow to before it needs a second thought.
MOST_LINES = 150


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_others_is_as_we_took_it(file: str) -> None:
    assert sha256((STATIC / file).read_bytes()).hexdigest() == FILES[file]


def test_every_file_is_ours_or_has_its_origin_written_down() -> None:
    assert {path.name for path in STATIC.iterdir()} == OURS | FILES.keys()


@pytest.mark.parametrize("name", VENDORED)
def test_the_licence_of_what_others_wrote_is_kept(name: str) -> None:
    assert VENDORED[name]["licence-file"] in FILES


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in STATIC.glob("*.css"):
        assert "http" not in path.read_text()
        assert "@import" not in path.read_text()


def test_our_own_script_stays_small() -> None:
    assert len((STATIC / "console.js").read_text().splitlines()) <= MOST_LINES
