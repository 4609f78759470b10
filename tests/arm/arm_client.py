"""The front door of the management face: whole HTTP requests, in process, without a socket."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import httpx2
from starlette.applications import Starlette

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
class Wall:
    """The wall clock of those who keep tokens."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


@dataclass(frozen=True)
class Front:
    """A server of an empty fleet, and a client that shows a token unless told otherwise."""

    app: Starlette
    tokens: Tokens
    wall: Wall
    stage: FleetHarness = field(repr=False)

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
        """Send one request and return the answer; an empty token stands for a good one."""
        shown = self.tokens.make(URL) if token == "" else token
        lines = {} if shown is None else {"authorization": f"Bearer {shown}"}
        if form is not None:
            content = urlencode(form).encode()
            lines["content-type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            content = json.dumps(body).encode()
            lines["content-type"] = "application/json"
        lines |= {name.lower(): value for name, value in (headers or {}).items()}
        return run(ask(self.app, method, f"{url}{path}", lines, content or b""))

    def get(self, path: str, version: str = "2022-12-01") -> Json:
        """Return what there is at a path."""
        response = self.send("GET", f"{path}?api-version={version}")
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    def refused(self, method: str, path: str, body: Json = None) -> tuple[int, str]:
        """Send a request that is refused; return the status and Azure's word for it."""
        response = self.send(method, path, body)
        assert response.headers["content-type"] == "application/json; charset=utf-8"
        error = response.json()["error"]
        assert error["message"]
        return response.status_code, error["code"]


async def _no_doors(machines: object) -> None:
    """Nothing has to be opened here."""


def front(*, key: str = KEY, secret: str | None = None) -> Front:
    """Return the front door of a new server."""
    stage, wall = FleetHarness(), Wall()
    tokens = Tokens(key, wall, secret)
    room = ArmContext(stage.engine, welcome=_no_doors)
    run(room.open())
    return Front(create_app(room, base_url=URL, tokens=tokens), tokens, wall, stage)
