"""The documentation site in a browser: wide and narrow, light and dark."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.axe import FINE, violations
from tests.browser.chromium import TIMEOUT, OpenTab
from tests.browser.screenshots import PHONE, WIDE
from tools.site.__main__ import build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

expect.set_options(timeout=TIMEOUT)

#: A page of each kind: front page, guide, reference, generated reference, wide tables, a file, a list.
PAGES = (
    "",
    "guides/run-it-for-a-fleet/",
    "guides/write-a-handler/",
    "reference/configuration/",
    "reference/command-line/",
    "reference/operator-api/",
    "rules/",
    "files/examples/embed.py/",
    "decisions/",
)
SIZES = [pytest.param(WIDE, id="wide"), pytest.param(PHONE, id="narrow")]

#: Elements that stick out of the page, unless they scroll by themselves.
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter((element) =>
    element.getBoundingClientRect().right > innerWidth + 1 &&
    !element.closest("pre, .md-typeset__scrollwrap, .md-typeset__table, code, [hidden]")
).map((element) => element.outerHTML.slice(0, 80))"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link or a page without a place would end the build."""
    site = tmp_path_factory.mktemp("site") / "site"
    build(site)
    return site


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_severe_in_light_or_dark(
    site: str, open_tab: OpenTab, size: tuple[int, int]
) -> None:
    page, found = open_tab("about:blank", size=size), {}

    for path in PAGES:
        page.goto(site + path)
        found[path] = violations(page)

    assert found == dict.fromkeys(PAGES, FINE)


def test_no_page_is_wider_than_a_phone(folder: Path, site: str, open_tab: OpenTab) -> None:
    page, wide, sticking_out = open_tab("about:blank", size=PHONE), [], {}

    for file in sorted(folder.rglob("index.html")):
        path = f"{file.parent.relative_to(folder).as_posix()}/"
        page.goto(site + path)
        if page.evaluate("document.documentElement.scrollWidth") > PHONE[0]:
            wide.append(path)
        if elements := page.evaluate(STICKING_OUT):
            sticking_out[path] = elements

    assert wide == []
    assert sticking_out == {}


def test_pages_ask_their_own_host_alone(site: str, open_tab: OpenTab) -> None:
    page, urls = open_tab("about:blank"), list[str]()
    page.on("request", lambda request: urls.append(request.url))

    for path in PAGES:
        page.goto(site + path)
        page.wait_for_load_state("networkidle")

    assert len(urls) > len(PAGES)
    assert [url for url in urls if not url.startswith((site, "data:"))] == []


@pytest.mark.parametrize("size", SIZES)
def test_the_search_finds_a_page(site: str, open_tab: OpenTab, size: tuple[int, int]) -> None:
    page = open_tab(site, size=size)

    page.locator(".md-search__button:visible, label[for=__search]:visible").first.click()
    page.get_by_role("combobox", name="Search").press_sequentially("coordination takeover")
    page.get_by_role("option").first.click()

    expect(page).to_have_url(re.compile(rf"^{site}guides/agent/"))


def test_the_theme_that_was_chosen_is_kept(site: str, open_tab: OpenTab) -> None:
    page = open_tab(site)
    page.emulate_media(color_scheme="light")

    page.get_by_title("Switch to light mode").click()
    page.get_by_title("Switch to dark mode").click()
    page.goto(f"{site}rules/")

    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"


def test_a_copied_session_has_neither_prompts_nor_output(site: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{site}guides/run-it-for-a-fleet/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".language-console", has_text="curl --interface 127.0.1.4").first

    block.hover()
    block.get_by_title("Copy to clipboard").click()

    copied = page.evaluate("navigator.clipboard.readText()").strip().splitlines()
    assert [line.split()[0] for line in copied] == ["cd", "curl"]


def test_a_picture_of_the_console_is_dark_in_the_dark(site: str, open_tab: OpenTab) -> None:
    page = open_tab(site)

    page.emulate_media(color_scheme="dark")

    expect(page.locator("article img:visible")).to_have_attribute("src", re.compile("fleet-dark.png"))


def test_the_site_is_small(folder: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in folder.rglob("*") if file.is_file()}

    assert sum(sizes.values()) < 15_000_000
    assert sizes["search.json"] < 1_500_000
