"""Tasks in the console, in a browser, from the first click to the last."""

import re
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.chromium import TIMEOUT, OpenTab
from tests.browser.scene import machines, poll
from tests.cli.server import Server, free_port, up

expect.set_options(timeout=TIMEOUT)

pytestmark = pytest.mark.slow

FLEET = ("--clock", "manual", "--start-enabled", "--vm", "db", "--vm", "mail", "--vm", "dns", "--vm", "ntp")

#: The flash message of a page.
FLASH = "#main > .flash"

#: How often Tab is pressed before a button counts as unreachable.
MOST_STEPS = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with up(tmp_path_factory.mktemp("up"), *FLEET) as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return server.ready["operator"]


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with the text ``name`` has the focus."""
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"the keyboard does not reach {name}")


def row(kind: str, machine: str) -> str:
    """Return the selector of a pending event in the table."""
    # The whole text: the id of another event may contain the letters of a short name.
    return f"#pending tr:has(a:text-is('{kind}')):has(a:text-is('{machine}'))"


def test_a_set_is_created_with_a_delay_and_a_deleted_instance_is_warned_approved_and_goes(
    server: Server, url: str, open_tab: OpenTab
) -> None:
    page = open_tab(url)
    page.get_by_role("link", name="Create", exact=True).click()
    page.get_by_role("link", name="Scale set").click()
    page.get_by_label("Name").fill("shop")
    page.get_by_role("button", name="Next: Management").click()
    page.get_by_label("On", exact=True).check()
    page.get_by_label("Termination delay (minutes)").fill("7")
    page.locator("button.main", has_text="Review + create").click()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Created shop with 3 machines.")).to_be_visible()
    poll(next(machine["metadata"] for machine in machines(server) if machine["name"] == "shop_0"))
    page.get_by_role("link", name="shop_1").click()
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("guests have been warned")).to_be_visible()
    page.get_by_role("link", name="Events").click()
    event = page.locator(row("Terminate", "shop_1"))
    expect(event.locator(".countdown")).to_have_text(re.compile("^in 7:0[01]$"))

    server.tell("clock", "advance", "1m")
    expect(event.locator(".countdown")).to_have_text(re.compile("^in 6:0[01]$"))
    event.get_by_role("button", name="Approve").click()
    expect(event).to_contain_text("Started")
    page.get_by_role("link", name="Fleet", exact=True).click()
    gone = page.get_by_role("link", name="shop_1")
    expect(gone).to_contain_text("terminating")
    server.tell("clock", "advance", "1m")

    expect(gone).to_have_count(0)
    expect(page.get_by_role("link", name="shop_2")).to_contain_text("running")


@pytest.mark.story
@pytest.mark.rule("M-08")
def test_a_hold_shows_on_an_open_page_and_the_maintenance_of_a_host_waits_for_it(
    url: str, open_tab: OpenTab
) -> None:
    host, other = open_tab(f"{url}/hosts/host-db-0-0"), open_tab(f"{url}/maintenance")
    banner = host.get_by_text("The fleet is on hold: INC-88")

    other.get_by_label("Reason").fill("INC-88")
    other.get_by_role("button", name="Hold the fleet").click()
    expect(banner).to_be_visible()
    host.get_by_label("Not before").fill("+5h")
    host.get_by_role("button", name="Announce maintenance").click()
    expect(host.get_by_text("hold: INC-88", exact=False).last).to_be_visible()
    host.get_by_role("button", name="End hold").click()
    expect(host.get_by_text("The hold has ended")).to_be_visible()
    host.go_back()

    expect(banner).to_have_count(0)
    host.get_by_role("button", name="Cancel maintenance").click()
    expect(host.get_by_text("withdrawn: cancelled by operator:console")).to_be_visible()


@pytest.mark.story
def test_two_tabs_that_approve_at_once_both_get_an_answer_and_the_event_starts_once(
    server: Server, url: str, open_tab: OpenTab
) -> None:
    first, second = open_tab(f"{url}/machines/db"), open_tab(f"{url}/events")
    held: list[Route] = []
    first.get_by_role("button", name="Restart").click()
    expect(second.locator(row("Reboot", "db"))).to_be_visible()
    first.get_by_role("link", name="Events").click()
    for page in (first, second):
        page.route("**/approve", lambda route: held.append(route))
        with page.expect_request("**/approve"):
            page.locator(row("Reboot", "db")).get_by_role("button", name="Approve").click()
        page.title()  # returns after the request was intercepted

    for route in held:
        route.continue_()

    flashes = [page.locator(FLASH).text_content() or "" for page in (first, second)]
    assert sorted(text.split(" ", 2)[2] for text in flashes) == [
        "approved; it has started.",
        "was already approved by operator:console; it has started.",
    ]
    assert [one["kind"] for one in server.history() if one["resources"] == ["db"]].count("started") == 1


def test_a_button_of_a_page_that_is_out_of_date_is_refused_in_words(
    server: Server, url: str, open_tab: OpenTab
) -> None:
    (event,) = server.cause("restart", "mail")
    page = open_tab(f"{url}/events/{event['id']}", forgiven="status of 4")

    def overtake(route: Route) -> None:
        server.tell("approve", event["id"])
        route.continue_()

    page.route("**/cancel", overtake)

    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("alert")).to_contain_text("Started")
    expect(page.get_by_role("heading", name="Reboot of mail")).to_be_visible()


def test_the_keyboard_reaches_every_button_and_the_focus_is_visible(url: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{url}/machines/dns")

    tab_to(page, "Restart")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")

    assert outline == "solid"
    expect(page.get_by_text("guests have been warned")).to_be_visible()
    expect(page.locator("#machine-events")).to_contain_text("Reboot")


def test_the_first_stop_of_the_keyboard_leads_past_the_menu(url: str, open_tab: OpenTab) -> None:
    page = open_tab(url)

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    page.wait_for_function("document.activeElement.id === 'main'")


@pytest.mark.story
def test_a_machine_is_created_restarted_and_approved_without_scripts(
    server: Server, url: str, open_tab: OpenTab
) -> None:
    page = open_tab(f"{url}/create/vm?name=plain", scripts=False)
    page.locator("button.main", has_text="Review + create").click()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator(FLASH)).to_contain_text("Created plain with 1 machine.")
    poll(next(machine["metadata"] for machine in machines(server) if machine["name"] == "plain"))
    page.get_by_role("link", name="plain").last.click()
    page.get_by_role("button", name="Restart").click()
    page.get_by_role("link", name="Reboot").first.click()

    page.get_by_role("button", name="Approve").click()

    expect(page.locator(FLASH)).to_contain_text("approved; it has started.")
    expect(page.locator("noscript p")).to_be_visible()


def test_a_page_is_live_even_if_its_scripts_come_one_by_one(
    server: Server, url: str, open_tab: OpenTab
) -> None:
    page = open_tab("about:blank")

    def come_late(route: Route) -> None:
        server.tell("vms")
        route.continue_()

    page.route("**/hx-sse.min.js", come_late)

    with page.expect_request("**/live?*"):
        page.goto(url)


def test_what_is_typed_survives_what_happens_meanwhile(server: Server, url: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{url}/machines/ntp")
    page.get_by_label("For").fill("45s")

    server.cause("restart", "ntp")

    expect(page.locator("#machine-events")).to_contain_text("Reboot")
    expect(page.get_by_label("For")).to_have_value("45s")
    expect(page.get_by_label("For")).to_be_focused()


def test_a_search_narrows_the_map_as_one_types(url: str, open_tab: OpenTab) -> None:
    page = open_tab(url)

    page.get_by_role("searchbox").press_sequentially("mail")

    expect(page.locator(".tile")).to_have_count(1)
    expect(page).to_have_url(re.compile("q=mail"))


def test_the_theme_that_was_chosen_is_kept(url: str, open_tab: OpenTab) -> None:
    page = open_tab(url)

    page.get_by_role("button", name="Switch between light and dark").click()
    page.reload()

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_countdown_goes_by_the_servers_clock_whatever_the_browsers_says(
    tmp_path: Path, open_tab: OpenTab
) -> None:
    with up(tmp_path, "--start-enabled", "--vm", "db") as server:
        server.cause("restart", "db")
        page = open_tab("about:blank")
        page.clock.set_system_time("2031-05-05T05:05:05Z")

        page.goto(f"{server.ready['operator']}/events")

        expect(page.locator("#pending .countdown")).to_have_text(re.compile(r"^in 1[45]:\d\d$"))
        page.close()  # a page that outlives its server logs errors


@pytest.mark.story
def test_a_page_says_that_its_server_is_lost_and_then_catches_up_with_nothing_missed(
    tmp_path: Path, open_tab: OpenTab
) -> None:
    arguments = ("--start-enabled", "--vm", "db", "--vm", "mail", "--data", str(tmp_path / "data"))
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    address = f"127.0.0.1:{free_port()}"
    with up(before, *arguments, "--operator", address) as server:
        page = open_tab(f"http://{address}/events", forgiven="net::ERR|htmx:sse:error")
        server.cause("restart", "db")
        expect(page.locator(row("Reboot", "db"))).to_be_visible()
        server.stop(SIGKILL)
    connection = page.get_by_role("status").filter(has_text="Reconnecting…")
    expect(connection).to_be_visible()

    with up(after, *arguments, "--operator", address) as server:
        server.cause("redeploy", "mail")
        expect(page.locator(row("Redeploy", "mail"))).to_be_visible()
        expect(connection).to_be_hidden()
        page.locator(row("Reboot", "db")).get_by_role("button", name="Approve").click()

        expect(page.locator(FLASH)).to_contain_text("approved; it has started.")
