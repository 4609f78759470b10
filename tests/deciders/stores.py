"""The stores that the tests of several deciders run on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from fairwarning.engine.ports import Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SqliteStore
from tests.deciders.virtual_time import RealLoop, VirtualLoop
from tests.postgres import empty_database


async def open_memory(_: Path) -> Store:
    return MemoryStore()


async def open_postgres(_: Path) -> Store:
    return await PostgresStore.open(empty_database())


STORES: Mapping[str, Callable[[Path], Awaitable[Store]]] = {
    "memory": open_memory,
    "sqlite": SqliteStore.open,
    "postgres": open_postgres,
}


#: The stores for random histories, which need virtual time.
IN_PROCESS = ("memory", "sqlite")


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Return a loop in virtual time, unless the store is in another process and takes real time."""
    return RealLoop() if kind == "postgres" else VirtualLoop()
