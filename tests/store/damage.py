"""A small database with everything in it, and the ways to damage a copy of it."""

import asyncio
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from fairwarning.core.changes import EventChanged, EventMilestone, PollsRecorded, Published, TextChanged
from fairwarning.core.model import Event, Machine, Scope, ScopeId
from fairwarning.engine.ports import Entry, FleetSnapshot, Lease, Store
from fairwarning.store.checks import select_rows
from fairwarning.store.rows import read_leases
from fairwarning.store.sqlite import DATABASE, SqliteStore
from tests.conftest import NOON
from tests.store.stores import Node, event, made

WAL = f"{DATABASE}-wal"


class State(NamedTuple):
    """Everything that can be read from a store."""

    scopes: list[tuple[Scope, list[Machine], list[Event]]]
    lines: list[Entry]
    texts: list[tuple[str, str]]
    value: str | None
    leases: Mapping[str, Lease]
    snapshot: FleetSnapshot


async def fill(store: Store, rounds: int) -> None:
    """Store scopes, machines, events, polls, texts, values, leases and a journal, in many batches."""
    node = Node()
    for name in ("web", "db"):
        await store.commit(node.decide(made(name, *(f"{name}_{number}" for number in range(8)))))
    for number in range(rounds):
        kept = event("web", number, "web_1", "web_2")
        changes = (
            EventChanged(scope=ScopeId("web"), event=kept, what=EventMilestone.SCHEDULED, by="operator"),
            Published(scope=ScopeId("web"), incarnation=8 + number),
            PollsRecorded(at=NOON + timedelta(hours=number), scopes=(ScopeId("web"), ScopeId("db"))),
        )
        await store.commit(node.decide(changes))
        await store.commit(node.decide([TextChanged(key=f"operation:{number}", text=f"<{number}>" * 20)]))
        await store.claim(f"host {number}", "a node", NOON, timedelta(minutes=1))
    await store.put_value("clock", NOON.isoformat())


async def state(store: SqliteStore) -> State:
    """Return everything in a store."""
    found = await store.snapshot()
    return State(
        [(one, list(one.machines.values()), list(one.events.values())) for one in found.scopes.values()],
        list(await store.journal(limit=100_000)),
        list(found.texts.items()),
        await store.get_value("clock"),
        await store._read(lambda database: read_leases(database.execute(select_rows("claim")))),
        found,
    )


async def read(directory: Path) -> State:
    """Open a directory and return everything in it."""
    store = await SqliteStore.open(directory)
    try:
        return await state(store)
    finally:
        await store.close()


@dataclass(frozen=True)
class Sample:
    """A data directory that a server left behind, and its contents."""

    directory: Path
    state: State

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.directory, to)
        return to


def closed(directory: Path, rounds: int = 12) -> Sample:
    """Return the directory of a stopped server."""

    async def scene() -> State:
        store = await SqliteStore.open(directory)
        try:
            await fill(store, rounds)
            return await state(store)
        finally:
            await store.close()

    return Sample(directory, asyncio.run(scene()))


def killed(directory: Path, rounds: int = 12) -> Sample:
    """Return the directory of a killed server: the last commits are only in the log."""

    async def scene() -> State:
        store = await SqliteStore.open(directory / "running")
        try:
            await fill(store, rounds)
            shutil.copytree(directory / "running", directory / "left")
            return await state(store)
        finally:
            await store.close()

    found = asyncio.run(scene())
    assert (directory / "left" / WAL).stat().st_size > 0
    return Sample(directory / "left", found)


@dataclass(frozen=True)
class Damage:
    """A way to damage a file."""

    name: str
    file: str
    start: int
    data: bytes

    def do(self, directory: Path) -> None:
        with (directory / self.file).open("r+b") as stream:
            stream.seek(self.start)
            stream.write(self.data)


def flips(sample: Sample, file: str, count: int, seed: int) -> Sequence[Damage]:
    """Return damages that flip a single bit, all over a file."""
    chance, content = random.Random(seed), (sample.directory / file).read_bytes()
    return [_flip(file, content, chance.randrange(len(content)), chance.randrange(8)) for _ in range(count)]


def header_flips(sample: Sample, file: str, length: int) -> Sequence[Damage]:
    """Return damages that flip a single bit, for each bit at the beginning of a file."""
    content = (sample.directory / file).read_bytes()
    return [_flip(file, content, at, bit) for at in range(length) for bit in range(8)]


def _flip(file: str, content: bytes, at: int, bit: int) -> Damage:
    return Damage(f"{file} byte {at} bit {bit}", file, at, bytes([content[at] ^ (1 << bit)]))


def overwritten(sample: Sample, file: str, count: int, seed: int) -> Sequence[Damage]:
    """Return damages that overwrite a page with zeros, or a few bytes with invalid text."""
    chance, size = random.Random(seed), (sample.directory / file).stat().st_size
    pages = [Damage(f"{file} page {at} zeroed", file, at, bytes(4096)) for at in range(0, size, 4096)]
    noise = [
        Damage(f"{file} noise at {at}", file, at, chance.randbytes(chance.randrange(1, 9)))
        for at in (chance.randrange(size - 8) for _ in range(count))
    ]
    return [*pages, *noise]
