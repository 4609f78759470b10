"""The pages point to what exists: files, headings and commands."""

import re
from pathlib import Path

import pytest

from fairwarning.cli import MODULES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md")])

#: A link that is no URL: the file, if another one, and the heading.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")

#: A command line that begins at a prompt or in a code span.
COMMAND = re.compile(r"(?:^\$ |`)(?:\.venv/bin/)?fairwarning ([a-z][a-z-]*)", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_resolve(page: Path) -> None:
    broken = []
    for file, anchor in LINK.findall(page.read_text()):
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{file}#{anchor}")

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_exist(page: Path) -> None:
    commands = set(COMMAND.findall(page.read_text()))

    assert sorted(commands - set(MODULES)) == []


def test_the_design_draws_every_package() -> None:
    drawing = (ROOT / "docs" / "design.md").read_text()
    packages = [path.parent for path in (ROOT / "src" / "fairwarning").rglob("__init__.py")]
    modules = [path.name for path in (ROOT / "src" / "fairwarning").glob("[a-z]*.py")]

    drawn = [*modules, *(f"{package.name}/" for package in packages if package.name != "fairwarning")]
    assert [name for name in drawn if f"{name} " not in drawing and f"{name}\n" not in drawing] == []


def test_the_design_draws_only_modules_that_exist() -> None:
    package = ROOT / "src" / "fairwarning"
    rows = re.findall(r"^├── (\w+)/ .*?  (\S+(?: · \S+)+)$", (ROOT / "docs" / "design.md").read_text(), re.M)
    modules = [package / folder / name for folder, names in rows for name in names.split(" · ")]

    assert len(modules) > 40
    assert [
        path
        for path in modules
        if not (path.with_suffix(".py").exists() or list(path.parent.glob(path.name)))
    ] == []
