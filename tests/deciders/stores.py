"""The stores that the tests of several deciders run on."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from fairwarning.engine.ports import Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore


async def open_memory(_: Path) -> Store:
    return MemoryStore()


STORES: Mapping[str, Callable[[Path], Awaitable[Store]]] = {
    "memory": open_memory,
    "sqlite": SqliteStore.open,
}
