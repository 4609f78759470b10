"""The house keeps its own order: short pages, short files, rooms that introduce themselves."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fairwarning"
SOURCES = sorted(PACKAGE.rglob("*.py"))
CODE = sorted(path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))
ROOMS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
LOCK_FILES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock", "package-lock.json"}
NOT_OURS = {".git", ".venv", "__pycache__", "dist", "build"}
REGISTRY = re.compile(
    r"https?://(?:[\w.-]*\b(?:pypi|pythonhosted|npmjs|registry|artifactory|nexus)\b)"
    r"|^\s*--?(?:extra-)?index-url\b",
    re.IGNORECASE | re.MULTILINE,
)

in_every_source = pytest.mark.parametrize(
    "source", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in SOURCES]
)


def our_files() -> Iterator[Path]:
    """Yield the files of the working tree that are ours, leaving out what tools made."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and "cache" not in name]
        yield from (Path(folder, name) for name in names)


def functions(source: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file, methods and inner functions included."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function takes, its signature included, decorators not."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_a_newcomer_can_read_the_readme_in_one_go() -> None:
    readme = ROOT / "README.md"

    assert len(readme.read_text().splitlines()) <= 120


def test_no_lock_file_is_kept() -> None:
    assert sorted(path for path in our_files() if path.name in LOCK_FILES) == []


def test_no_file_names_a_package_registry() -> None:
    texts = (path for path in our_files() if path.suffix in {".md", ".py", ".toml", ".txt", ""})
    named = [path for path in texts if REGISTRY.search(path.read_text(errors="replace"))]

    assert named == []


@pytest.mark.parametrize("file", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in CODE])
def test_a_file_stays_under_400_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) < 400


@in_every_source
def test_a_function_stays_under_40_lines(source: Path) -> None:
    long = {f.name: body_lines(f) for f in functions(source) if body_lines(f) >= 40}

    assert long == {}


@in_every_source
def test_a_file_says_why_it_exists(source: Path) -> None:
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""

    assert docstring.partition("\n")[0].endswith(".")


@pytest.mark.parametrize("room", [pytest.param(path, id=path.name) for path in ROOMS])
def test_a_room_introduces_itself(room: Path) -> None:
    holds_code = any(room.rglob("*.py"))
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))

    assert holds_code
    assert docstring


def test_no_module_is_a_drawer_for_leftovers() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}

    assert sorted(path for path in SOURCES if path.stem in drawers) == []
