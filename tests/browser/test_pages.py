"""Every page in a browser: no errors, no accessibility problems, and a screenshot in the guide."""

import re
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.routing import Match, Route

from fairwarning.console.app import FILES as STATIC
from fairwarning.console.pages.routes import PAGES
from tests.browser.axe import FINE, violations
from tests.browser.chromium import OpenTab
from tests.browser.scene import FLEET, PAGE_PATHS, Scene, prepare_scene
from tests.browser.screenshots import FOLDER, PHONE, SHOWN
from tests.cli.server import Server, up

HERE = Path(__file__).parent
VENDORED = tomllib.loads((HERE / "VENDORED.toml").read_text())
FILES = {file: known["sha256"] for entry in VENDORED.values() for file, known in entry["files"].items()}
GUIDE = FOLDER.parent / "guides" / "console.md"

#: Paths that are downloads, not pages.
DOWNLOADS = {"/scopes/{name:path}/timeline.svg", "/history.csv", "/history.json"}

#: The largest size of a screenshot, and of all together.
MOST_BYTES, MOST_BYTES_TOGETHER = 150_000, 2_000_000


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with up(tmp_path_factory.mktemp("up"), *FLEET) as server:
        yield prepare_scene(server)


@pytest.fixture(scope="module")
def server_with_token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks for a token."""
    folder = tmp_path_factory.mktemp("token")
    (folder / "token").write_text("correct horse battery")
    with up(folder, "--no-arm", "--vm", "db", "--token-file", str(folder / "token")) as server:
        yield server


@pytest.mark.slow
def test_axe_finds_nothing_severe_in_light_or_dark(scene: Scene, open_tab: OpenTab) -> None:
    page, found = open_tab("about:blank"), {}

    for name, path in PAGE_PATHS.items():
        page.goto(scene.address(path))
        found[name] = violations(page)

    assert found == dict.fromkeys(PAGE_PATHS, FINE)


def test_the_dark_that_is_chosen_is_the_dark_of_the_system() -> None:
    darks = re.findall(r"color-scheme: dark;(.*?)\}", (STATIC / "console.css").read_text(), re.DOTALL)

    system, chosen = (dark.split() for dark in darks)
    assert system == chosen


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(scene: Scene, open_tab: OpenTab) -> None:
    page, widths = open_tab("about:blank", size=PHONE), {}

    for name, path in PAGE_PATHS.items():
        page.goto(scene.address(path))
        widths[name] = page.evaluate("document.documentElement.scrollWidth")

    assert {name: width for name, width in widths.items() if width > PHONE[0]} == {}


@pytest.mark.slow
def test_the_status_of_an_event_that_waits_for_others_stays_in_its_column(
    tmp_path: Path, open_tab: OpenTab
) -> None:
    with up(
        tmp_path, "--no-arm", "--start-enabled", "--terminate-notice", "10m", "--scale-set", "web=2"
    ) as server:
        approved, _ = (event for name in ("web_0", "web_1") for event in server.cause("delete", name))
        server.tell("approve", approved["id"])

        page = open_tab(f"{server.ready['operator']}/events/{approved['id']}")

        status = page.locator("dd", has_text="waits for 1 other delete")
        assert status.evaluate("column => column.scrollWidth <= column.clientWidth")


@pytest.mark.slow
def test_axe_finds_nothing_severe_on_the_login_page(server_with_token: Server, open_tab: OpenTab) -> None:
    page = open_tab(server_with_token.ready["operator"])

    assert page.title().startswith("Log in")
    assert violations(page) == FINE


@pytest.mark.slow
def test_axe_finds_nothing_severe_on_an_error_page(scene: Scene, open_tab: OpenTab) -> None:
    page = open_tab(scene.address("/machines/nobody"), forgiven="status of 404")

    assert violations(page) == FINE


def test_every_page_has_a_path_in_the_scene() -> None:
    routes = [Route(page.path, _never, methods=["GET"]) for page in PAGES]
    seen = {_first(routes, path) for path in PAGE_PATHS.values()}

    assert {page.path for page in PAGES} - DOWNLOADS == seen


@pytest.mark.parametrize(("name", "suffix"), SHOWN, ids=[f"{name}{suffix}" for name, suffix in SHOWN])
def test_every_page_has_a_screenshot_in_the_guide(name: str, suffix: str) -> None:
    picture = FOLDER / f"{name}{suffix}.png"

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"(../screenshots/{picture.name})" in GUIDE.read_text()


def test_the_screenshots_are_those_of_the_script_and_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}

    assert sizes.keys() == {f"{name}{suffix}.png" for name, suffix in SHOWN}
    assert max(sizes.values()) <= MOST_BYTES
    assert sum(sizes.values()) <= MOST_BYTES_TOGETHER


@pytest.mark.parametrize("file", FILES)
def test_axe_is_unchanged(file: str) -> None:
    assert sha256((HERE / file).read_bytes()).hexdigest() == FILES[file]


async def _never(request: object) -> None:
    raise AssertionError("this route is only matched, never called")


def _first(routes: list[Route], path: str) -> str:
    wanted = {"type": "http", "method": "GET", "path": path.partition("?")[0], "root_path": ""}
    return next(route.path for route in routes if route.matches(wanted)[0] is Match.FULL)
