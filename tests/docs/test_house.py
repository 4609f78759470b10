"""The house keeps its own order: a short README, and nothing that does not belong into the repository."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fairwarning"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LOCK_FILES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock", "package-lock.json"}
NOT_OURS = {".git", ".venv", "__pycache__", "dist", "build"}
REGISTRY = re.compile(
    r"https?://(?:[\w.-]*\b(?:pypi|pythonhosted|npmjs|registry|artifactory|nexus)\b)"
    r"|^\s*--?(?:extra-)?index-url\b",
    re.IGNORECASE | re.MULTILINE,
)


def our_files() -> Iterator[Path]:
    """Yield the files of the working tree that are ours, leaving out what tools made."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and "cache" not in name]
        yield from (Path(folder, name) for name in names)


def test_a_newcomer_can_read_the_readme_in_one_go() -> None:
    readme = ROOT / "README.md"

    assert len(readme.read_text().splitlines()) <= 120


def test_no_lock_file_is_kept() -> None:
    assert sorted(path for path in our_files() if path.name in LOCK_FILES) == []


def test_no_file_names_a_package_registry() -> None:
    texts = (path for path in our_files() if path.suffix in {".md", ".py", ".toml", ".txt", ""})
    named = [path for path in texts if REGISTRY.search(path.read_text(errors="replace"))]

    assert named == []


def test_no_module_is_a_drawer_for_leftovers() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}

    assert sorted(path for path in SOURCES if path.stem in drawers) == []
