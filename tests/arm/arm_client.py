"""A client of the management API: whole HTTP requests, in process, without a socket."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import httpx2
from starlette.types import ASGIApp

from fairwarning.arm.app import create_app
from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.tokens import Tokens
from fairwarning.core.document.render import Json
from tests.asgi import ask
from tests.fleet_harness import FleetHarness, run

URL = "https://127.0.0.1:8443"
ONE = f"/subscriptions/{SUBSCRIPTION}"
KEY = "a key of one server, long enough to sign with"
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@dataclass
class WallClock:
    """The clock by which tokens expire."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


@dataclass(frozen=True)
class ArmClient:
    """A server with an empty fleet, and a client that sends a valid token by default."""

    app: ASGIApp
    tokens: Tokens
    clock: WallClock
    fleet: FleetHarness = field(repr=False)

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = "",
        url: str = URL,
    ) -> httpx2.Response:
        """Send a request and return the response; an empty token stands for a valid one."""
        sent = self.tokens.make(URL) if token == "" else token
        lines = {} if sent is None else {"authorization": f"Bearer {sent}"}
        if form is not None:
            content = urlencode(form).encode()
            lines["content-type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            content = json.dumps(body).encode()
            lines["content-type"] = "application/json"
        lines |= {name.lower(): value for name, value in (headers or {}).items()}
        return run(ask(self.app, method, f"{url}{path}", lines, content or b""))

    def get(self, path: str, version: str = "2022-12-01") -> Json:
        """Return the document at a path."""
        response = self.send("GET", f"{path}?api-version={version}")
        assert response.status_code == 200, response.text
        document: Json = response.json()
        return document

    def refused(self, method: str, path: str, body: Json = None) -> tuple[int, str]:
        """Send a request that is refused; return its status and its code."""
        response = self.send(method, path, body)
        assert response.headers["content-type"] == "application/json; charset=utf-8"
        error = response.json()["error"]
        assert error["message"]
        return response.status_code, error["code"]


async def _open_no_endpoints(machines: object) -> None:
    """Open no endpoints: no guest polls in these tests."""


def arm_client(*, key: str = KEY, secret: str | None = None) -> ArmClient:
    """Return a client of a new server."""
    fleet, clock = FleetHarness(), WallClock()
    tokens = Tokens(key, clock, secret)
    context = ArmContext(fleet.engine, open_endpoints=_open_no_endpoints)
    return ArmClient(create_app(context, base_url=URL, tokens=tokens), tokens, clock, fleet)
