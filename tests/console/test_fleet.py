"""The fleet page, and the page of one scope."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.console.pages import fleet
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.model import ScopeKind
from fairwarning.core.policy import Policy
from fairwarning.engine.faults import ActiveFault
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, text

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
APP = Blueprint(name="app", count=2, kind=ScopeKind.AVAILABILITY_SET)
HOSTILE = "<script>alert(1)</script>"


def tiles(page: str) -> dict[str, str]:
    """Return the machines on the map, each with the CSS classes of its state."""
    links = ParsedPage(page, "a").attributes
    return {
        element["href"].rpartition("/")[2]: element["class"]
        for element in links
        if "tile" in element.get("class", "")
    }


def test_every_machine_is_on_the_map_under_its_domains() -> None:
    page = console_client(WEB, APP).page("/")

    assert list(tiles(page)) == ["web_0", "web_1", "web_2", "app-0", "app-1"]
    words = text(page)
    assert "UD 0 UD 1 UD 2 FD 0 ● web_0 running FD 1 ● web_1 running FD 2 ● web_2 running" in words
    assert "web scale set ◉ polled 2026-11-16 12:00:00Z ● 3 running" in words
    assert "app availability set ◉ polled 2026-11-16 12:00:00Z ● 2 running" in words


@pytest.mark.parametrize(
    ("happens", "state", "symbol"),
    [
        pytest.param(lambda client: None, "running", "●", id="nothing"),
        pytest.param(lambda client: client.stage.cause("restart", "web_0"), "warned", "▲", id="a warning"),
        pytest.param(
            lambda client: client.stage.approve(*client.stage.cause("restart", "web_0"), by="web_0"),
            "rebooting", "↻", id="a restart",
        ),
        pytest.param(
            lambda client: client.stage.approve(*client.stage.cause("freeze", "web_0"), by="web_0"),
            "frozen", "‖", id="a freeze",
        ),
        pytest.param(
            lambda client: client.stage.cause("hardware-failure", "web_0"), "moving", "→", id="a move"
        ),
        pytest.param(lambda client: client.stage.stop("web_0"), "stopped", "○", id="a stop"),
    ],
)  # fmt: skip
def test_a_state_has_a_colour_a_symbol_and_a_word(
    happens: Callable[[ConsoleTestClient], None], state: str, symbol: str
) -> None:
    client = console_client(WEB)

    happens(client)

    page = client.page("/")
    assert tiles(page)["web_0"] == f"tile is-{state}"
    assert f"{symbol} web_0 {state}" in text(page)


def test_a_scope_shows_whether_it_is_polled() -> None:
    client = console_client(WEB)
    client.stage.make(APP, watched=False)
    client.stage.advance("10m")
    client.stage.poll("web_1")

    words = text(client.page("/"))

    assert "web scale set ◉ polled 2026-11-16 12:10:00Z" in words
    assert "app availability set ◌ not polled" in words
    assert "1 of 2 scopes enabled" in words


def test_a_scope_that_is_enabled_without_a_poll_is_not_said_to_be_polled() -> None:
    client = console_client(WEB, APP, watched=False, policy=Policy(start_enabled=True))
    client.stage.advance("10m")
    client.stage.poll("web_1")

    words = text(client.page("/"))

    assert "web scale set ◉ polled 2026-11-16 12:10:00Z" in words
    assert "app availability set ◉ enabled ●" in words
    assert "Scope polled not since it was enabled" in text(client.page("/machines/app-0"))


def test_a_spot_machine_is_called_one() -> None:
    client = console_client(Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True), DB)

    words = text(client.page("/"))

    assert "batch Spot VM" in words
    assert "db VM" in words
    assert "Kind Spot VM" in text(client.page("/scopes/batch"))


def test_a_fault_of_an_endpoint_is_on_the_map() -> None:
    client = console_client(WEB)
    fault = ActiveFault(EndpointFault.TOO_MANY, float("inf"))
    client.stage.engine.faults.put(client.stage.ref("web_1"), fault)

    assert "web_1 running fault 429" in text(client.page("/"))


def test_pending_events_are_one_link_away() -> None:
    client = console_client(WEB)
    client.stage.cause("restart", "web_0")

    page = client.page("/")

    assert "1 pending event" in text(page)
    assert "/events?scope=web" in page


def test_an_empty_fleet_says_what_to_do_first() -> None:
    page = console_client().page("/")

    assert "No machines yet" in text(page)
    assert "/create" in [element["href"] for element in ParsedPage(page, "a").attributes]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param("web_1", ["web_1"], id="a name"),
        pytest.param("WEB_1", ["web_1"], id="a name in capitals"),
        pytest.param("app", ["app-0", "app-1"], id="a scope"),
        pytest.param("warned", ["web_0"], id="a state"),
        pytest.param("host-web-2", ["web_2"], id="a host"),
        pytest.param("spot", ["batch"], id="a kind of machine"),
        pytest.param("team=blue", ["app-0", "app-1"], id="a tag"),
        pytest.param("+", ["web_0", "web_1", "web_2", "app-0", "app-1", "batch"], id="nothing but space"),
    ],
)
def test_machines_are_found_by_what_people_know_of_them(asked: str, found: list[str]) -> None:
    blue = Blueprint(name="app", count=2, kind=ScopeKind.AVAILABILITY_SET, tags=(("team", "blue"),))
    client = console_client(WEB, blue, Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True))
    client.stage.cause("restart", "web_0")

    assert list(tiles(client.page(f"/?q={asked}"))) == found


def test_what_is_not_found_is_said_as_text() -> None:
    page = console_client(WEB).page(f"/?q={HOSTILE}")

    assert HOSTILE not in page
    assert f"No machine matches “{HOSTILE}”" in text(page)
    assert HOSTILE in [element.get("value") for element in ParsedPage(page, "input").attributes]


# -- many


def test_many_machines_have_symbols_in_place_of_names() -> None:
    page = console_client(Blueprint(name="big", count=fleet.MOST_NAMED + 1)).page("/")

    assert 'class="map compact"' in page
    assert "UD 0, FD 0" in text(page)
    assert len(tiles(page)) == fleet.MOST_NAMED + 1


def test_very_many_machines_are_counted_scope_by_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MANY", 9)
    client = console_client(Blueprint(name="one", count=5), Blueprint(name="two", count=5))
    client.stage.cause("restart", "two_0")

    page = client.page("/")

    assert not tiles(page)
    assert "10 machines ● 9 running ▲ 1 warned" in text(page)
    assert "● 4 running ▲ 1 warned 1 pending event" in text(page)
    assert "UD 0 ▲ 1 warned UD 1 ● 1 running" in text(page)
    assert list(tiles(client.page("/?q=two_3"))) == ["two_3"]


def test_a_large_scope_is_shown_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "PAGE_SIZE", 4)
    client = console_client(Blueprint(name="big", count=10))

    page = client.page("/scopes/big?from=4")

    assert sorted(tiles(page)) == ["big_4", "big_5", "big_6", "big_7"]
    assert "1–4 5–8 9–10" in text(page)


@pytest.mark.parametrize("start", ["-1", "99", "x", "1e3", "9" * 30, "²"])
def test_a_page_that_does_not_exist_is_the_first(start: str) -> None:
    assert "web_0" in tiles(console_client(WEB).page(f"/scopes/web?from={start}"))


# -- one scope


def test_the_page_of_a_scope_tells_about_it() -> None:
    client = console_client(Blueprint(name="web", count=3, broadcast=False))
    client.stage.cause("restart", "web_0")

    words = text(client.page("/scopes/web"))

    assert "Guests see their own events" in words
    assert "Document incarnation 2" in words
    assert "Reboot of web_0: not before 2026-11-16 12:15:00Z" in words


@pytest.mark.rule("T-06")
@pytest.mark.parametrize(
    ("blueprint", "offered"),
    [
        pytest.param(WEB, True, id="a set that has none"),
        pytest.param(replace(WEB, terminate_notice=timedelta(minutes=5)), False, id="a set that has one"),
        pytest.param(replace(WEB, spot=True), False, id="a set that can have none"),
        pytest.param(replace(APP, name="web"), False, id="machines that are no scale set"),
    ],
)
def test_the_page_of_a_set_says_how_az_gives_it_the_notification(blueprint: Blueprint, offered: bool) -> None:
    words = text(console_client(blueprint).page("/scopes/web"))

    assert ("az vmss update --resource-group fairwarning --name web" in words) is offered


def test_a_scope_in_a_zone_and_a_group_has_a_page() -> None:
    client = console_client(Blueprint(name="web", group="prod", zones=("1", "2"), count=2), watched=False)

    page = client.page("/")

    assert "/scopes/prod/web.zone1" in page
    assert "zone 1" in text(client.page("/scopes/prod/web.zone1"))


@pytest.mark.parametrize("path", ["/", "/scopes/web"])
def test_a_name_of_an_element_is_given_once(path: str) -> None:
    client = console_client(WEB, APP)
    client.stage.cause("restart", "web_0")

    ids = re.findall(r'\bid="([^"]*)"', client.page(path))

    assert len(ids) == len(set(ids))
