"""Puts the rooms together: the only place that knows them all."""

import asyncio
import json
import logging
import socket
import ssl
import tempfile
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fairwarning.config import SHORTEST_TOKEN, Settings, loopback
from fairwarning.core.blueprint import Blueprint, scope_ids
from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.model import EventId, MachineRef, Scope
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import ManualClock, SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.engine.retention import Pruner
from fairwarning.engine.time_control import TimeControl
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.formats.timestamps import for_people
from fairwarning.http1.limits import available, shares
from fairwarning.http1.server import HttpServer
from fairwarning.listener import HttpListener, families
from fairwarning.metadata.app import Identity, MetadataApp
from fairwarning.metadata.listener_sync import follow
from fairwarning.metadata.listeners import CannotListenError, Listeners, ListenPlan
from fairwarning.metadata.replay import Told, nobody, play
from fairwarning.metadata.scheduled_events import shapes
from fairwarning.store.memory import MemoryStore
from fairwarning.throttle import Throttle

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from fairwarning.arm.context import ArmContext
    from fairwarning.arm.tls import Certificates
    from fairwarning.arm.tokens import Tokens
    from fairwarning.operator.context import ManagementEndpoint
    from fairwarning.store.examine import Examination

_EVERYWHERE = frozenset({"0.0.0.0", "::"})

log = logging.getLogger("fairwarning.server")


