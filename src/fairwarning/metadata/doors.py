"""The addresses at which each machine finds its metadata service.

The first machines get a port and an address of their own; whoever comes later is known by the address it
calls from, on a listener that all share. Where asked for, each machine has a unix socket too.

    FairWarningError
    └── CannotListen   an address cannot be had; says which
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.metadata.identity import Inventory
from fairwarning.metadata.server import Listener, MetadataServer

LOOPBACK = "127.0.0.1"
SHARED = "127.0.9.1"


class CannotListen(FairWarningError):
    """An address we were told to listen on cannot be had."""

    status_hint = 500

    def __init__(self, address: str, problem: OSError) -> None:
        reason = problem.strerror or str(problem)
        super().__init__(f"cannot listen on {address}: {reason[:1].lower()}{reason[1:]}")
        self.address = address


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where machines are to be answered; ``port`` 0 takes any free port, and no addresses of their own."""

    port: int = 8100
    own: int = 200
    shared: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[MachineRef, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None


@dataclass(slots=True)
class _Door:
    """Where one machine is listened to, and what is told of it."""

    listeners: list[Listener[tuple[str, int]] | Listener[Path]]
    urls: tuple[str, ...]


class Doors:
    """Opens and closes listeners as machines come and go."""

    def __init__(
        self,
        server: MetadataServer[MachineRef],
        plan: Plan,
        remember: Callable[[str], Awaitable[None]],
        slots: str | None = None,
    ) -> None:
        self._server = server
        self._plan = plan
        self._remember = remember
        self._slots: dict[str, int] = json.loads(slots) if slots else {}
        self._doors: dict[MachineRef, _Door] = {}
        self._inventory = Inventory()
        self._shared: list[Listener[tuple[str, int]]] = []
        self._lock = asyncio.Lock()

    async def open_shared(self) -> None:
        """Open the listeners on which callers are told apart by their address."""
        for host, port in self._plan.shared:
            await self._share(host, port)

    async def open(self, machines: Iterable[MachineRef]) -> None:
        """Give every machine that has none its door; return once all of them are open."""
        async with self._lock:
            taken = dict(self._slots)
            for machine in machines:
                if machine not in self._inventory:
                    self._inventory.assign(machine, self._plan.addresses.get(machine))
                    # Most machines of a large fleet share all they need.
                    if self._has_own(machine) or not self._shared or self._plan.sockets is not None:
                        await self._admit(machine)
            if self._slots != taken:
                await self._remember(json.dumps(self._slots))

    async def close(self, machine: MachineRef) -> None:
        """Close a machine's door; its connections go with it."""
        async with self._lock:
            self._inventory.forget(machine)
            door = self._doors.pop(machine, None)
            if door is None:
                return
            for listener in door.listeners:
                await listener.close()
            if self._slots.pop(machine.full, None) is not None:
                await self._remember(json.dumps(self._slots))

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
        if machine not in self._inventory:
            return ()
        door = self._doors.get(machine)
        own = () if door is None else door.urls
        if machine.full in self._slots:
            return own
        return (_url(self._shared[0].address), f"--interface {self._inventory.address(machine)}", *own)

    def _has_own(self, machine: MachineRef) -> bool:
        """Whether a machine has a port of its own, or is to get one."""
        return len(self._slots) < self._plan.own or machine.full in self._slots

    async def _admit(self, machine: MachineRef) -> None:
        try:
            await self._build(machine)
        except CannotListen:
            # Half a door would be in the way of the next try.
            self._inventory.forget(machine)
            for listener in self._doors.pop(machine).listeners:
                await listener.close()
            raise

    async def _build(self, machine: MachineRef) -> None:
        door = self._doors[machine] = _Door([], ())
        if self._has_own(machine):
            await self._build_own(machine, door)
        elif not self._shared:
            await self._share(SHARED, self._plan.port)
        if self._plan.sockets is not None:
            await self._build_socket(self._plan.sockets, machine, door)

    async def _build_socket(self, folder: Path, machine: MachineRef, door: _Door) -> None:
        path = self._socket_path(folder, machine)
        with _named(str(path)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            door.listeners.append(await self._server.listen_unix(path, machine))
        door.urls += (f"unix:{path}",)

    async def _build_own(self, machine: MachineRef, door: _Door) -> None:
        slot = self._slots.setdefault(machine.full, self._free_slot())
        base = self._plan.port
        doors = [(LOOPBACK, base + 1 + slot if base else 0)]
        # Any free port is another one at each address, which nobody could guess.
        if sys.platform == "linux" and base:
            doors.append((f"127.0.10.{slot + 1}", base))
        for host, port in doors:
            with _named(f"{host}:{port}"):
                listener = await self._server.listen_tcp(host, port, lambda peer: machine)
            door.listeners.append(listener)
            door.urls += (_url(listener.address),)

    async def _share(self, host: str, port: int) -> None:
        with _named(_address((host, port))):
            self._shared.append(await self._server.listen_tcp(host, port, self._inventory.identify))

    def _free_slot(self) -> int:
        taken = set(self._slots.values())
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def _socket_path(self, folder: Path, machine: MachineRef) -> Path:
        plain = folder / f"{machine.name}.sock"
        others = {door.address for found in self._doors.values() for door in found.listeners}
        full = machine.full.replace("/", ".")
        return folder / f"{full}.sock" if plain in others else plain


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
        raise CannotListen(address, problem) from problem
