"""Requests and forms: the layout around pages, accepted and refused forms, error pages."""

import subprocess
import sys

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairwarning.console.access import HEADERS
from fairwarning.console.layout import MENU
from fairwarning.console.lazy_mount import LazyMount
from fairwarning.console.page import MOST_FIELDS, Fields, parse_fields
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Policy
from tests.console.console_client import ParsedPage, console_client, csrf_token, text
from tests.fleet_harness import run

WEB = Blueprint(name="web", count=3)
HOSTILE = "<script>alert(1)</script>"


# -- the layout


@pytest.mark.parametrize("path", MENU)
def test_every_entry_of_the_menu_leads_somewhere_and_says_where_one_is(path: str) -> None:
    page = console_client(WEB).page(path)

    here = [
        element["href"]
        for element in ParsedPage(page, "a").attributes
        if element.get("aria-current") == "page"
    ]
    assert here[:1] == [path]


def test_a_page_begins_with_a_way_past_the_menu() -> None:
    first, *_ = ParsedPage(console_client(WEB).page("/"), "a").attributes

    assert first["href"] == "#main"


def test_the_layout_shows_how_many_events_are_pending() -> None:
    client = console_client(WEB)
    client.stage.cause("restart", "web_0")
    client.stage.cause("redeploy", "web_1")

    assert "Events 2 pending" in text(client.page("/clock"))


@pytest.mark.parametrize(
    ("manual", "speed", "words"),
    [
        pytest.param(True, 1.0, "UTC manual", id="a manual clock"),
        pytest.param(False, 60.0, "UTC ×60", id="a scaled clock"),
        pytest.param(False, 1.0, "UTC ◐", id="a real clock needs no words"),
    ],
)
def test_the_layout_shows_the_fleets_time_and_how_it_passes(manual: bool, speed: float, words: str) -> None:
    client = console_client(WEB, real_clock=not manual, policy=Policy(speed=speed))

    assert words in text(client.page("/"))


def test_scripts_are_given_the_time_of_the_fleet() -> None:
    client = console_client(WEB)
    client.stage.advance("90s")

    (clock,) = [
        element for element in ParsedPage(client.page("/"), "a").attributes if element.get("id") == "clock"
    ]

    assert clock["data-now"] == "2026-11-16T12:01:30.000Z"
    assert clock["data-mode"] == "manual"


@pytest.mark.parametrize("name", ["console.css", "console.js", "theme.js", "htmx.min.js", "icon.svg"])
def test_files_are_served(name: str) -> None:
    assert console_client(WEB).send("GET", f"/static/{name}").status_code == 200


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/VENDORED"])
def test_nothing_but_files_is_served_there(path: str) -> None:
    assert console_client(WEB).send("GET", path).status_code == 404


# -- forms


def test_a_flash_message_is_shown_once() -> None:
    client = console_client(WEB)

    first = client.accepted("/clock/advance", "/clock", by="5m")

    assert "The clock was advanced by 5m." in text(first)
    assert "The clock was advanced" not in text(client.page("/clock"))


def test_a_flash_message_is_shown_as_text() -> None:
    client = console_client(WEB)
    client.press("/clock/advance", "/clock", by="5m")
    (flash,) = client.cookies
    client.cookies[flash] = "%3Cscript%3Ealert(1)%3C/script%3E"

    page = client.page("/")

    assert HOSTILE not in page
    assert HOSTILE in text(page)


def test_what_is_refused_is_told_next_to_its_field_and_nothing_is_lost() -> None:
    client = console_client(WEB)

    page = client.refused("/clock/advance", "/clock", by=HOSTILE, status=422)

    assert HOSTILE not in page
    (field,) = [element for element in ParsedPage(page, "input").attributes if element.get("id") == "by"]
    assert field["value"] == HOSTILE
    assert field["aria-invalid"] == "true"
    assert "invalid duration" in text(page)


def test_a_page_that_refuses_a_form_stays_live_at_its_own_address() -> None:
    page = console_client(WEB).refused("/machines/web_0/cause", cause="explode", status=422)

    assert "/live?page=%2Fmachines%2Fweb_0&amp;" in page


