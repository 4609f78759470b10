"""Access control, and the security headers of answers."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from fairwarning.console import sessions as console_sessions
from fairwarning.console.access import HEADERS
from fairwarning.console.app import create_app
from fairwarning.console.sessions import LIFETIME, EndedSessions, Sessions
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import PrincipalKind
from fairwarning.core.policy import PERMISSIONS
from tests.conftest import NOON
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, csrf_token, text
from tests.fleet_harness import FleetHarness, run

WEB = Blueprint(name="web", count=2)
TOKEN = "correct horse battery"
SECRET = b"of this process"


def sessions_of(
    token: str | None = TOKEN, now: Callable[[], datetime] = lambda: NOON, secret: bytes = SECRET
) -> Sessions:
    return Sessions(token, now, secret, EndedSessions(Control(FleetHarness().engine)))


def logged_in(client: ConsoleTestClient) -> ConsoleTestClient:
    page = client.page("/login")
    response = client.send("POST", "/login", {"csrf": csrf_token(page), "token": TOKEN})
    assert response.status_code == 303
    return client


# -- without a token, on this machine


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"])
def test_on_loopback_a_name_of_this_machine_needs_no_token(url: str) -> None:
    assert console_client(WEB).send("GET", "/", url=url).status_code == 200


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/live", "/static/console.css", "/login"])
@pytest.mark.parametrize("url", ["http://evil.example:8080", "http://127.0.0.1.evil.example"])
def test_on_loopback_a_name_that_is_not_ours_is_refused(path: str, url: str) -> None:
    assert console_client(WEB).send("GET", path, url=url).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_a_web_page_of_another_site_may_not_press_buttons(origin: str, token: str | None) -> None:
    client = console_client(WEB, token=token)
    if token is not None:
        logged_in(client)
    form = {"csrf": csrf_token(client.page("/machines/web_0")), "cause": "restart"}

    response = client.send("POST", "/machines/web_0/cause", form, headers={"Origin": origin})

    assert response.status_code == 403
    assert client.stage.pending("web") == ()


def test_a_web_page_of_our_own_may() -> None:
    client = console_client(WEB)
    form = {"csrf": csrf_token(client.page("/machines/web_0")), "cause": "restart"}

    response = client.send("POST", "/machines/web_0/cause", form, headers={"Origin": "http://127.0.0.1:8080"})

    assert response.status_code == 303


@pytest.mark.parametrize("given", [{}, {"csrf": ""}, {"csrf": "x" * 64}, {"csrf": "\u00e9"}],
                         ids=["none", "empty", "wrong", "not even ASCII"])  # fmt: skip
def test_a_form_that_does_not_prove_where_it_is_from_does_nothing(given: Mapping[str, str]) -> None:
    client = console_client(WEB)

    response = client.send("POST", "/machines/web_0/cause", {"cause": "restart", **given})

    assert response.status_code == 403
    assert "This form has expired." in text(response.text)
    assert client.stage.pending("web") == ()


def test_the_page_that_refuses_a_form_has_a_form_that_is_good() -> None:
    client = console_client(WEB)
    stale = client.send("POST", "/clock/advance", {"csrf": "of another server", "by": "7m"}).text

    assert 'value="7m"' in stale
    response = client.send("POST", "/clock/advance", {"csrf": csrf_token(stale), "by": "7m"})
    assert response.status_code == 303


def test_what_proves_a_form_is_not_the_same_in_two_servers() -> None:
    assert csrf_token(console_client(WEB).page("/clock")) != csrf_token(console_client(WEB).page("/clock"))


# -- with a token


def test_off_loopback_a_token_must_be_given() -> None:
    with pytest.raises(ValueError, match="needs a token"):
        create_app(Control(FleetHarness(WEB).engine), endpoints=lambda _: None, loopback=False)


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/clock?x=1", "/nothing"])
def test_a_visitor_without_a_session_is_led_to_the_login_and_back(path: str) -> None:
    client = console_client(WEB, token=TOKEN, loopback=False)

    away = client.send("GET", path, url="http://fleet.example")

    assert away.status_code == 303
    page = client.page(away.headers["location"])
    assert [field["value"] for field in ParsedPage(page, "input").attributes if field["name"] == "next"] == [
        path
    ]
    back = client.send("POST", "/login", {"csrf": csrf_token(page), "token": TOKEN, "next": path})
    assert back.headers["location"] == path


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whatever_is_no_browser_is_told_that_a_token_is_needed(method: str) -> None:
    client = console_client(WEB, token=TOKEN)

    response = client.send(method, "/live", headers={"accept": "text/event-stream"})

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_bearer_token_is_accepted_too() -> None:
    client = console_client(WEB, token=TOKEN)

    assert client.send("GET", "/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.send("GET", "/", headers={"authorization": "Bearer wrong"}).status_code == 303


def test_the_session_is_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    client = console_client(WEB, token=TOKEN)

    response = client.send("POST", "/login", {"csrf": csrf_token(client.page("/login")), "token": TOKEN})

    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie
    assert TOKEN not in response.headers["set-cookie"]


def test_behind_https_the_cookie_is_for_https_alone() -> None:
    client = console_client(WEB, token=TOKEN)
    page = client.send("GET", "/login", url="https://fleet.example").text

    response = client.send(
        "POST", "/login", {"csrf": csrf_token(page), "token": TOKEN}, url="https://fleet.example"
    )

    assert "; Secure" in response.headers["set-cookie"]


@pytest.mark.parametrize("given", ["", "wrong", f"{TOKEN}x", "\u00fc"])
def test_a_wrong_token_is_told_in_place(given: str) -> None:
    client = console_client(WEB, token=TOKEN)

    response = client.send("POST", "/login", {"csrf": csrf_token(client.page("/login")), "token": given})

    assert response.status_code == 403
    assert "Wrong token." in text(response.text)
    assert not client.cookies


@pytest.mark.parametrize(
    "onwards",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nb"],
)
def test_a_login_leads_to_no_other_site(onwards: str) -> None:
    client = console_client(WEB, token=TOKEN)

    response = client.send(
        "POST", "/login", {"csrf": csrf_token(client.page("/login")), "token": TOKEN, "next": onwards}
    )

    assert response.headers["location"] == "/"


def test_who_logs_out_is_out_even_with_the_old_cookie() -> None:
    client = logged_in(console_client(WEB, token=TOKEN))
    cookies = dict(client.cookies)

    response = client.press("/logout", "/")

    assert response.headers["location"] == "/login"
    assert not client.cookies
    client.cookies.update(cookies)
    assert client.send("GET", "/").status_code == 303


@pytest.mark.parametrize("foreign", ['prefs={"a": 1}', "a b=1", "just words"])
def test_odd_cookies_of_other_programs_on_this_machine_end_no_session(foreign: str) -> None:
    client = logged_in(console_client(WEB, token=TOKEN))
    ((name, session),) = client.cookies.items()
    client.cookies.clear()

    response = client.send("GET", "/", headers={"cookie": f"{foreign}; {name}={session}"})

    assert response.status_code == 200


def test_a_login_where_none_is_needed_leads_to_the_fleet() -> None:
    assert console_client(WEB).send("GET", "/login").headers["location"] == "/"


@pytest.mark.parametrize("path", ["/", "/machines/web_0", "/clock", "/login"])
def test_no_page_has_the_token_in_it(path: str) -> None:
    client = logged_in(console_client(WEB, token=TOKEN))

    assert TOKEN not in client.page(path)


def test_a_form_of_one_session_is_not_good_in_another() -> None:
    client = logged_in(console_client(WEB, token=TOKEN))
    old = csrf_token(client.page("/clock"))
    logged_in(client)

    response = client.send("POST", "/clock/next", {"csrf": old})

    assert response.status_code == 403


def test_a_session_runs_out() -> None:
    now = NOON
    sessions = sessions_of(now=lambda: now)
    session = sessions.begin()
    known = [sessions.is_valid(session)]

    now = NOON + LIFETIME - timedelta(seconds=1)
    known.append(sessions.is_valid(session))
    now = NOON + LIFETIME
    known.append(sessions.is_valid(session))

    assert known == [True, True, False]


@pytest.mark.parametrize("forged", ["", ".", "9999999999.x.y", "é.é.é"])
def test_a_forged_session_is_not_known(forged: str) -> None:
    assert not sessions_of().is_valid(forged)


def test_a_session_outlives_its_server_but_not_its_token() -> None:
    session = sessions_of().begin()

    assert sessions_of(secret=b"of another process").is_valid(session)
    assert not sessions_of("another").is_valid(session)


def test_a_session_that_was_ended_is_stored_only_while_it_would_last() -> None:
    now, fleet = NOON, FleetHarness()
    sessions = Sessions(TOKEN, lambda: now, SECRET, EndedSessions(Control(fleet.engine)))
    early = sessions.begin()
    run(sessions.end(early))
    ended_early = sessions.is_valid(early)
    now = NOON + LIFETIME
    late = sessions.begin()

    run(sessions.end(late))

    assert not ended_early
    assert not sessions.is_valid(late)
    assert len(fleet.engine.texts()) == 1


def test_no_journal_line_has_a_session_value_in_it() -> None:
    fleet = FleetHarness()
    sessions = Sessions(TOKEN, lambda: NOON, SECRET, EndedSessions(Control(fleet.engine)))
    session = sessions.begin()

    run(sessions.end(session))

    assert "console-session" in str(fleet.journal())
    assert session.rpartition(".")[2] not in str(fleet.journal())


def test_the_console_ends_sessions_with_its_own_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PERMISSIONS, PrincipalKind.PLATFORM, frozenset())
    sessions = sessions_of()
    session = sessions.begin()

    run(sessions.end(session))

    assert not sessions.is_valid(session)


def test_one_ended_session_too_many_ends_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sessions, "MOST_ENDED", 2)
    now, fleet = NOON, FleetHarness()
    sessions = Sessions(TOKEN, lambda: now, SECRET, EndedSessions(Control(fleet.engine)))
    ended, open_ = [sessions.begin() for _ in range(3)], sessions.begin()
    now = NOON + timedelta(minutes=1)

    for session in ended:
        run(sessions.end(session))

    assert not any(map(sessions.is_valid, (*ended, open_)))
    assert sessions.is_valid(sessions.begin())
    assert len(fleet.engine.texts()) == 1


@pytest.mark.parametrize("session", ["", "made.up"], ids=["without a session", "with one that is made up"])
def test_what_a_stranger_is_given_says_nothing_about_the_token(session: str) -> None:
    given = {sessions_of(token).csrf_token(session) for token in (TOKEN, "another")}
    otherwise = sessions_of(secret=b"of another process").csrf_token(session)

    assert len(given) == 1
    assert otherwise not in given


@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_two_servers_on_one_machine_do_not_take_each_others_cookies(token: str | None) -> None:
    first, second = (
        sessions_of(token),
        sessions_of("another", secret=b"of another process"),
    )

    assert not {first.session_cookie, first.flash_cookie} & {second.session_cookie, second.flash_cookie}


# -- security headers


@pytest.mark.parametrize("path", ["/", "/clock", "/nothing", "/static/console.js", "/login"])
@pytest.mark.parametrize("token", [None, TOKEN], ids=["without a token", "with a token"])
def test_every_answer_forbids_what_no_page_of_ours_does(path: str, token: str | None) -> None:
    response = console_client(WEB, token=token).send("GET", path)

    assert {name: response.headers[name] for name in HEADERS} == dict(HEADERS)
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/scopes/web", "/machines/web_0", "/machines/web_0/delete", "/clock"])
def test_no_page_needs_what_is_forbidden(path: str) -> None:
    page = console_client(WEB).page(path)

    assert all("src" in script for script in ParsedPage(page, "script").attributes)
    assert not ParsedPage(page, "style").attributes
    assert " style=" not in page
    assert " onclick=" not in page


def test_pages_are_not_cached_and_files_are_revalidated() -> None:
    client = console_client(WEB)

    assert client.send("GET", "/").headers["cache-control"] == "no-store"
    assert client.send("GET", "/static/console.js").headers["cache-control"] == "no-cache"
