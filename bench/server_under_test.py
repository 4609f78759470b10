"""Our metadata API alone in a process, without a rate limit.

``python -m bench.server_under_test PORT SETS MACHINES [portable] [calls] [data=DIR] [dsn=DSN]`` answers on
one listener, which knows machines by their source address. The fleet is in memory, in a directory, or in a
PostgreSQL that other nodes may use, too; a new fleet has one pending event per set. With ``calls``, the
server prints its URL once it is ready (port 0 is any free port) and takes the calls of
``bench.operator_calls`` on standard input.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fairwarning.control.control import Control
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint
from fairwarning.core.commands import CreateSet, Schedule
from fairwarning.core.model import MachineRef, ScopeId, ScopeKind
from fairwarning.core.policy import PROFILES
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.http1.limits import raise_descriptor_limit, share_descriptors
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Rate
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.listeners import LOOPBACK, Listeners, ListenPlan
from fairwarning.store.memory import MemoryStore

UNLIMITED = replace(PROFILES["azure"], requests_per_second=1e12, burst=1e12)


async def populate(engine: Engine, sets: int, machines: int) -> None:
    """Create sets that are enabled and have one event each."""
    for number in range(sets):
        name = f"set{number}"
        await engine.handle(CreateSet(seed="bench", blueprint=_blueprint(name, machines)))
        first = next(iter(engine.scope(ScopeId(name)).machines.values())).ref
        await engine.poll(first)
        await engine.handle(Schedule(id=new_event_id(), cause="restart", machines=(first,)))


def _blueprint(name: str, machines: int) -> Blueprint:
    """Return a scale set, or a cloud service of several roles for larger sets."""
    if machines <= MOST_MACHINES:
        return Blueprint(name=name, count=machines)
    counts = [min(MOST_MACHINES, machines - begun) for begun in range(0, machines, MOST_MACHINES)]
    roles = tuple((f"{name}r{number}", count) for number, count in enumerate(counts))
    return Blueprint(name=name, kind=ScopeKind.CLOUD_SERVICE, roles=roles)


async def opened(store: Store) -> Engine:
    """Return an open engine on a store."""
    engine = Engine(store, SystemClock(), SimulatedDriver(), UNLIMITED.policy)
    await engine.open()
    return engine


async def _store(options: Mapping[str, str]) -> Store:
    if "dsn" in options:
        from fairwarning.store.postgres.store import PostgresStore

        return await PostgresStore.open(options["dsn"], migrate=True)
    if "data" in options:
        from fairwarning.store.sqlite import SqliteStore

        return await SqliteStore.open(Path(options["data"]))
    return MemoryStore()


async def serve(port: int, sets: int, machines: int, options: Mapping[str, str]) -> None:
    """Answer polls until SIGTERM."""
    gc.disable()  # as `fairwarning up`: the fleet stays, so it is frozen before the first collection
    store = await _store(options)
    engine = await opened(store)
    if not engine.scopes():
        await populate(engine, sets, machines)
    app = MetadataApp(Control(engine), UNLIMITED)
    server = HttpServer[MachineRef](
        app.answer,
        engine.clock.now,
        replace(share_descriptors(raise_descriptor_limit()).guests, steps=Rate(1e12, 1e12)),
        fast_path=app,
        portable="portable" in options,
    )
    listeners = Listeners(server, ListenPlan(port=port, own=0, shared=((LOOPBACK, port),)), store)
    await listeners.open_shared()
    scopes = tuple(engine.scopes().values())
    await listeners.open(ref for scope in scopes for ref in scope.refs())
    gc.freeze()
    gc.enable()
    work: list[Coroutine[object, None, None]] = [timer.run(engine, SystemClock())]
    if "dsn" in options:
        work.append(engine.follow())
    if "calls" in options:
        from bench.operator_calls import serve_calls

        work.append(serve_calls(engine, *listeners.shared_urls()))
    running = asyncio.gather(*work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
    await server.close()
    await engine.close()
    await store.close()


def main(words: Sequence[str]) -> None:
    """Serve with the options of the command line."""
    port, sets, machines = map(int, words[:3])
    options = {name: value for name, _, value in (word.partition("=") for word in words[3:])}
    asyncio.run(serve(port, sets, machines, options))


if __name__ == "__main__":
    main(sys.argv[1:])
