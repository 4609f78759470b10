"""Who may come in, and what their browsers are told."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from fairwarning.console.access import HEADERS
from fairwarning.console.app import create_app
from fairwarning.console.sessions import LIFE, Sessions
from fairwarning.core.blueprint import Blueprint
from tests.conftest import NOON
from tests.console.console_client import Found, Lobby, lobby, proof, text
from tests.fleet_harness import FleetHarness

WEB = Blueprint(name="web", count=2)
TOKEN = "correct horse battery"
SECRET = b"of this process"


def logged_in(desk: Lobby) -> Lobby:
    page = desk.page("/login")
    response = desk.send("POST", "/login", {"csrf": proof(page), "token": TOKEN})
    assert response.status_code == 303
    return desk


# -- without a token, on this machine


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"])
def test_on_loopback_a_name_of_this_machine_needs_no_token(url: str) -> None:
    assert lobby(WEB).send("GET", "/", url=url).status_code == 200


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/live", "/static/console.css", "/login"])
@pytest.mark.parametrize("url", ["http://evil.example:8080", "http://127.0.0.1.evil.example"])
def test_on_loopback_a_name_that_is_not_ours_is_refused(path: str, url: str) -> None:
    assert lobby(WEB).send("GET", path, url=url).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_a_web_page_of_another_site_may_not_press_buttons(origin: str, token: str | None) -> None:
    desk = lobby(WEB, token=token)
    if token is not None:
        logged_in(desk)
    form = {"csrf": proof(desk.page("/machines/web_0")), "cause": "restart"}

    response = desk.send("POST", "/machines/web_0/cause", form, headers={"Origin": origin})

    assert response.status_code == 403
    assert desk.stage.pending("web") == ()


def test_a_web_page_of_our_own_may() -> None:
    desk = lobby(WEB)
    form = {"csrf": proof(desk.page("/machines/web_0")), "cause": "restart"}

    response = desk.send("POST", "/machines/web_0/cause", form, headers={"Origin": "http://127.0.0.1:8080"})

    assert response.status_code == 303


@pytest.mark.parametrize("given", [{}, {"csrf": ""}, {"csrf": "x" * 64}, {"csrf": "\u00e9"}],
                         ids=["none", "empty", "wrong", "not even ASCII"])  # fmt: skip
def test_a_form_that_does_not_prove_where_it_is_from_does_nothing(given: Mapping[str, str]) -> None:
    desk = lobby(WEB)

    response = desk.send("POST", "/machines/web_0/cause", {"cause": "restart", **given})

    assert response.status_code == 403
    assert "please press again" in text(response.text)
    assert desk.stage.pending("web") == ()


def test_the_page_that_refuses_a_form_has_a_form_that_is_good() -> None:
    desk = lobby(WEB)
    stale = desk.send("POST", "/clock/advance", {"csrf": "of another server", "by": "7m"}).text

    assert 'value="7m"' in stale
    response = desk.send("POST", "/clock/advance", {"csrf": proof(stale), "by": "7m"})
    assert response.status_code == 303


def test_what_proves_a_form_is_not_the_same_in_two_servers() -> None:
    assert proof(lobby(WEB).page("/clock")) != proof(lobby(WEB).page("/clock"))


# -- with a token


def test_off_loopback_a_token_must_be_given() -> None:
    with pytest.raises(ValueError, match="needs a token"):
        create_app(FleetHarness(WEB).engine, endpoints=lambda _: None, loopback=False)


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/clock?x=1", "/nothing"])
def test_a_visitor_without_a_session_is_led_to_the_login_and_back(path: str) -> None:
    desk = lobby(WEB, token=TOKEN, loopback=False)

    away = desk.send("GET", path, url="http://fleet.example")

    assert away.status_code == 303
    page = desk.page(away.headers["location"])
    assert [one["value"] for one in Found(page, "input").attributes if one["name"] == "next"] == [path]
    back = desk.send("POST", "/login", {"csrf": proof(page), "token": TOKEN, "next": path})
    assert back.headers["location"] == path


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whatever_is_no_browser_is_told_that_a_token_is_needed(method: str) -> None:
    desk = lobby(WEB, token=TOKEN)

    response = desk.send(method, "/live", headers={"accept": "text/event-stream"})

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_bearer_token_opens_the_door_too() -> None:
    desk = lobby(WEB, token=TOKEN)

    assert desk.send("GET", "/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert desk.send("GET", "/", headers={"authorization": "Bearer wrong"}).status_code == 303


def test_the_session_is_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    desk = lobby(WEB, token=TOKEN)

    response = desk.send("POST", "/login", {"csrf": proof(desk.page("/login")), "token": TOKEN})

    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie
    assert TOKEN not in response.headers["set-cookie"]


def test_behind_https_the_cookie_is_for_https_alone() -> None:
    desk = lobby(WEB, token=TOKEN)
    page = desk.send("GET", "/login", url="https://fleet.example").text

    response = desk.send("POST", "/login", {"csrf": proof(page), "token": TOKEN}, url="https://fleet.example")

    assert "; Secure" in response.headers["set-cookie"]


@pytest.mark.parametrize("given", ["", "wrong", f"{TOKEN}x", "\u00fc"])
def test_a_wrong_token_is_told_in_place(given: str) -> None:
    desk = lobby(WEB, token=TOKEN)

    response = desk.send("POST", "/login", {"csrf": proof(desk.page("/login")), "token": given})

    assert response.status_code == 403
    assert "this is not the token" in text(response.text)
    assert not desk.cookies


@pytest.mark.parametrize(
    "onwards",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nb"],
)
def test_a_login_leads_to_no_other_site(onwards: str) -> None:
    desk = lobby(WEB, token=TOKEN)

    response = desk.send(
        "POST", "/login", {"csrf": proof(desk.page("/login")), "token": TOKEN, "next": onwards}
    )

    assert response.headers["location"] == "/"


def test_who_logs_out_is_out_even_with_the_old_cookie() -> None:
    desk = logged_in(lobby(WEB, token=TOKEN))
    cookies = dict(desk.cookies)

    response = desk.press("/logout", "/")

    assert response.headers["location"] == "/login"
    assert not desk.cookies
    desk.cookies.update(cookies)
    assert desk.send("GET", "/").status_code == 303


@pytest.mark.parametrize("foreign", ['prefs={"a": 1}', "a b=1", "just words"])
def test_odd_cookies_of_other_programs_on_this_machine_end_no_session(foreign: str) -> None:
    desk = logged_in(lobby(WEB, token=TOKEN))
    ((name, session),) = desk.cookies.items()
    desk.cookies.clear()

    response = desk.send("GET", "/", headers={"cookie": f"{foreign}; {name}={session}"})

    assert response.status_code == 200


def test_a_login_where_none_is_needed_leads_to_the_fleet() -> None:
    assert lobby(WEB).send("GET", "/login").headers["location"] == "/"


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/clock", "/login"])
def test_no_page_has_the_token_in_it(path: str) -> None:
    desk = logged_in(lobby(WEB, token=TOKEN))

    assert TOKEN not in desk.page(path)


def test_a_form_of_one_session_is_not_good_in_another() -> None:
    desk = logged_in(lobby(WEB, token=TOKEN))
    old = proof(desk.page("/clock"))
    logged_in(desk)

    response = desk.send("POST", "/clock/next", {"csrf": old})

    assert response.status_code == 403


def test_a_session_runs_out() -> None:
    now = NOON
    sessions = Sessions(TOKEN, lambda: now, SECRET)
    session = sessions.begin()
    known = [sessions.known(session)]

    now = NOON + LIFE - timedelta(seconds=1)
    known.append(sessions.known(session))
    now = NOON + LIFE
    known.append(sessions.known(session))

    assert known == [True, True, False]


@pytest.mark.parametrize("forged", ["", ".", "9999999999.x.y", "é.é.é"])
def test_a_forged_session_is_not_known(forged: str) -> None:
    assert not Sessions(TOKEN, lambda: NOON, SECRET).known(forged)


def test_a_session_outlives_its_server_but_not_its_token() -> None:
    session = Sessions(TOKEN, lambda: NOON, SECRET).begin()

    assert Sessions(TOKEN, lambda: NOON, b"of another process").known(session)
    assert not Sessions("another", lambda: NOON, SECRET).known(session)


def test_a_session_that_was_ended_is_remembered_only_while_it_would_last() -> None:
    now = NOON
    sessions = Sessions(TOKEN, lambda: now, SECRET)
    early = sessions.begin()
    sessions.end(early)
    now = NOON + LIFE
    late = sessions.begin()

    sessions.end(late)

    now = NOON
    assert sessions.known(early), "what has run out need not be remembered"
    assert not sessions.known(late)


@pytest.mark.parametrize("session", ["", "made.up"], ids=["without a session", "with one that is made up"])
def test_what_a_stranger_is_given_says_nothing_about_the_token(session: str) -> None:
    given = {Sessions(token, lambda: NOON, SECRET).proof(session) for token in (TOKEN, "another")}
    otherwise = Sessions(TOKEN, lambda: NOON, b"of another process").proof(session)

    assert len(given) == 1
    assert otherwise not in given


@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_two_servers_on_one_machine_do_not_take_each_others_cookies(token: str | None) -> None:
    one, other = (
        Sessions(token, lambda: NOON, SECRET),
        Sessions("another", lambda: NOON, b"of another process"),
    )

    assert not {one.cookie, one.said} & {other.cookie, other.said}


# -- what browsers are told


@pytest.mark.parametrize("path", ["/", "/clock", "/nothing", "/static/console.js", "/login"])
@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_every_answer_forbids_what_no_page_of_ours_does(path: str, token: str | None) -> None:
    response = lobby(WEB, token=token).send("GET", path)

    assert {name: response.headers[name] for name in HEADERS} == dict(HEADERS)
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/scopes/web", "/machines/web_0", "/machines/web_0/delete", "/clock"])
def test_no_page_needs_what_is_forbidden(path: str) -> None:
    page = lobby(WEB).page(path)

    assert all("src" in script for script in Found(page, "script").attributes)
    assert not Found(page, "style").attributes
    assert " style=" not in page
    assert " onclick=" not in page


def test_pages_are_kept_by_nobody_and_files_only_as_long_as_they_are_asked_about() -> None:
    desk = lobby(WEB)

    assert desk.send("GET", "/").headers["cache-control"] == "no-store"
    assert desk.send("GET", "/static/console.js").headers["cache-control"] == "no-cache"
