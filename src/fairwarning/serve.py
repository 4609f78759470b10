"""Puts the rooms together: the only place that knows them all."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from fairwarning.config import Settings, loopback
from fairwarning.core.changes import MachineChanged, MachineRemoved
from fairwarning.core.commands import Make
from fairwarning.core.errors import FairWarningError, Invalid
from fairwarning.core.model import MachineRef
from fairwarning.core.scope import scope_ids
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import ManualClock, SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import Lagging, Listener
from fairwarning.engine.ports import Store
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.doors import Doors, Plan
from fairwarning.metadata.server import MetadataServer
from fairwarning.store.memory import MemoryStore

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger("fairwarning.serve")


class CannotListen(FairWarningError):
    """An address we were told to listen on cannot be had."""

    def __init__(self, address: str, problem: OSError) -> None:
        super().__init__(f"cannot listen on {address}: {problem.strerror or problem}")
        self.address = address


class Service:
    """A whole server, for as long as the ``async with`` block lasts."""

    engine: Engine
    doors: Doors
    operator_url: str

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()

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
        found = ((ref, self.doors.url(ref)) for ref in machines(self.engine))
        return {ref: url for ref, url in found if url is not None}

    def alternatives(self) -> dict[MachineRef, tuple[str, ...]]:
        """Return the other ways to every machine's metadata service."""
        return {ref: self.doors.alternatives(ref) for ref in machines(self.engine)}

    async def _start(self) -> None:
        settings = self._settings
        host, _ = settings.operator_address
        if not loopback(host) and settings.token is None:
            raise Invalid("token", f"a token is required to serve the operator API on {host}")
        self.engine = await self._engine()
        await self._populate()
        await self._open_doors()
        await self._open_operator()
        if isinstance(self.engine.clock, SystemClock):
            await self._background(timer.run(self.engine, self.engine.clock))

    async def _engine(self) -> Engine:
        settings = self._settings
        store = await self._store()
        self._stack.push_async_callback(store.close)
        clock: SystemClock | ManualClock = SystemClock()
        if settings.manual_clock:
            noted = await store.noted("clock")
            clock = ManualClock(datetime.fromisoformat(noted) if noted else clock.now())
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
        """Make what was asked for and is not there yet."""
        for blueprint in self._settings.blueprints:
            known = self.engine.scopes()
            if not any(scope_id in known for scope_id in scope_ids(blueprint)):
                await self.engine.handle(Make(seed=new_event_id(), blueprint=blueprint))

    async def _open_doors(self) -> None:
        settings = self._settings
        app = MetadataApp(self.engine, settings.profile)
        server = MetadataServer[MachineRef](app.answer, self.engine.clock.now)
        self._stack.push_async_callback(server.close)
        plan = Plan(
            port=settings.metadata_port,
            shared=settings.listen,
            addresses=settings.addresses,
            sockets=settings.sockets,
        )
        store = self.engine.store
        self.doors = Doors(server, plan, lambda slots: store.note("slots", slots), await store.noted("slots"))
        follower = self._stack.enter_context(self.engine.feed.listen())
        try:
            await self.doors.open_shared()
            await self.doors.open(machines(self.engine))
        except OSError as problem:
            raise CannotListen("a machine's port", problem) from None
        await self._background(_follow(self.engine, self.doors, app, follower))

    async def _open_operator(self) -> None:
        from fairwarning.operator.app import create_app

        host, port = self._settings.operator_address
        closing = asyncio.Event()
        app = create_app(
            self.engine,
            endpoints=self.doors.url,
            welcome=self._welcome,
            token=self._settings.token,
            loopback=loopback(host),
            closing=closing,
        )
        self.operator_url = await self._stack.enter_async_context(_http_server(app, host, port))
        self._stack.callback(closing.set)

    async def _welcome(self, machines: Sequence[MachineRef]) -> None:
        """Open the doors of new machines; one that cannot be opened is told, not fatal."""
        try:
            await self.doors.open(machines)
        except OSError as problem:
            log.error("door_not_opened problem=%s", problem)

    async def _background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)


def machines(engine: Engine) -> list[MachineRef]:
    """Return every machine, scope by scope."""
    return [m.ref for scope in engine.scopes().values() for m in scope.machines.values()]


async def _follow(engine: Engine, doors: Doors, app: MetadataApp, follower: Listener) -> None:
    """Keep the doors in step with the fleet."""
    while True:
        for ref in await _concerned(engine, doors, follower):
            try:
                await _look_after(engine, doors, app, ref)
            except OSError as problem:
                log.error("door_not_opened machine=%s problem=%s", ref.full, problem)


async def _concerned(engine: Engine, doors: Doors, follower: Listener) -> Iterable[MachineRef]:
    try:
        entry = await follower.next()
    except Lagging:
        return {*machines(engine), *doors.machines()}
    match entry.change:
        case MachineChanged(machine=machine):
            return (machine.ref,)
        case MachineRemoved(scope=scope, name=name):
            return (MachineRef(scope, name),)
        case _:
            return ()


async def _look_after(engine: Engine, doors: Doors, app: MetadataApp, ref: MachineRef) -> None:
    scope = engine.scopes().get(ref.scope)
    if scope is not None and ref.name in scope.machines:
        await doors.open((ref,))
    else:
        await doors.close(ref)
        app.forget(ref)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as problem:
        bound.close()
        raise CannotListen(f"{host}:{port}", problem) from None
    return bound


@asynccontextmanager
async def _http_server(app: "ASGIApp", host: str, port: int) -> AsyncIterator[str]:
    """Serve an ASGI app in this loop for as long as the block lasts; give its URL."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals belong to the command line

    bound = _bind(host, port)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.001)
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
