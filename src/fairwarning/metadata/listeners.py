"""The addresses at which each machine finds its metadata service.

Every machine has a number for good (``numbers.py``). The first numbers come with a port and an address to
call; whoever has a later one is known by the address it calls from, on a listener that all share. Where asked
for, each machine has a unix socket too, named after its scope and itself.

    FairWarningError
    └── CannotListen   an address cannot be had; says which
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from fairwarning.core.document import snippets
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.http1.server import HttpServer, Listener
from fairwarning.metadata.identity import Inventory
from fairwarning.metadata.machine_numbers import MachineNumbers, Notes

LOOPBACK = "127.0.0.1"
SHARED = "127.0.9.1"

#: How many bytes the path of a unix socket may have.
LONGEST_PATH = 107

#: How many machines are given their numbers at a time.
_BATCH = 10_000


class CannotListenError(FairWarningError):
    """An address we were told to listen on cannot be had."""

    status_hint = 500

    def __init__(self, address: str, problem: OSError) -> None:
        reason = problem.strerror or str(problem)
        super().__init__(f"cannot listen on {address}: {reason[:1].lower()}{reason[1:]}")
        self.address = address


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenPlan:
    """Where machines are to be answered; ``port`` 0 takes any free port, and no addresses of their own."""

    port: int = 8100
    own: int = 200
    shared: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[MachineRef, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None


@dataclass(slots=True)
class _OpenListener:
    """Where one machine is listened to, and what is told of it."""

    listeners: list[Listener[tuple[str, int]] | Listener[Path]]
    urls: tuple[str, ...]


class Listeners:
    """Opens and closes listeners as machines come and go."""

    def __init__(self, server: HttpServer[MachineRef], plan: ListenPlan, notes: Notes) -> None:
        self._server = server
        self._plan = plan
        self._numbers = MachineNumbers(notes)
        self._inventory = Inventory(self._numbers)
        self._doors: dict[MachineRef, _OpenListener] = {}
        self._shared: list[Listener[tuple[str, int]]] = []
        self._ready = False
        self._lock = asyncio.Lock()

    async def open_shared(self) -> None:
        """Open the listeners on which callers are told apart by their address."""
        for host, port in self._plan.shared:
            await self._share(host, port)

    async def open(self, machines: Iterable[MachineRef]) -> None:
        """Give every machine that has none its door; return once all of them are open."""
        async with self._lock:
            await self._prepare()
            left = iter(machines)
            while batch := list(islice(left, _BATCH)):
                for machine, number in zip(batch, await self._numbers.give(batch), strict=True):
                    if self._inventory.admit(number) and self._needs_door(number):
                        await self._admit(machine, number)

    async def close(self, machine: MachineRef) -> None:
        """Close a machine's door; its connections go with it."""
        async with self._lock:
            self._inventory.dismiss(machine)
            door = self._doors.pop(machine, None)
            if door is not None:
                for listener in door.listeners:
                    await listener.close()

    def url(self, machine: MachineRef) -> str | None:
        """Return the base URL of a machine's metadata service."""
        return next(iter(self._urls(machine)), None)

    def alternatives(self, machine: MachineRef) -> tuple[str, ...]:
        """Return the other ways to a machine's metadata service, as one would paste them."""
        return self._urls(machine)[1:]

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners that all machines share."""
        return tuple(_url(listener.address) for listener in self._shared)

    def machines(self) -> frozenset[MachineRef]:
        """Return the machines that have a door."""
        return frozenset(self._inventory)

    def _urls(self, machine: MachineRef) -> tuple[str, ...]:
        number = self._inventory.number(machine)
        if number is None:
            return ()
        door = self._doors.get(machine)
        own = () if door is None else door.urls
        address = None if number < self._plan.own else self._inventory.address(machine)
        return (
            own
            if address is None
            else (_url(self._shared[0].address), snippets.interface_option(address), *own)
        )

    async def _prepare(self) -> None:
        if not self._ready:
            await self._numbers.load()
            await self._inventory.name(self._plan.addresses)
            self._ready = True

    def _needs_door(self, number: int) -> bool:
        """Whether a machine needs more than what all share, as most machines of a large fleet do not."""
        return number < self._plan.own or not self._shared or self._plan.sockets is not None

    async def _admit(self, machine: MachineRef, number: int) -> None:
        try:
            await self._build(machine, number)
        except CannotListenError:
            # Half a door would be in the way of the next try.
            self._inventory.dismiss(machine)
            for listener in self._doors.pop(machine).listeners:
                await listener.close()
            raise

    async def _build(self, machine: MachineRef, number: int) -> None:
        door = self._doors[machine] = _OpenListener([], ())
        if number < self._plan.own:
            await self._build_own(machine, number, door)
        elif not self._shared:
            await self._share(SHARED, self._plan.port)
        if self._plan.sockets is not None:
            await self._build_socket(self._plan.sockets, machine, door)

    async def _build_socket(self, folder: Path, machine: MachineRef, door: _OpenListener) -> None:
        path = folder / socket_name(folder, machine)
        with _named(str(path)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            door.listeners.append(await self._server.listen_unix(path, machine))
        door.urls += (f"unix:{path}",)

    async def _build_own(self, machine: MachineRef, number: int, door: _OpenListener) -> None:
        base = self._plan.port
        doors = [(LOOPBACK, base + 1 + number if base else 0)]
        # Any free port is another one at each address, which nobody could guess.
        if sys.platform == "linux" and base:
            doors.append((f"127.0.10.{number + 1}", base))
        for host, port in doors:
            with _named(f"{host}:{port}"):
                listener = await self._server.listen_tcp(host, port, lambda peer: machine)
            door.listeners.append(listener)
            door.urls += (_url(listener.address),)

    async def _share(self, host: str, port: int) -> None:
        with _named(_address((host, port))):
            self._shared.append(await self._server.listen_tcp(host, port, self._inventory.identify))


def socket_name(folder: Path, machine: MachineRef) -> str:
    """Return the name of a machine's socket in a folder, which no other machine's has.

    It is the machine's scope and name. One that is too long for a socket is cut and ends in a checksum of the
    whole, behind a ``=`` that no other name has.
    """
    plain = "+".join(quote(part, safe="") for part in machine.full.split("/"))
    room = LONGEST_PATH - len(os.fsencode(folder.absolute())) - len("/.sock")
    if len(plain) > room:
        checksum = hashlib.sha256(plain.encode()).hexdigest()[:32]
        plain = f"{plain[: max(0, room - 33)]}={checksum}"
    return f"{plain}.sock"


def _url(address: tuple[str, int]) -> str:
    return f"http://{_address(address)}"


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _named(address: str) -> Iterator[None]:
    """Let failures of the block say which address they are about."""
    try:
        yield
    except OSError as problem:
        raise CannotListenError(address, problem) from problem
