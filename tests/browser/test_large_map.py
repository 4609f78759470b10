"""A thousand machines on one page, without keeping anybody waiting who scrolls or types."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from fairwarning.console.pages.fleet import MANY
from tests.browser.chromium import PATIENCE, OpenTab
from tests.cli.server import Server, up

expect.set_options(timeout=PATIENCE)

#: The longest that a page may be deaf, in milliseconds.
LONGEST = 200

#: The machine may be busy with something else; the page is as quick as at its best.
TRIES = 3

#: Notes how long the page was deaf, from its first moment on.
WATCH = """window.deaf = [];
new PerformanceObserver((list) => window.deaf.push(...list.getEntries()))
    .observe({type: "longtask", buffered: true});"""

#: A task is noted after it is over, once the page has nothing better to do.
ASK = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestIdleCallback(done)));
    return Math.max(0, ...window.deaf.splice(0).map(({duration}) => duration));
}"""

#: How many machines are warned at once.
BLOCK = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with up(
        tmp_path_factory.mktemp("up"), "--start-enabled", "--no-arm", "--scale-set", f"crowd={MANY}"
    ) as server:
        yield server


def longest(page: Page) -> float:
    """Return how long the page was deaf at the most since it was opened or last asked."""
    found: float = page.evaluate(ASK)
    return found


def test_the_page_is_never_deaf_for_long_while_it_loads_or_changes(server: Server, open_tab: OpenTab) -> None:
    page = open_tab("about:blank")
    page.add_init_script(WATCH)
    loads, changes = [], []

    for number in range(TRIES):
        page.goto(f"{server.ready['operator']}/?q=crowd")
        expect(page.locator(".tile")).to_have_count(MANY)
        expect(page.locator("#clock")).to_be_visible()
        loads.append(longest(page))
        server.cause("freeze", *(f"crowd_{number * BLOCK + one}" for one in range(BLOCK)))
        expect(page.locator(".tile.is-warned")).to_have_count((number + 1) * BLOCK)
        changes.append(longest(page))

    assert min(loads) <= LONGEST
    assert min(changes) <= LONGEST


def test_above_a_thousand_machines_are_counted_scope_by_scope(server: Server, open_tab: OpenTab) -> None:
    page = open_tab(f"{server.ready['operator']}/create/vm?name=more")
    page.locator("button.main", has_text="Review + create").click()
    page.get_by_role("button", name="Create", exact=True).click()

    page.get_by_role("link", name="Fleet", exact=True).first.click()

    expect(page.locator("#totals")).to_contain_text("1,001 machines")
    expect(page.locator(".tile")).to_have_count(0)
