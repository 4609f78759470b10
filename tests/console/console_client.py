"""A client of the console over an in-memory fleet: every page is one call."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import httpx2
from starlette.applications import Starlette

from fairwarning.console.app import create_app
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Policy
from fairwarning.engine.clock import SystemClock
from fairwarning.engine.engine import Engine
from tests.asgi import ask
from tests.fleet_harness import NOON, FleetHarness, run

URL = "http://127.0.0.1:8080"


def address(ref: MachineRef) -> str | None:
    """Return the metadata URL of a machine; the machine called elsewhere has none."""
    return None if ref.name == "elsewhere" else f"http://127.0.0.1:8101/{ref.name}"


@dataclass(slots=True)
class ConsoleTestClient:
    """Uses the console like a browser without scripts; keeps its cookies."""

    stage: FleetHarness
    app: Starlette
    shutdown: asyncio.Event
    cookies: dict[str, str] = field(default_factory=dict)

    def send(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        url: str = URL,
    ) -> httpx2.Response:
        """Send one request and return the response, whatever its status; redirects are not followed."""
        lines = {"accept": "text/html", **(headers or {})}
        if form is not None:
            lines["content-type"] = "application/x-www-form-urlencoded"
        if self.cookies:
            lines["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        content = b"" if form is None else urlencode(form).encode()
        response = run(ask(self.app, method, f"{url}{path}", lines, content, failing=True))
        for cookie in response.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(cookie).items():
                self.cookies[name] = morsel.value
                if morsel["max-age"] == "0":
                    del self.cookies[name]
        return response

    def page(self, path: str, status: int = 200) -> str:
        """Return a page."""
        response = self.send("GET", path)
        assert response.status_code == status, response.text
        return response.text

    def press(self, path: str, page: str | None = None, **form: str) -> httpx2.Response:
        """Send a form with the CSRF token of ``page``."""
        html = self.page("/clock" if page is None else page)
        return self.send("POST", path, {"csrf": csrf_token(html), **form})

    def accepted(self, path: str, page: str | None = None, **form: str) -> str:
        """Send a form that is accepted, and return the page to which it redirects."""
        response = self.press(path, page, **form)
        assert response.status_code == 303, response.text
        return self.page(response.headers["location"])

    def refused(self, path: str, page: str | None = None, *, status: int, **form: str) -> str:
        """Send a form that is refused, and return the page that says why."""
        response = self.press(path, page, **form)
        assert response.status_code == status, response.text
        return response.text


def console_client(
    *blueprints: Blueprint,
    watched: bool = True,
    policy: Policy | None = None,
    token: str | None = None,
    loopback: bool = True,
    real_clock: bool = False,
    endpoints: Callable[[MachineRef], str | None] = address,
    wall: Callable[[], datetime] | None = None,
) -> ConsoleTestClient:
    """Return a client of the console of a fleet with these sets; in watched sets a machine polls."""
    start = SystemClock().now() if real_clock else NOON
    stage = FleetHarness(*blueprints, watched=watched, policy=policy, start=start)
    if real_clock:
        stage.engine = Engine(stage.store, SystemClock(), stage.driver, stage.engine.policy)
        run(stage.engine.open())
    shutdown = asyncio.Event()
    app = create_app(
        Control(stage.engine),
        endpoints=endpoints,
        token=token,
        loopback=loopback,
        shutdown=shutdown,
        wall=wall,
    )
    return ConsoleTestClient(stage, app, shutdown)


def csrf_token(page: str) -> str:
    """Return the CSRF token of the forms of a page."""
    inputs = ParsedPage(page, "input").attributes
    return next(attributes["value"] for attributes in inputs if attributes.get("name") == "csrf")


def text(page: str) -> str:
    """Return the text of a page without tags, with single spaces between words."""
    return " ".join(ParsedPage(page).text.split())


#: Elements inside a sentence; all others separate words.
_INLINE = frozenset({"a", "b", "code", "em", "strong", "time"})


class ParsedPage(HTMLParser):
    """The text of a page, and the attributes of all its elements of one kind."""

    def __init__(self, page: str, tag: str = "") -> None:
        super().__init__()
        self.text = ""
        self.attributes: list[dict[str, str]] = []
        self._tag = tag
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += "" if tag in _INLINE else " "
        if tag == self._tag:
            self.attributes.append({name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        self.text += "" if tag in _INLINE else " "

    def handle_data(self, data: str) -> None:
        self.text += data
