"""A fleet on a table with an operator's desk in front of it: every request is one call."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx2
import msgspec
from starlette.applications import Starlette

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Policy
from fairwarning.engine.clock import SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.operator import schemas
from fairwarning.operator.app import create_app
from tests.asgi import ask
from tests.fleet_harness import FleetHarness, run

URL = "http://127.0.0.1:8080"


def address(ref: MachineRef) -> str | None:
    """Return where a machine's metadata would be; the one called elsewhere has no door."""
    return None if ref.name == "elsewhere" else f"http://metadata/{ref.name}"


@dataclass(frozen=True, slots=True)
class Office:
    """The API over a stage; paths are written without ``/fleet/v1``."""

    stage: FleetHarness
    app: Starlette
    closing: asyncio.Event

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        url: str = URL,
    ) -> httpx2.Response:
        """Send one request and return the answer, whatever it is."""
        prefix = "" if path.startswith(("/healthz", "/metrics")) else "/fleet/v1"
        raw = content if body is None else msgspec.json.encode(body)
        return run(ask(self.app, method, f"{url}{prefix}{path}", headers, raw or b"", failing=True))

    def refused(self, method: str, path: str, body: Json = None) -> schemas.ProblemBody:
        """Send a request that is refused and return the problem."""
        response = self.send(method, path, body)
        assert response.headers["content-type"] == "application/problem+json"
        problem = msgspec.json.decode(response.content, type=schemas.ProblemBody)
        assert problem.status == response.status_code
        return problem

    # -- the answers, as the types they are

    def machine(self, name: str) -> schemas.MachineBody:
        """Return a machine."""
        return msgspec.json.decode(self.get(f"/machines/{name}"), type=schemas.MachineBody)

    def scope(self, name: str) -> schemas.ScopeBody:
        """Return a scope."""
        return msgspec.json.decode(self.get(f"/scopes/{name}"), type=schemas.ScopeBody)

    def events(self) -> list[schemas.EventBody]:
        """Return the pending events."""
        return msgspec.json.decode(self.get("/events"), type=schemas.EventsBody).events

    def history(self, query: str = "") -> schemas.HistoryBody:
        """Return a page of the history."""
        return msgspec.json.decode(self.get(f"/history{query}"), type=schemas.HistoryBody)

    def get(self, path: str) -> bytes:
        """Return what there is at a path."""
        return self.fine("GET", path)

    def fine(self, method: str, path: str, body: Json = None, status: int = 200) -> bytes:
        """Send a request that is granted and return the answer."""
        response = self.send(method, path, body)
        assert response.status_code == status, response.text
        return response.content

    def cause(self, cause: str, *machines: str, **more: Json) -> schemas.AnnouncedBody:
        """Do something to machines and return what that led to."""
        answer = self.fine("POST", "/events", {"cause": cause, "machines": [*machines], **more}, 201)
        return msgspec.json.decode(answer, type=schemas.AnnouncedBody)

    def advance(self, by: str) -> schemas.ClockBody:
        """Move the clock."""
        return msgspec.json.decode(self.fine("POST", "/clock/advance", {"by": by}), type=schemas.ClockBody)

    def walks(self) -> list[schemas.RolloutBody]:
        """Return the walks under way."""
        return msgspec.json.decode(self.get("/walks"), type=schemas.RolloutsBody).walks


def office(
    *blueprints: Blueprint,
    watched: bool = True,
    policy: Policy | None = None,
    token: str | None = None,
    loopback: bool = True,
    real_clock: bool = False,
    endpoints: Callable[[MachineRef], str | None] = address,
) -> Office:
    """Return a desk over these sets; a watched one has a machine that polls."""
    stage = FleetHarness(*blueprints, watched=watched, policy=policy)
    if real_clock:
        stage.engine = Engine(stage.store, SystemClock(), stage.driver, stage.engine.policy)
        run(stage.engine.open())
    closing = asyncio.Event()
    app = create_app(
        stage.engine,
        endpoints=endpoints,
        alternatives=lambda ref: (f"unix:/run/{ref.name}.sock",),
        token=token,
        loopback=loopback,
        closing=closing,
    )
    return Office(stage, app, closing)
