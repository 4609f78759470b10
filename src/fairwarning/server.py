"""Assembles a whole server from the packages: the only module that knows all of them.

The order of the start matters. The engine comes first; it creates the machines that the settings ask for.
Then the metadata API listens, then the operator API with the console, and last the management API, whose
cryptography takes longest to load. The timer and the pruner start once every API listens. The end undoes
these steps in reverse order.

Imports of Starlette, SQLite and cryptography are inside functions, so that guests are answered before those
libraries are loaded, and a server without a data directory never loads SQLite.
"""

import asyncio
import logging
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import fairwarning
from fairwarning.access import stored_secret
from fairwarning.config import (
    AUTHORITY,
    ListenerLimits,
    ServeSettings,
    Settings,
    TlsSettings,
    check_token,
    loopback,
    service_manager,
    start_notes,
)
from fairwarning.control.control import Control
from fairwarning.core.blueprint import scope_ids
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import OPERATOR, PLATFORM, EventId, MachineRef
from fairwarning.drivers.external import ExternalDriver
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import ManualClock, SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Driver, IncompatibleStoreError, Store, is_shared
from fairwarning.engine.retention import Pruner
from fairwarning.engine.time_control import stored_manual_time
from fairwarning.formats.log_messages import LogMessage
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.http1.limits import Limits, raise_descriptor_limit, share_descriptors
from fairwarning.http1.server import Bind, HttpServer
from fairwarning.http1.sockets import bind_tcp, bind_unix
from fairwarning.listener import HttpListener, ReplaceableApp, families
from fairwarning.logs.follow import JournalLog
from fairwarning.metadata.addressed import AddressedListeners
from fairwarning.metadata.app import Identity, MetadataApp
from fairwarning.metadata.attested import Attestation
from fairwarning.metadata.identity import machine_addresses
from fairwarning.metadata.listener_sync import sync_listeners
from fairwarning.metadata.listeners import CannotListenError, Listeners, ListenPlan, MachineListeners
from fairwarning.metadata.replay import OnApproval, ignore_approval, start_replays
from fairwarning.metadata.scheduled_events import served_shapes
from fairwarning.store.memory import MemoryStore
from fairwarning.throttle import Throttle

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from fairwarning.arm.context import ArmContext
    from fairwarning.arm.tls import Certificates
    from fairwarning.arm.tokens import Tokens
    from fairwarning.operator.context import ManagementEndpoint
    from fairwarning.store.examine import Examination

_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})

#: The name of the module in release 0.1.0; people filter by it.
log = logging.getLogger("fairwarning.serve")


