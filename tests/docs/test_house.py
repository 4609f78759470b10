"""The conventions that no linter checks: names, the lines of the README, and files that must not be kept."""

import inspect
import os
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import fairwarning

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fairwarning"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LOCK_FILES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock", "package-lock.json"}
SERVER_DATA = {"fairwarning.db", "fairwarning.json", "ca-key.pem", "server-key.pem"}
GENERATED = {".git", ".hypothesis", ".venv", "__pycache__", "dist", "build"}
REGISTRY = re.compile(
    r"https?://(?:[\w.-]*\b(?:pypi|pythonhosted|npmjs|registry|artifactory|nexus)\b)"
    r"|^\s*--?(?:extra-)?index-url\b",
    re.IGNORECASE | re.MULTILINE,
)


def our_files() -> Iterator[Path]:
    """Yield the files of the working tree, without those that tools made."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in GENERATED and "cache" not in name]
        yield from (Path(folder, name) for name in names)


def our_classes() -> Iterator[type]:
    """Yield the classes that the modules of the package define at top level."""
    for module_info in pkgutil.walk_packages(fairwarning.__path__, "fairwarning."):
        if not module_info.name.endswith("__main__"):
            module = import_module(module_info.name)
            classes = (value for value in vars(module).values() if inspect.isclass(value))
            yield from (cls for cls in classes if cls.__module__ == module_info.name)


def test_the_lines_of_the_readme_fit_a_terminal() -> None:
    readme = (ROOT / "README.md").read_text()

    assert [line for line in readme.splitlines() if len(line) > 120] == []


def test_no_lock_file_is_kept() -> None:
    assert sorted(path for path in our_files() if path.name in LOCK_FILES) == []


def test_no_data_of_a_server_is_kept_but_that_of_releases() -> None:
    places = (path.relative_to(ROOT) for path in our_files() if path.name in SERVER_DATA)
    allowed = ("tests/fixtures/release-", "data/", "bench/results/")  # git ignores the last two

    assert [place for place in places if not place.as_posix().startswith(allowed)] == []


def test_no_file_names_a_package_registry() -> None:
    texts = (
        path
        for path in our_files()
        if path.suffix in {".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
    )
    named = [path for path in texts if REGISTRY.search(path.read_text(errors="replace"))]

    assert named == []


def test_no_module_is_a_drawer_for_leftovers() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}

    assert sorted(path for path in SOURCES if path.stem in drawers) == []


def test_a_public_class_name_stands_for_one_thing() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for cls in our_classes():
        if not cls.__name__.startswith("_"):
            modules[cls.__name__].add(cls.__module__)

    assert {name: sorted(places) for name, places in modules.items() if len(places) > 1} == {}


def test_exceptions_end_in_error() -> None:
    exceptions = {cls.__name__ for cls in our_classes() if issubclass(cls, BaseException)}

    assert sorted(name for name in exceptions if not name.endswith("Error")) == []
    assert "FairWarningError" in exceptions