class Service:
    """A whole server, for as long as the ``async with`` block lasts."""

    engine: Engine
    doors: Listeners
    operator_url: str
    arm_url: str | None = None
    ca: Path | None = None
    #: What whoever started the server should know about what was found.
    remarks: tuple[str, ...] = ()

    def __init__(self, settings: Settings, replayed: Told = nobody) -> None:
        self._settings = settings
        self._replayed = replayed
        self._stack = AsyncExitStack()
        self._throttle = Throttle()
        self._arm_room: ArmContext | None = None
        self._shares = shares(available())
        self._listeners: list[HttpListener] = []
        self._counters: list[Callable[[], Iterable[MetricFamily]]] = []

    async def __aenter__(self) -> "Service":
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._stack.aclose()

    def endpoints(self) -> dict[MachineRef, str]:
        """Return the base URL of every machine's metadata service, in order of the machines."""
        found = ((ref, self.doors.url(ref)) for ref in self.engine.refs())
        return {ref: url for ref, url in found if url is not None}

    def alternatives(self) -> dict[MachineRef, tuple[str, ...]]:
        """Return the other ways to every machine's metadata service."""
        return {ref: self.doors.alternatives(ref) for ref in self.engine.refs()}

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners at which machines are known by their address."""
        return self.doors.shared_urls()

    async def position(self) -> int:
        """Return the number of the newest line of the journal."""
        newest = await self.engine.store.newest()
        return 0 if newest is None else newest.seq

    def pending(self) -> bool:
        """Whether any event is pending."""
        return any(scope.events for scope in self.engine.scopes().values())

    async def _start(self) -> None:
        settings = self._settings
        _check_token("the operator API", settings.operator_address, settings.token)
        _check_token("the management API", settings.arm, settings.token)
        self._management: asyncio.Future[ManagementEndpoint | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.engine = await self._engine()
        await self._populate()
        self._tokens = await self._signed_tokens()
        await self._open_doors()
        await self._open_operator()
        # Last, because clients of the others need not wait for cryptography to be loaded.
        self._management.set_result(await self._open_arm())
        if isinstance(self.engine.clock, SystemClock):
            await self._background(timer.run(self.engine, self.engine.clock))
        if settings.retention is not None:
            pruner = Pruner(self.engine.store, self.engine.clock.now, settings.retention, self._needed)
            await self._background(pruner.run())

    async def _engine(self) -> Engine:
        settings = self._settings
        store = await self._store()
        self._stack.push_async_callback(store.close)
        clock: SystemClock | ManualClock = SystemClock()
        reached = await _reached(store) or clock.now()
        if settings.manual_clock:
            clock = ManualClock(reached)
            await store.note("clock", reached.isoformat())
        elif reached > clock.now():
            self.remarks += (_ahead(reached),)
        driver = SimulatedDriver(azure_timings=settings.azure_timings)
        engine = Engine(store, clock, driver, settings.profile.policy)
        self._stack.push_async_callback(engine.close)
        await engine.open()
        return engine

    async def _store(self) -> Store:
        if self._settings.data is None:
            return MemoryStore()
        from fairwarning.store.sqlite import SqliteStore

        return await SqliteStore.open(self._settings.data)

    async def _populate(self) -> None:
        """Make what was asked for and is not there yet; where nothing was, go on from what is there."""
        settings, found = self._settings, self.engine.scopes()
        # Who deleted a whole fleet does not want another one.
        fresh = not found and await self.engine.store.newest() is None
        if not fresh:
            self.remarks += (_going_on(found.values(), settings.data),)
        for blueprint in settings.blueprints + (settings.default_blueprints if fresh else ()):
            known = self.engine.scopes()
            kept = [known[scope_id] for scope_id in scope_ids(blueprint) if scope_id in known]
            if kept:
                self.remarks += _differences(blueprint, kept)
            else:
                await self.engine.handle(CreateSet(seed=new_event_id(), blueprint=blueprint))

    async def _open_doors(self) -> None:
        settings = self._settings
        app = MetadataApp(self.engine, settings.profile, self._identity())
        await play(self.engine, settings.replays, app.replay, self._replayed)
        guests = self._shares.guests
        server = HttpServer[MachineRef](app.answer, self.engine.clock.now, guests, shortcuts=app)
        self._stack.push_async_callback(server.close)
        plan = ListenPlan(
            port=settings.metadata_port,
            shared=settings.listen,
            addresses=_addressees(self.engine, settings.addresses),
            sockets=settings.sockets,
        )
        self.doors = Listeners(server, plan, self.engine.store)
        follower = self._stack.enter_context(self.engine.feed.listen())
        await self.doors.open_shared()
        scopes = tuple(self.engine.scopes().values())
        await self.doors.open(ref for scope in scopes for ref in scope.refs())
        await self._background(follow(self.engine, self.doors, app.forget, follower))
        self._document = app.document
        self._counters += [lambda: server.figures().families(), lambda: families(self._listeners)]

    async def _open_operator(self) -> None:
        from fairwarning.console.lazy_mount import LazyMount
        from fairwarning.operator.app import create_app
        from fairwarning.streams import Streams

        host, port = self._settings.operator_address
        closing, journeys = asyncio.Event(), TimeControl(self.engine)
        listener = self._listener("operator", self._shares.operator)
        # Who only watches leaves connections to those who ask.
        self._streams = Streams(min(listener.limits.streams, listener.limits.connections * 3 // 4))
        self._counters.append(self._streams.families)
        app = create_app(
            self.engine,
            endpoints=self.doors.url,
            alternatives=self.doors.alternatives,
            welcome=self._welcome,
            token=self._settings.token,
            throttle=self._throttle,
            loopback=loopback(host),
            closing=closing,
            management=lambda: asyncio.shield(self._management),
            journeys=journeys,
            counted=self._counted,
            streams=self._streams,
        )
        both = LazyMount(app, lambda: self._console(closing, journeys))
        self.operator_url = await self._stack.enter_async_context(_served(listener, both, host, port))
        self._stack.callback(closing.set)

    def _console(self, closing: asyncio.Event, journeys: TimeControl) -> "ASGIApp":
        from fairwarning.console.app import create_app

        return create_app(
            self.engine,
            endpoints=self.doors.url,
            alternatives=self.doors.alternatives,
            open_endpoints=self._welcome,
            document=self._document,
            versions=shapes(self._settings.profile),
            time_control=journeys,
            token=self._settings.token,
            throttle=self._throttle,
            loopback=loopback(self._settings.operator_address[0]),
            shutdown=closing,
            streams=self._streams,
        )

    def _listener(self, name: str, connections: int, tls: ssl.SSLContext | None = None) -> HttpListener:
        limits = self._settings.limits
        limits = replace(limits, connections=min(limits.connections, connections))
        listener = HttpListener(name, limits, tls)
        self._listeners.append(listener)
        return listener

    def _counted(self) -> Iterator[MetricFamily]:
        for counter in self._counters:
            yield from counter()

    async def _signed_tokens(self) -> "Tokens":
        from fairwarning.arm.tokens import signed_by

        # Tokens run out by the wall clock of those who keep them, whatever our own calendar says.
        return await signed_by(self.engine.store, SystemClock().now, self._settings.token)

    def _identity(self) -> Identity | None:
        if not self._settings.profile.identity_tokens:
            return None
        from fairwarning.arm.tokens import machine_token

        return lambda machine, resource: machine_token(self._tokens, machine.full, resource)

    async def _open_arm(self) -> "ManagementEndpoint | None":
        if self._settings.arm is None:
            return None
        host, port = self._settings.arm
        certificates = await asyncio.to_thread(_certificates, self._arm_directory(), host)

        from fairwarning.arm.app import create_app
        from fairwarning.arm.context import SUBSCRIPTION, TENANT
        from fairwarning.operator.context import ManagementEndpoint

        room = await self._room()
        shown = f"[{host}]" if ":" in host else host
        base = f"https://{shown}:{port}"
        app = create_app(room, base_url=base, tokens=self._tokens, throttle=self._throttle)
        listener = self._listener("management", self._shares.management, certificates.context())
        served = _served(listener, app, host, port)
        self.arm_url, self.ca = await self._stack.enter_async_context(served), certificates.ca
        return ManagementEndpoint(
            url=self.arm_url,
            ca=self.ca,
            certificate=self.ca.read_text(),
            tenant=TENANT,
            subscription=SUBSCRIPTION,
        )

    async def _needed(self) -> set[EventId]:
        """Return the events that tell how operations ended which clients may still ask about."""
        from fairwarning.arm.operations import needed

        if self._arm_room is not None:
            return needed(self._arm_room.documents(""))
        kept = await self.engine.store.documents()
        return needed((key, json.loads(text)) for key, text in kept.items())

    async def _room(self) -> "ArmContext":
        from fairwarning.arm.context import ArmContext, RetryAfter

        settings = self._settings
        hurried = settings.manual_clock or settings.profile.policy.speed > 1
        pace = RetryAfter("x-ms-retry-after-ms", "100") if hurried else RetryAfter()
        room = ArmContext(self.engine, welcome=self._welcome, pace=pace)
        await room.open()
        self._arm_room = room
        return room

    def _arm_directory(self) -> Path:
        if self._settings.data is not None:
            return self._settings.data.absolute() / "arm"
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fairwarning-")))

    async def _welcome(self, machines: Sequence[MachineRef]) -> None:
        """Open the doors of new machines; one that cannot be opened is told, not fatal."""
        try:
            await self.doors.open(machines)
        except FairWarningError as problem:
            log.error("door_not_opened problem=%s", problem)

    async def _background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)


def examine(data: Path) -> "Examination":
    """Return what is found in a data directory, which is left as it is."""
    from fairwarning.store import examine

    return examine.examine(data)


def _check_token(what: str, address: tuple[str, int] | None, token: str | None) -> None:
    if address is not None and not loopback(address[0]) and token is None:
        raise InvalidError("token", f"a token is required to serve {what} on {address[0]}")
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InvalidError("token", f"has {len(token)} characters; it needs at least {SHORTEST_TOKEN}")


def _certificates(directory: Path, host: str) -> "Certificates":
    from fairwarning.arm.tls import certificates

    # Who listens everywhere is called by the machine's name.
    hosts = (host, socket.gethostname()) if host in _EVERYWHERE else (host,)
    return certificates(directory, hosts, SystemClock().now())


def _ahead(reached: datetime) -> str:
    return (
        f"a manual clock has taken what is kept here to {for_people(reached)}, ahead of the real one: "
        "what is due after that will be late; hint: up --clock manual"
    )


def _going_on(scopes: Collection[Scope], data: Path | None) -> str:
    """Say how much was found in a directory."""
    if not scopes:
        return f"no machines are left in {data}; hint: --scale-set web=3 makes some"
    machines = sum(len(scope.machines) for scope in scopes)
    sets = len({scope.facts.set_id for scope in scopes})
    counted = f"{machines} machine{'' if machines == 1 else 's'} in {sets} set{'' if sets == 1 else 's'}"
    return f"{counted} from {data}"


def _differences(wanted: Blueprint, found: Sequence[Scope]) -> tuple[str, ...]:
    """Say what a set is that was kept, if it is not what is wanted."""
    count = sum(len(scope.machines) for scope in found)
    there = "1 machine" if count == 1 else f"{count} machines"
    if found[0].facts.kind is not wanted.kind:
        return (f"{wanted.name} is there already, as {found[0].facts.kind} with {there}",)
    if count != (sum(number for _, number in wanted.roles) or wanted.count):
        return (f"{wanted.name} is there already, with {there}",)
    return ()


def _addressees(engine: Engine, addresses: Mapping[str, str]) -> dict[MachineRef, str]:
    """Return whose the addresses are; machines are named as operators name them."""
    found: dict[MachineRef, str] = {}
    for name, address in addresses.items():
        try:
            machine = engine.directory.machine(name)
        except FairWarningError as problem:
            raise InvalidError("address", str(problem)) from problem
        if machine in found:
            raise InvalidError("address", f"{machine.full} is given two")
        found[machine] = address
    return found


async def _reached(store: Store) -> datetime | None:
    """Return the manual time at which a server ended: as it was moved to, or as of what was written last."""
    noted, newest = await store.noted("clock"), await store.newest()
    if noted is None:
        return None
    reached = datetime.fromisoformat(noted)
    return reached if newest is None else max(reached, newest.at)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, the protocol lets asyncio switch off the delay that waits for more to send.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as problem:
        bound.close()
        raise CannotListenError(f"{host}:{port}", problem) from None
    return bound


@asynccontextmanager
async def _served(listener: HttpListener, app: "ASGIApp", host: str, port: int) -> AsyncIterator[str]:
    """Serve an ASGI app in this loop for as long as the block lasts; give its URL."""
    bound = _bind(host, port)
    url = f"{listener.scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
    async with listener.serve(app, bound):
        yield url
