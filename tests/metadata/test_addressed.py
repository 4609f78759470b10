"""Guests of real machines: known by the addresses of an inventory, and by no other."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from pathlib import Path

from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.metadata.addressed import AddressedListeners
from tests.guest import NOON

DB, WEB = (MachineRef(ScopeId(name), VmName(name)) for name in ("db", "web"))
GUESTS = {"127.66.0.1": DB, "127.66.0.2": WEB, "fd00::1": WEB}


def answer(caller: MachineRef | None, request: Request) -> Reply:
    """Tell the caller who it is."""
    return Response(status=200, body=b"nobody" if caller is None else caller.name.encode())


@asynccontextmanager
async def listening(
    sockets: Path | None = None, existing: Container[MachineRef] = (DB, WEB)
) -> AsyncIterator[AddressedListeners]:
    """Give listeners on a free port during the block."""
    server = HttpServer[MachineRef](answer, lambda: NOON)
    listeners = AddressedListeners(
        server, [("127.0.0.1", 0)], sockets, GUESTS, lambda machine: machine in existing
    )
    await listeners.open_shared()
    try:
        yield listeners
    finally:
        await server.close()


class Guest:
    """A connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, listeners: AddressedListeners, source: str) -> "Guest":
        host, _, port = listeners.shared_urls()[0].removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port), local_addr=(source, 0)))

    async def ask(self) -> str:
        """Return what the server takes this guest for; empty if it has hung up."""
        self._writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            return (await self._reader.readexactly(length)).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def test_a_guest_is_the_machine_at_its_address() -> None:
    async def story() -> list[str]:
        async with listening() as listeners:
            guests = [await Guest.connect(listeners, f"127.66.0.{number}") for number in (1, 2, 3)]
            names = [await guest.ask() for guest in guests]
            for guest in guests:
                guest.close()
            return names

    assert asyncio.run(story()) == ["db", "web", "nobody"]


def test_an_address_is_compared_in_its_canonical_spelling() -> None:
    async def story() -> list[MachineRef | None]:
        async with listening() as listeners:
            texts = ("::ffff:127.66.0.1", "fd00:0:0::1", "fd00::2")
            return [listeners.identify((text, 1234)) for text in texts]

    assert asyncio.run(story()) == [DB, WEB, None]


def test_a_machine_that_is_gone_has_no_guest() -> None:
    async def story() -> MachineRef | None:
        async with listening(existing={WEB}) as listeners:
            return listeners.identify(("127.66.0.1", 1234))

    assert asyncio.run(story()) is None


def test_an_open_connection_does_not_keep_an_address_that_another_machine_has_now() -> None:
    async def story() -> list[str]:
        async with listening() as listeners:
            moved = await Guest.connect(listeners, "127.66.0.1")
            stays = await Guest.connect(listeners, "127.66.0.2")
            before = await moved.ask()
            listeners.set_guests({**GUESTS, "127.66.0.1": WEB})
            after, other = await moved.ask(), await stays.ask()
            again = await Guest.connect(listeners, "127.66.0.1")
            now = await again.ask()
            for guest in (moved, stays, again):
                guest.close()
            return [before, after, other, now]

    assert asyncio.run(story()) == ["db", "", "web", "web"]


def test_a_deleted_machine_is_disconnected() -> None:
    async def story() -> tuple[str, str]:
        async with listening() as listeners:
            guest = await Guest.connect(listeners, "127.66.0.1")
            before = await guest.ask()
            await listeners.close(DB)
            after = await guest.ask()
            guest.close()
            return before, after

    assert asyncio.run(story()) == ("db", "")


def test_each_machine_has_a_socket_of_its_own(tmp_path: Path) -> None:
    async def story() -> tuple[str, tuple[str, ...], frozenset[MachineRef]]:
        async with listening(tmp_path) as listeners:
            await listeners.open([DB, WEB])
            path = listeners.alternatives(DB)[-1].removeprefix("unix:")
            guest = Guest(*await asyncio.open_unix_connection(path))
            name = await guest.ask()
            guest.close()
            await listeners.close(WEB)
            return name, listeners.alternatives(WEB), listeners.machines()

    name, ways, machines = asyncio.run(story())

    assert name == "db"
    assert ways == ("--interface 127.66.0.2",)
    assert machines == {DB}