@pytest.mark.parametrize(
    ("form", "status"),
    [
        pytest.param({"by": "x" * 70_000}, 413, id="too large"),
        pytest.param({str(number): "" for number in range(MOST_FIELDS + 1)}, 422, id="too many fields"),
    ],
)
def test_a_form_that_no_page_of_ours_has_is_refused(form: dict[str, str], status: int) -> None:
    client = console_client(WEB)

    response = client.send("POST", "/clock/advance", {"csrf": csrf_token(client.page("/clock")), **form})

    assert response.status_code == status


def test_a_query_with_too_many_fields_is_refused_before_the_login() -> None:
    client = console_client(WEB, token="correct horse battery", loopback=False)

    page = client.page(f"/login?{'&' * 2_000}", status=422)

    assert f"has more than {MOST_FIELDS} fields" in text(page)


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        pytest.param("a=1&b=2&a=3", (("a", "1"), ("b", "2"), ("a", "3")), id="in order, with repeated names"),
        pytest.param("a=", (("a", ""),), id="with empty values"),
        pytest.param("a=%ff", (("a", "\ufffd"),), id="even if it is no text"),
        pytest.param("", (), id="or nothing at all"),
    ],
)
def test_a_form_is_read_as_it_was_sent(body: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_fields(body) == Fields(pairs)


def test_values_of_a_form_are_read_without_surrounding_space() -> None:
    form = parse_fields("a=+1+&a=2&b=")

    assert form.get("a") == "1"
    assert form.all("a") == ("1", "2")
    assert "b" in form
    assert form.get("c", "default") == "default"
    assert form
    assert not Fields()


# -- refusals and failures


@pytest.mark.parametrize("path", ["/nothing", "/machines/nobody", "/scopes/nowhere", f"/machines/{HOSTILE}"])
def test_what_is_not_there_is_told_in_words(path: str) -> None:
    page = console_client(WEB).page(path, status=404)

    assert HOSTILE not in page
    assert "Back to the fleet" in text(page)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/"), ("DELETE", "/clock"), ("GET", "/clock/advance"), ("GET", "/logout")]
)
def test_what_is_asked_the_wrong_way_is_refused(method: str, path: str) -> None:
    assert console_client(WEB).send(method, path).status_code == 405


def test_a_failure_tells_nothing_and_is_as_guarded_as_any_page() -> None:
    def broken(_: MachineRef) -> str | None:
        raise RuntimeError("secret")

    response = console_client(WEB, endpoints=broken).send("GET", "/machines/web_0")

    assert response.status_code == 500
    assert "secret" not in response.text
    assert "The server failed" in text(response.text)
    assert {name: response.headers[name] for name in HEADERS} == dict(HEADERS)


# -- next to the operator API


def _says(word: str) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(word)(scope, receive, send)

    return app


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/fleet/v1/machines", "api"),
        ("/healthz", "api"),
        ("/readyz", "api"),
        ("/metrics", "api"),
        ("/", "console"),
        ("/fleet", "console"),
        ("/machines/web_0", "console"),
    ],
)
def test_the_console_has_what_the_operator_api_has_not(path: str, answered: str) -> None:
    both = LazyMount(_says("api"), lambda: _says("console"))
    sent: list[bytes] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        sent.append(body)

    run(both({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send))

    assert b"".join(sent) == answered.encode()


def test_the_console_is_loaded_with_its_first_visitor_and_once() -> None:
    loaded: list[str] = []

    def load() -> ASGIApp:
        loaded.append("console")
        return _says("console")

    both = LazyMount(_says("api"), load)

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        return

    for path, times in {"/healthz": 0, "/": 1, "/clock": 1}.items():
        run(both({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send))
        assert len(loaded) == times


def test_starting_a_server_loads_nothing_that_only_pages_need() -> None:
    program = "import sys, fairwarning.server, fairwarning.console.lazy_mount; print('jinja2' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"
