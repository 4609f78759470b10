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

#: Pages for people who use fairwarning; the others are for people who work on it.
USERS = [
    page
    for page in PAGES
    if page.name
    in {"README.md", "index.md", "installation.md", "troubleshooting.md", "tutorial.md", "upgrading.md"}
    or page.parent.name in {"guides", "tools", "reference"}
]

#: What users call the script of the checkout for; everything else is a command of fairwarning.
SETUP = {"./dev up", "./dev test"}

#: The pages that lead to all others.
INDEXES = [ROOT / "docs" / "index.md", ROOT / "docs" / "guides" / "README.md"]


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


@pytest.mark.parametrize("page", USERS, ids=names)
def test_users_need_the_script_of_the_checkout_for_the_setup_alone(page: Path) -> None:
    # Nothing is published yet, so the page about installation builds what people install.
    building = {"./dev release"} if page.name == "installation.md" else set()

    assert set(re.findall(r"\./dev [a-z-]+", page.read_text())) - building <= SETUP


def test_the_indexes_lead_to_every_page() -> None:
    linked = {
        (index.parent / file).resolve() for index in INDEXES for file, _ in LINK.findall(index.read_text())
    }
    led_to = {*linked, *INDEXES, ROOT / "README.md"}

    assert [names(page) for page in PAGES if not led_to & {page, page.parent}] == []


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
