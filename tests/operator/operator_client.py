"""A client of the operator API over an in-memory fleet: every request is one call."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

import httpx2
import msgspec
from starlette.applications import Starlette

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Policy
from fairwarning.engine.clock import SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Driver
from fairwarning.operator import schemas
from fairwarning.operator.app import create_app
from tests.asgi import ask
from tests.fleet_harness import NOON, FleetHarness, run

URL = "http://127.0.0.1:8080"


def address(ref: MachineRef) -> str | None:
    """Return the metadata URL of a machine; the machine called elsewhere has none."""
    return None if ref.name == "elsewhere" else f"http://metadata/{ref.name}"


@dataclass(frozen=True, slots=True)
class OperatorTestClient:
    """Sends requests to the app; paths are written without ``/fleet/v1``."""

    stage: FleetHarness
    app: Starlette
    shutdown: asyncio.Event

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
        """Send one request and return the response, whatever its status."""
        prefix = "" if path.startswith(("/healthz", "/readyz", "/metrics")) else "/fleet/v1"
        sent = content if body is None else msgspec.json.encode(body)
        return run(ask(self.app, method, f"{url}{prefix}{path}", headers, sent or b"", failing=True))

    def refused(self, method: str, path: str, body: Json = None) -> schemas.ProblemBody:
        """Send a request that is refused and return the problem."""
        response = self.send(method, path, body)
        assert response.headers["content-type"] == "application/problem+json"
        problem = msgspec.json.decode(response.content, type=schemas.ProblemBody)
        assert problem.status == response.status_code
        return problem

    # -- typed responses

    def machine(self, name: str) -> schemas.MachineDetailBody:
        """Return a machine."""
        return msgspec.json.decode(self.get(f"/machines/{name}"), type=schemas.MachineDetailBody)

    def scope(self, name: str) -> schemas.ScopeBody:
        """Return a scope."""
        return msgspec.json.decode(self.get(f"/scopes/{name}"), type=schemas.ScopeBody)

    def events(self) -> list[schemas.EventBody]:
        """Return the pending events."""
        return msgspec.json.decode(self.get("/events"), type=schemas.EventsBody).events

    def nodes(self) -> list[schemas.NodeBody]:
        """Return the servers of the fleet."""
        return msgspec.json.decode(self.get("/nodes"), type=schemas.NodesBody).nodes

    def history(self, query: str = "") -> schemas.HistoryBody:
        """Return a page of the history."""
        return msgspec.json.decode(self.get(f"/history{query}"), type=schemas.HistoryBody)

    def get(self, path: str) -> bytes:
        """Return the body at a path."""
        return self.call("GET", path)

    def call(self, method: str, path: str, body: Json = None, status: int = 200) -> bytes:
        """Send a request that succeeds and return the body of the response."""
        response = self.send(method, path, body)
        assert response.status_code == status, response.text
        return response.content

    def cause(self, cause: str, *machines: str, **more: Json) -> schemas.AnnouncedBody:
        """Cause an event on machines and return the announcement."""
        body = self.call("POST", "/events", {"cause": cause, "machines": [*machines], **more}, 201)
        return msgspec.json.decode(body, type=schemas.AnnouncedBody)

    def advance(self, by: str) -> schemas.ClockBody:
        """Move the clock forward."""
        return msgspec.json.decode(self.call("POST", "/clock/advance", {"by": by}), type=schemas.ClockBody)

    def rollouts(self) -> list[schemas.RolloutBody]:
        """Return the rollouts in progress."""
        return msgspec.json.decode(self.get("/rollouts"), type=schemas.RolloutsBody).walks


def operator_client(
    *blueprints: Blueprint,
    polled: bool = True,
    policy: Policy | None = None,
    token: str | None = None,
    loopback: bool = True,
    real_clock: bool = False,
    driver: Driver | None = None,
    endpoints: Callable[[MachineRef], str | None] = address,
    zone: tzinfo = UTC,
) -> OperatorTestClient:
    """Return a client of a fleet of these sets; with ``polled``, a machine of each set has polled."""
    start = SystemClock().now() if real_clock else NOON
    stage = FleetHarness(*blueprints, watched=polled, policy=policy, driver=driver, start=start)
    if real_clock:
        stage.engine = Engine(stage.store, SystemClock(), stage.driver, stage.engine.policy)
        run(stage.engine.open())
    stage.engine.membership.serving = True
    shutdown = asyncio.Event()
    app = create_app(
        Control(stage.engine, zone=zone),
        endpoints=endpoints,
        alternatives=lambda ref: (f"unix:/run/{ref.name}.sock",),
        token=token,
        loopback=loopback,
        shutdown=shutdown,
    )
    return OperatorTestClient(stage, app, shutdown)