class FleetServer:
    """A whole server; it runs for as long as the ``async with`` block lasts."""

    engine: Engine
    listeners: MachineListeners
    operator_url: str
    arm_url: str | None = None
    ca: Path | None = None
    #: Messages about the data directory, for the person who started the server.
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        settings: Settings,
        replayed: OnApproval = ignore_approval,
        *,
        bind: Bind | None = None,
        internal: Path | None = None,
    ) -> None:
        """Take the settings; a worker also takes its listening sockets and its internal address."""
        self._settings = settings
        self._internal = internal
        self._replayed = replayed
        self._bind_guests = bind or bind_tcp
        self._bind_operators = bind or partial(bind_tcp, dual_stack=True)
        self._tls: ssl.SSLContext | None = None
        self._ensure_groups: Callable[[], Awaitable[None]] | None = None
        self._apps: list[ReplaceableApp] = []
        self._stack = AsyncExitStack()
        #: Tasks without which a node must not go on.
        self._essential: list[asyncio.Task[None]] = []
        self._throttle = Throttle()
        self._shares = share_descriptors(raise_descriptor_limit())
        self._http_listeners: list[HttpListener] = []
        self._metric_sources: list[Callable[[], Iterable[MetricFamily]]] = []

    async def __aenter__(self) -> "FleetServer":
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._settings.serve is not None:
            log.info(LogMessage("server_stopping"))
        await self._stack.aclose()

    def endpoints(self) -> dict[MachineRef, str]:
        """Return the base URL of every machine's metadata endpoint, in order of the machines."""
        urls = ((ref, self.listeners.url(ref)) for ref in self.engine.refs())
        return {ref: url for ref, url in urls if url is not None}

    def alternatives(self) -> dict[MachineRef, tuple[str, ...]]:
        """Return further addresses of every machine's metadata endpoint."""
        return {ref: self.listeners.alternatives(ref) for ref in self.engine.refs()}

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners that know machines by their source address."""
        return self.listeners.shared_urls()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Return once ``stop`` is set; raise the error that keeps this node from going on."""
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([stopped, *self._essential], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in self._essential:
            if task.done():
                await task

    async def position(self) -> int:
        """Return the number of the newest journal line."""
        return self.engine.position

    def pending(self) -> bool:
        """Whether any event is pending."""
        return any(scope.events for scope in self.engine.scopes().values())

    async def _start(self) -> None:
        settings = self._settings
        check_token("the operator API", settings.operator_address, settings.token)
        check_token("the management API", settings.arm, settings.management_token)
        self._management: asyncio.Future[ManagementEndpoint | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.engine = await self._open_engine()
        if settings.serve is None:
            await self._populate()
        else:
            await self._apply_inventory(settings.serve)
            # The fleet has the machines now; a large list takes much memory.
            self._settings = replace(settings, serve=replace(settings.serve, inventory=()))
        self._tokens = await self._open_tokens()
        self._console_secret = bytes.fromhex(await stored_secret(self.engine.store, "console-secret"))
        self._user_data_key = await stored_secret(self.engine.store, "user-data-key")
        await self._open_metadata()
        if self._internal is not None:
            await self._open_internal(self._internal)
        await self._open_operator()
        # Last: guests and operators do not wait until cryptography is loaded.
        self._management.set_result(await self._open_arm())
        await self._run_in_background(timer.run(self.engine, self.engine.clock))
        if settings.retention is not None:
            engine = self.engine
            forget = Control(engine).maintenances.forget
            pruner = Pruner(
                engine.store, engine.leases, engine.clock.now, settings.retention, self._needed_events, forget
            )
            await self._run_in_background(pruner.run())
        self._journal_log.start()
        await self._announce()
        if settings.serve is not None:
            machines = sum(len(scope.machines) for scope in self.engine.scopes().values())
            log.info(LogMessage("server_started", operator=self.operator_url, machines=machines))

    async def _open_engine(self) -> Engine:
        settings = self._settings
        store = await self._open_store()
        self._stack.push_async_callback(store.close)
        clock: SystemClock | ManualClock = SystemClock()
        manual_time = await stored_manual_time(store) or clock.now()
        if settings.manual_clock:
            clock = ManualClock(manual_time)
            await store.put_value("clock", manual_time.isoformat())
        elif manual_time > clock.now():
            self.notes += (start_notes.clock_ahead_note(manual_time),)
        policy, stale_after = settings.profile.policy, settings.stale_after
        engine = Engine(store, clock, _driver(settings), policy, stale_after=stale_after)
        # What the engine commits while it opens and closes is logged, too.
        self._journal_log = JournalLog(engine)
        self._stack.push_async_callback(self._journal_log.close)
        self._stack.push_async_callback(engine.close)
        await self._join(engine)
        await engine.open()
        if is_shared(store):
            self._essential.append(await self._run_in_background(engine.follow()))
        return engine

    async def _join(self, engine: Engine) -> None:
        """Become one of the nodes of a shared store; a store of this process alone has one node."""
        membership = engine.membership
        serve = self._settings.serve
        membership.name = socket.gethostname() if serve is None else serve.node
        membership.release = fairwarning.__version__
        if is_shared(engine.store):
            await membership.join(engine.store)
            self._essential.append(await self._run_in_background(membership.run()))

    async def _open_store(self) -> Store:
        serve = self._settings.serve
        if serve is not None and serve.dsn is not None:
            from fairwarning.store.postgres import open_postgres

            return await open_postgres(serve.dsn, migrate=serve.migrate)
        if self._settings.data is None:
            return MemoryStore()
        from fairwarning.store.sqlite import SqliteStore

        return await SqliteStore.open(self._settings.data)

    async def _announce(self) -> None:
        """Say that the server may be sent traffic; the end begins with the opposite."""
        engine, manager = self.engine, service_manager()
        self._stack.push_async_callback(engine.membership.leave)
        self._stack.callback(manager.stopping)
        engine.membership.serving = True
        manager.ready("ready")
        alive = manager.keep_alive(lambda: engine.stuck, lambda: engine.trouble or "ready")
        await self._run_in_background(alive)

    async def _populate(self) -> None:
        """Create the sets of the settings that do not exist yet."""
        settings, stored = self._settings, self.engine.scopes()
        # An empty fleet with a history was deleted on purpose: the default fleet stays away.
        is_new = not stored and not self.engine.position
        if not is_new:
            self.notes += (start_notes.stored_fleet_note(stored.values(), settings.data),)
        for blueprint in settings.blueprints + (settings.default_blueprints if is_new else ()):
            scopes = self.engine.scopes()
            existing = [scopes[scope_id] for scope_id in scope_ids(blueprint) if scope_id in scopes]
            if existing:
                self.notes += start_notes.difference_notes(blueprint, existing)
            else:
                await Control(self.engine).create_set(OPERATOR, blueprint)

    async def reload(self, load: Callable[[], Settings]) -> None:
        """Follow changed machines, addresses, tokens and certificates; a failure is logged.

        Other settings hold from the next start on.
        """
        try:
            settings = await asyncio.to_thread(load)
            if settings.serve is None:
                return
            await self._reload(settings, settings.serve)
        except Exception as problem:  # the outermost loop: the next SIGHUP has to be followed
            self.engine.membership.reload_failed = True
            refused = isinstance(problem, FairWarningError | OSError)
            reason = problem if refused else type(problem).__name__
            log.error(LogMessage("reload_failed", problem=reason), exc_info=not refused)
        else:
            self.engine.membership.reload_failed = False
            log.info(LogMessage("reloaded", guests=len(settings.serve.guests)))

    async def _reload(self, settings: Settings, serve: ServeSettings) -> None:
        before = self._settings
        # The listeners stay where they are, whatever the file says about them now.
        check_token("the operator API", before.operator_address, settings.token)
        check_token("the management API", before.arm, serve.management_token)
        self._settings = replace(before, token=settings.token, serve=replace(serve, inventory=()))
        try:
            if self._tls is not None:
                certificates = await asyncio.to_thread(self._load_certificates)
                certificates.context()  # refuses what does not fit together
                self._tls.load_cert_chain(certificates.chain, certificates.key)
            await self._apply_inventory(serve)
            if self._ensure_groups is not None:
                await self._ensure_groups()
        except BaseException:
            self._settings = before
            raise
        if isinstance(self.listeners, AddressedListeners):
            self.listeners.set_guests(serve.guests)
        self._tokens = await self._open_tokens()
        for replaceable in self._apps:
            replaceable.renew()

    async def _apply_inventory(self, serve: ServeSettings) -> None:
        """Bring the fleet in step with the inventory; another node may do the same meanwhile."""
        version = serve.inventory_version
        sync = await Control(self.engine).apply_inventory(
            PLATFORM,
            serve.inventory,
            version,
            budgets=serve.budgets,
            labels=serve.labels,
            replaces=serve.replaces,
            remove_most=serve.remove_most,
        )
        self.engine.membership.inventory = str(version)
        if sync.written or sync.removed:
            log.info(
                LogMessage("inventory_applied", version=version, written=sync.written, removed=sync.removed)
            )
        if sync.kept:
            self.notes += (start_notes.kept_machines_note(sync.kept),)
            names = ", ".join(sync.kept)
            log.warning(LogMessage("machines_not_in_inventory", machines=len(sync.kept), names=names))

    async def _open_metadata(self) -> None:
        settings = self._settings
        control = Control(self.engine)
        attestation = Attestation(self._sign, SystemClock().now)
        others, readyz = (self._identity(), attestation, self._user_data), settings.serve is not None
        app = MetadataApp(control, settings.profile, *others, readyz=readyz)
        await start_replays(control, settings.replays, app.replay, self._replayed)
        now, limits = self.engine.clock.now, self._guest_limits()
        server = HttpServer[MachineRef](app.answer, now, limits, fast_path=app, bind=self._bind_guests)
        self._stack.push_async_callback(server.close)
        self.listeners = self._machine_listeners(server)
        subscription = self._stack.enter_context(self.engine.feed.subscribe())
        await self.listeners.open_shared()
        scopes = tuple(self.engine.scopes().values())
        await self.listeners.open(ref for scope in scopes for ref in scope.refs())
        await self._run_in_background(sync_listeners(self.engine, self.listeners, app.forget, subscription))
        self._document = app.document
        self._metric_sources += [
            lambda: server.metrics().families("fairwarning_metadata"),
            lambda: families(self._http_listeners),
        ]

    def _machine_listeners(self, server: HttpServer[MachineRef]) -> MachineListeners:
        settings, engine = self._settings, self.engine
        if settings.serve is not None:
            guests = settings.serve.guests
            return AddressedListeners(server, settings.listen, settings.sockets, guests, engine.has_machine)
        plan = ListenPlan(
            port=settings.metadata_port,
            host=settings.machine_host,
            shared=settings.listen,
            addresses=machine_addresses(engine, settings.addresses),
            sockets=settings.sockets,
        )
        return Listeners(server, plan, engine.store)

    def _guest_limits(self) -> Limits:
        settings = self._settings
        return replace(
            self._shares.guests,
            grace=settings.limits.grace.total_seconds(),
            linger=settings.linger.total_seconds(),
        )

    async def _open_operator(self) -> None:
        from fairwarning.console.lazy_mount import LazyMount
        from fairwarning.operator.app import create_app
        from fairwarning.streams import Streams

        host, port = self._settings.operator_address
        shutdown = asyncio.Event()
        control = Control(self.engine, self._open_endpoints, self._settings.zone)
        serve = self._settings.serve
        tls = None if serve is None or not serve.operator_tls else await self._tls_context()
        listener = self._http_listener("operator", self._shares.operator, tls)
        # Streams hold their connection, so a quarter of the connections is left for other requests.
        self._streams = Streams(min(listener.limits.streams, listener.limits.connections * 3 // 4))
        self._metric_sources.append(self._streams.families)

        def make_app() -> "ASGIApp":
            app = create_app(
                control,
                endpoints=self.listeners.url,
                alternatives=self.listeners.alternatives,
                token=self._settings.token,
                throttle=self._throttle,
                loopback=loopback(host),
                shutdown=shutdown,
                management=lambda: asyncio.shield(self._management),
                metric_sources=self._metric_sources,
                streams=self._streams,
            )
            return LazyMount(app, lambda: self._console_app(shutdown, control))

        self.operator_url = await self._serve(listener, self._replaceable(make_app), host, port)
        self._stack.callback(shutdown.set)
        self.engine.membership.address = self.operator_url

    async def _open_internal(self, path: Path) -> None:
        """Answer the supervisor at a Unix socket that only this user can reach."""
        from fairwarning.operator.app import create_app
        from fairwarning.operator.routes import SERVICE_ROUTES

        app = create_app(
            Control(self.engine),
            endpoints=self.listeners.url,
            metric_sources=self._metric_sources,
            routes=SERVICE_ROUTES,
        )
        bound, socket_file = bind_unix(path, 0o600)
        self._stack.callback(socket_file.remove)
        await self._stack.enter_async_context(HttpListener("internal", ListenerLimits()).serve(app, bound))

    def _console_app(self, shutdown: asyncio.Event, control: Control) -> "ASGIApp":
        from fairwarning.console.app import create_app

        return create_app(
            control,
            endpoints=self.listeners.url,
            alternatives=self.listeners.alternatives,
            document=self._document,
            versions=served_shapes(self._settings.profile),
            token=self._settings.token,
            throttle=self._throttle,
            loopback=loopback(self._settings.operator_address[0]),
            shutdown=shutdown,
            streams=self._streams,
            secret=self._console_secret,
        )

    def _http_listener(self, name: str, connections: int, tls: ssl.SSLContext | None = None) -> HttpListener:
        limits = self._settings.limits
        limits = replace(limits, connections=min(limits.connections, connections))
        listener = HttpListener(name, limits, tls)
        self._http_listeners.append(listener)
        return listener

    async def _serve(self, listener: HttpListener, app: "ASGIApp", host: str, port: int) -> str:
        """Serve an ASGI app until the server closes; return its URL."""
        try:
            bound = self._bind_operators(host, port)
        except OSError as error:
            raise CannotListenError(f"{host}:{port}", error) from None
        url = f"{listener.scheme}://{_url_host(host)}:{bound.getsockname()[1]}"
        await self._stack.enter_async_context(listener.serve(app, bound))
        return url

    def _replaceable(self, make: "Callable[[], ASGIApp]") -> ReplaceableApp:
        app = ReplaceableApp(make)
        self._apps.append(app)
        return app

    async def _open_tokens(self) -> "Tokens":
        from fairwarning.arm.tokens import load_tokens

        # Clients compare a token's expiry with real time, even if the fleet's clock is manual.
        return await load_tokens(self.engine.store, SystemClock().now, self._settings.management_token)

    def _identity(self) -> Identity | None:
        if not self._settings.profile.identity_tokens:
            return None
        from fairwarning.arm.tokens import machine_token

        return lambda machine, resource: machine_token(self._tokens, self.engine, machine, resource)

    def _user_data(self, machine: MachineRef) -> str:
        from fairwarning.arm.compute.user_data import machine_user_data

        return machine_user_data(self.engine, self._user_data_key, machine)

    async def _sign(self, data: bytes) -> bytes | None:
        """Sign an attested document with the authority of the APIs' certificates; None if there is none."""
        await asyncio.shield(self._management)
        signer = None if self._tls is None else self._certificates.signer
        return None if signer is None else signer.sign(data)

    async def _open_arm(self) -> "ManagementEndpoint | None":
        if self._settings.arm is None:
            return None
        host, port = self._settings.arm
        tls = await self._tls_context()

        from fairwarning.arm.app import create_app
        from fairwarning.arm.context import SUBSCRIPTION, TENANT
        from fairwarning.operator.context import ManagementEndpoint

        base_url = f"https://{_url_host(host)}:{port}"
        context = await self._open_arm_context()

        def make_app() -> "ASGIApp":
            return create_app(context, base_url=base_url, tokens=self._tokens, throttle=self._throttle)

        listener = self._http_listener("management", self._shares.management, tls)
        self.arm_url = await self._serve(listener, self._replaceable(make_app), host, port)
        return ManagementEndpoint(
            url=self.arm_url,
            ca=self._certificates.ca,
            certificate=self._certificates.ca.read_text(),
            tenant=TENANT,
            subscription=SUBSCRIPTION,
        )

    async def _needed_events(self) -> set[EventId]:
        """Return the events that hold the outcome of operations that clients may still ask about."""
        from fairwarning.arm.operations import required_events

        return required_events(self.engine.view())

    async def _open_arm_context(self) -> "ArmContext":
        from fairwarning.arm.context import RETRY_AFTER, ArmContext
        from fairwarning.arm.groups import ensure_groups
        from fairwarning.arm.upkeep import Upkeep

        settings = self._settings
        is_fast = settings.manual_clock or settings.profile.policy.speed > 1
        pace = ("x-ms-retry-after-ms", "100") if is_fast else RETRY_AFTER
        context = ArmContext(self.engine, open_endpoints=self._open_endpoints, retry_after=pace)
        if settings.serve is not None:
            self._ensure_groups = partial(ensure_groups, context)
            await self._ensure_groups()
        upkeep = Upkeep(context)
        await upkeep.convert()
        await self._run_in_background(upkeep.run())
        return context

    async def _tls_context(self) -> ssl.SSLContext:
        """Return the TLS settings, which the operator API and the management API share."""
        if self._tls is None:
            self._certificates = await asyncio.to_thread(self._load_certificates)
            self.ca, self._tls = self._certificates.ca, self._certificates.context()
        return self._tls

    def _load_certificates(self) -> "Certificates":
        from fairwarning.arm.tls import Certificates, certificates

        settings = self._settings
        tls = TlsSettings() if settings.serve is None or settings.serve.tls is None else settings.serve.tls
        if tls.certificate is not None and tls.key is not None:
            return Certificates(ca=tls.certificate, chain=tls.certificate, key=tls.key)
        hosts = [*settings.arm_names, *(host for host, _ in filter(None, (settings.arm, settings.operator)))]
        if not _ALL_ADDRESSES.isdisjoint(hosts):
            # Clients of a listener on all addresses use the name of this host.
            hosts.append(socket.gethostname())
        return certificates(tls.directory or self._arm_directory(), (*hosts, *tls.names), SystemClock().now())

    def _arm_directory(self) -> Path:
        if self._settings.data is not None:
            return self._settings.data.absolute() / AUTHORITY
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fairwarning-")))

    async def _open_endpoints(self, machines: Sequence[MachineRef]) -> None:
        """Open the metadata endpoints of new machines; a failure is logged and the server goes on."""
        try:
            await self.listeners.open(machines)
        except FairWarningError as error:
            log.error(LogMessage("listener_not_opened", problem=error))

    async def _run_in_background(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            # ``run_until`` has raised what keeps a node from going on.
            with suppress(asyncio.CancelledError, IncompatibleStoreError):
                await task

        self._stack.push_async_callback(end)
        return task


def _driver(settings: Settings) -> Driver:
    if settings.driver == "external":
        return ExternalDriver(settings.overdue)
    return SimulatedDriver(
        azure_timings=settings.azure_timings, unseen_deletes_wait=not settings.manual_clock
    )


def examine(data: Path) -> "Examination":
    """Check a data directory without changing it, and return the findings."""
    from fairwarning.store import examine

    return examine.examine(data)


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
