"""axe: accessibility problems of a page in the browser."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

from playwright.sync_api import Page

from fairwarning.core.document.render import Json

AXE = Path(__file__).with_name("axe.min.js")

#: The severities of axe that fail the test.
SEVERE = ("serious", "critical")

RUN_AXE = """async (options) => (await axe.run({...options, resultTypes: ["violations"]})).violations.map(
    ({id, impact, nodes}) => ({id, impact, where: nodes.map(({target}) => target.join(" "))}))"""

Theme = Literal["light", "dark"]

#: Themes differ only in colours, so the other rules run once.
THEMES: Mapping[Theme, Json] = {"light": {}, "dark": {"runOnly": ["color-contrast", "link-in-text-block"]}}


class Violation(TypedDict):
    """A violation that axe reports."""

    id: str
    impact: str
    where: list[str]


#: The result for a page without problems.
FINE: Mapping[Theme, list[Violation]] = {"light": [], "dark": []}


def violations(page: Page) -> dict[Theme, list[Violation]]:
    """Return the severe violations of a page, in each theme."""
    # The pages' security policy forbids other scripts, so axe is evaluated from outside the page.
    page.evaluate(AXE.read_text())
    severe: dict[Theme, list[Violation]] = {}
    for theme, options in THEMES.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        reported: list[Violation] = page.evaluate(RUN_AXE, options)
        severe[theme] = [violation for violation in reported if violation["impact"] in SEVERE]
    return severe
