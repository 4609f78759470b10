"""Every page has a place in the site, and the reference of the site is complete."""

import re
from pathlib import Path

import pytest

from fairwarning.cli import MODULES
from fairwarning.operator.routes import ROUTES
from tests.pages import ROOT, Page
from tools.site.links import problems
from tools.site.navigation import entries, unlisted
from tools.site.reference.cli import command_line
from tools.site.reference.operator_api import operator_api
from tools.site.reference.scenarios import scenarios
from tools.site.staging import Staging, sources


def headings(page: str) -> list[str]:
    return re.findall(r"^##+ (.*)$", page, re.MULTILINE)


def test_every_page_has_a_place_in_the_navigation_of_the_site() -> None:
    # Place a new page in tools/site/zensical.toml.
    assert unlisted() == []


def test_the_navigation_leads_to_every_place_once() -> None:
    assert sorted(set(entries())) == sorted(entries())


def test_every_page_of_the_repository_is_a_page_of_the_site() -> None:
    roots = {"README.md", *(path.name for path in ROOT.glob("*.md"))}

    assert roots - {"README.md"} <= set(sources())
    assert "docs/index.md" in sources()


def test_the_reference_has_every_command() -> None:
    sections = headings(command_line())

    assert {f"fairwarning {name}" for name in MODULES} <= set(sections)
    assert {"fairwarning db backup", "fairwarning clock advance", "fairwarning agent run"} <= set(sections)


def test_the_reference_has_every_option_with_its_default() -> None:
    (section,) = re.findall(r"^## fairwarning up\n(.*?)^## ", command_line(), re.MULTILINE | re.DOTALL)

    assert "| `--clock [real\\|manual]` | Clock source: real, or manual (see `fairwarning clock`)." in section
    assert "[default: real]" in section


def test_the_reference_has_every_route_and_every_body_that_a_route_names() -> None:
    page = operator_api()

    routes = {f"{route.method} {re.sub(':path', '', route.path)}" for route in ROUTES}
    anchors = {heading.lower() for heading in headings(page)}
    assert routes <= set(headings(page))
    assert set(re.findall(r"\]\(#([a-z]+)\)", page)) <= anchors


def test_the_reference_has_every_part_of_a_scenario() -> None:
    page = scenarios()

    anchors = {heading.lower() for heading in headings(page)}
    assert {"scenario", "fleetspec", "causestep", "keepsrunning"} <= anchors
    assert set(re.findall(r"\]\(#([a-z]+)\)", page)) <= anchors


def test_the_front_page_shows_commands_of_the_readme() -> None:
    shown = {command.text for command in Page("docs/index.md").commands()}

    assert shown
    assert shown <= {command.text for command in Page("README.md").commands()}


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        pytest.param('<a href="gone/">x</a>', "links to gone/", id="a page that does not exist"),
        pytest.param('<a href="#gone">x</a>', "links to #gone", id="a heading that does not exist"),
        pytest.param('<img src="gone.png">', "loads gone.png", id="a picture that does not exist"),
        pytest.param('<script src="https://cdn/x.js"></script>', "another host", id="another host"),
    ],
)
def test_the_build_refuses(tmp_path: Path, html: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(f'<h1 id="top">x</h1><a href="#top">x</a>{html}')

    (found,) = problems(tmp_path)

    assert problem in found


def test_a_link_out_of_the_documentation_leads_to_a_page_with_the_file(tmp_path: Path) -> None:
    staging = Staging(tmp_path)

    text = staging.rewrite("[x](../../examples/embed.py) [y](agent.md#settings)", "docs/guides/hooks.md")

    assert text == "[x](../files/examples/embed.py.md) [y](agent.md#settings)"
    assert (ROOT / "examples/embed.py").read_text() in (tmp_path / "files/examples/embed.py.md").read_text()


def test_a_list_begins_after_an_empty_line() -> None:
    # GitHub shows a list without it, the site does not.
    attached = re.compile(r"^(?![-*|#>\s]|\d+\. ).+\n(?:[-*]|\d+\.) ", re.MULTILINE)
    prose = {path: re.sub(r"^( *`{3,}).*?^\1", "", Page(path).text, flags=re.M | re.S) for path in sources()}

    assert {path: attached.findall(text) for path, text in prose.items() if attached.search(text)} == {}
