"""Guests of a small fleet, which call the metadata API in process, without sockets."""

import asyncio
import json
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Command, CreateSet, Schedule
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.core.policy import Profile
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.engine.time_control import advance_to
from fairwarning.http1.messages import Request, Response
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.attested import Attestation
from fairwarning.store.memory import MemoryStore

T = TypeVar("T")

EVENTS = "/metadata/scheduledevents"
NEWEST = "api-version=2020-07-01"
METADATA: Mapping[str, tuple[str, ...]] = {"metadata": ("true",)}
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
E1 = EventId("602D9444-D2CD-49C7-8624-8643E7171297")
UNHURRIED = Profile(requests_per_second=1e9, burst=1e9)


@dataclass
class Cloud:
    """A fleet with its metadata API, for tests without async code."""

    engine: Engine
    clock: ManualClock
    app: MetadataApp
    runner: asyncio.Runner = field(repr=False)

    def run(self, work: Coroutine[object, None, T]) -> T:
        return self.runner.run(work)

    def handle(self, command: Command) -> None:
        self.run(self.engine.handle(command))

    def cause(self, cause: str, *names: str, id: EventId = E1, scope: str = "web") -> EventId:
        machines = tuple(MachineRef(ScopeId(scope), VmName(name)) for name in names)
        self.handle(Schedule(id=id, cause=cause, machines=machines))
        return id

    def advance(self, **by: float) -> None:
        self.run(advance_to(self.engine, self.clock, self.clock.now() + timedelta(**by)))

    def ask(self, machine: str | None, request: Request, scope: str = "web") -> Response:
        ref = None if machine is None else MachineRef(ScopeId(scope), VmName(machine))

        async def answer() -> Response:
            reply = self.app.answer(ref, request)
            return reply if isinstance(reply, Response) else await reply

        return self.run(answer())

    def get(
        self,
        machine: str | None = "web_0",
        query: str = NEWEST,
        *,
        path: str = EVENTS,
        scope: str = "web",
        headers: Mapping[str, tuple[str, ...]] = METADATA,
        method: str = "GET",
    ) -> Response:
        return self.ask(machine, Request(method, path, query, headers, b"", True), scope)

    def post(
        self,
        body: bytes | Json,
        machine: str = "web_0",
        query: str = NEWEST,
        *,
        scope: str = "web",
        headers: Mapping[str, tuple[str, ...]] = METADATA,
    ) -> Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask(machine, Request("POST", EVENTS, query, headers, raw, True), scope)

    def events(self, machine: str = "web_0", query: str = NEWEST) -> list[dict[str, Json]]:
        events: list[dict[str, Json]] = json.loads(self.get(machine, query).body)["Events"]
        return events


def start(event_id: str = E1) -> Json:
    return {"StartRequests": [{"EventId": event_id}]}


def error_of(response: Response) -> str:
    message: str = json.loads(response.body)["error"]
    return message


@contextmanager
def cloud(
    *blueprints: Blueprint,
    profile: Profile = UNHURRIED,
    polled: bool = True,
    store: Store | None = None,
    attestation: Attestation | None = None,
) -> Iterator[Cloud]:
    """Give a fleet; by default an enabled scale set ``web`` of three machines."""
    with asyncio.Runner() as runner:

        async def build() -> tuple[Engine, ManualClock]:
            clock = ManualClock(NOON)
            policy = replace(profile.policy, start_enabled=polled)
            engine = Engine(store or MemoryStore(), clock, SimulatedDriver(), policy)
            await engine.open()
            for blueprint in blueprints or (Blueprint(name="web", count=3),):
                await engine.handle(CreateSet(seed=blueprint.name, blueprint=blueprint))
            return engine, clock

        engine, clock = runner.run(build())
        yield Cloud(engine, clock, MetadataApp(Control(engine), profile, attestation=attestation), runner)
