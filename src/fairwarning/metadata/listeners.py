"""The listeners of the metadata API: where each machine finds its metadata service.

Every machine has a number for good (``machine_numbers.py``). A machine with one of the first ``own``
numbers has a port and a loopback address of its own. All other machines share a listener, where they are
identified by the address they call from (``identity.py``). With a socket folder, each machine has a unix
socket too.

    FairWarningError
    └── CannotListenError   an address cannot be bound; names the address
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
from typing import Protocol
from urllib.parse import quote

from fairwarning.core.document import snippets
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.http1.server import HttpServer, Listener
from fairwarning.metadata.identity import Inventory
from fairwarning.metadata.machine_numbers import MachineNumbers, Notes

LOOPBACK = "127.0.0.1"
#: The host of the shared listener, unless the plan names one.
SHARED = "127.0.9.1"
#: Where a client on this host reaches a listener on all addresses.
_LOCAL = {"0.0.0.0": LOOPBACK, "::": "::1"}

#: The longest path of a unix socket, in bytes.
MAX_PATH_BYTES = 107

#: Machines that get their numbers at a time.
_BATCH = 10_000


class CannotListenError(FairWarningError):
    """An address to listen on cannot be bound."""

    status_hint = 500

    def __init__(self, address: str, problem: OSError) -> None:
        reason = problem.strerror or str(problem)
        super().__init__(f"cannot listen on {address}: {reason[:1].lower()}{reason[1:]}")
        self.address = address


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenPlan:
    """Where to listen for machines; ``port`` 0 takes any free port, and opens no loopback addresses."""

    port: int = 8100
    #: The address of the ports that belong to one machine.
    host: str = LOOPBACK
    own: int = 200
    shared: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[MachineRef, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None


@dataclass(slots=True)
class _OpenListener:
    """The listeners of one machine, and their URLs."""

    listeners: list[Listener[tuple[str, int]] | Listener[Path]]
    urls: tuple[str, ...]


class MachineListeners(Protocol):
    """What a server needs of its listeners for machines."""

    async def open_shared(self) -> None:
        """Open the listeners that all machines share."""
        ...

    async def open(self, machines: Iterable[MachineRef]) -> None:
        """Open the listeners of machines that have none yet; return once all are open."""
        ...

    async def close(self, machine: MachineRef) -> None:
        """Close the listeners of a machine, with their connections."""
        ...

    def url(self, machine: MachineRef) -> str | None:
        """Return the base URL of the metadata service of a machine."""
        ...

    def alternatives(self, machine: MachineRef) -> tuple[str, ...]:
        """Return the other ways to reach the metadata service of a machine: URLs, curl options, sockets."""
        ...

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners that all machines share."""
        ...

    def machines(self) -> frozenset[MachineRef]:
        """Return the machines that have listeners of their own, or that are answered by shared ones."""
        ...


class Listeners:
    """Opens and closes listeners as machines come and go."""

    def __init__(self, server: HttpServer[MachineRef], plan: ListenPlan, notes: Notes) -> None:
        self._server = server
        self._plan = plan
        self._numbers = MachineNumbers(notes)
        self._inventory = Inventory(self._numbers)
        self._own: dict[MachineRef, _OpenListener] = {}
        self._shared: list[Listener[tuple[str, int]]] = []
        self._loaded = False
        self._lock = asyncio.Lock()

    async def open_shared(self) -> None:
        """Open the listeners that all machines share."""
        for host, port in self._plan.shared:
            await self._open_shared(host, port)

    async def open(self, machines: Iterable[MachineRef]) -> None:
        """Open the listeners of machines that have none yet; return once all are open."""
        async with self._lock:
            await self._load()
            remaining = iter(machines)
            while batch := list(islice(remaining, _BATCH)):
                for machine, number in zip(batch, await self._numbers.assign(batch), strict=True):
                    if self._inventory.activate(number) and self._needs_listener(number):
                        await self._open_or_undo(machine, number)

    async def close(self, machine: MachineRef) -> None:
        """Close the listeners of a machine, with their connections."""
        async with self._lock:
            self._inventory.deactivate(machine)
            own = self._own.pop(machine, None)
            if own is not None:
                for listener in own.listeners:
                    await listener.close()

    def url(self, machine: MachineRef) -> str | None:
        """Return the base URL of the metadata service of a machine."""
        return next(iter(self._urls(machine)), None)

    def alternatives(self, machine: MachineRef) -> tuple[str, ...]:
        """Return the other ways to reach the metadata service of a machine: URLs, curl options, sockets."""
        return self._urls(machine)[1:]

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners that all machines share."""
        return tuple(base_url(listener.address) for listener in self._shared)

    def machines(self) -> frozenset[MachineRef]:
        """Return the machines that are answered."""
        return frozenset(self._inventory)

    def _urls(self, machine: MachineRef) -> tuple[str, ...]:
        number = self._inventory.number(machine)
        if number is None:
            return ()
        own = self._own.get(machine)
        urls = () if own is None else own.urls
        address = None if number < self._plan.own else self._inventory.address(machine)
        return (
            urls
            if address is None
            else (base_url(self._shared[0].address), snippets.interface_option(address), *urls)
        )

    async def _load(self) -> None:
        if not self._loaded:
            await self._numbers.load()
            await self._inventory.assign(self._plan.addresses)
            self._loaded = True

    def _needs_listener(self, number: int) -> bool:
        """Whether a machine needs a listener that is not open; most machines of a large fleet do not."""
        return number < self._plan.own or not self._shared or self._plan.sockets is not None

    async def _open_or_undo(self, machine: MachineRef, number: int) -> None:
        try:
            await self._open_all(machine, number)
        except CannotListenError:
            # Listeners that are open already would make the next attempt fail.
            self._inventory.deactivate(machine)
            for listener in self._own.pop(machine).listeners:
                await listener.close()
            raise

    async def _open_all(self, machine: MachineRef, number: int) -> None:
        own = self._own[machine] = _OpenListener([], ())
        if number < self._plan.own:
            await self._open_own(machine, number, own)
        elif not self._shared:
            await self._open_shared(SHARED, self._plan.port)
        if self._plan.sockets is not None:
            await self._open_socket(self._plan.sockets, machine, own)

    async def _open_socket(self, folder: Path, machine: MachineRef, own: _OpenListener) -> None:
        path = folder / socket_name(folder, machine)
        with named_in_errors(str(path)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            own.listeners.append(await self._server.listen_unix(path, machine))
        own.urls += (f"unix:{path}",)

    async def _open_own(self, machine: MachineRef, number: int, own: _OpenListener) -> None:
        base = self._plan.port
        addresses = [(self._plan.host, base + 1 + number if base else 0)]
        # Without a base, the port of the loopback address would differ from machine to machine.
        if sys.platform == "linux" and base:
            addresses.append((f"127.0.10.{number + 1}", base))
        for host, port in addresses:
            with named_in_errors(f"{host}:{port}"):
                listener = await self._server.listen_tcp(host, port, lambda peer: machine)
            own.listeners.append(listener)
            own.urls += (base_url((_LOCAL.get(host, host), listener.address[1])),)

    async def _open_shared(self, host: str, port: int) -> None:
        with named_in_errors(address_text((host, port))):
            self._shared.append(await self._server.listen_tcp(host, port, self._inventory.identify))


def socket_name(folder: Path, machine: MachineRef) -> str:
    """Return the file name of a machine's socket; no other machine has the same.

    The name is the scope and the name of the machine. A name that is too long is cut and ends in ``=`` and a
    checksum of the whole name; ``=`` occurs in no other name.
    """
    plain = "+".join(quote(part, safe="") for part in machine.full.split("/"))
    limit = MAX_PATH_BYTES - len(os.fsencode(folder.absolute())) - len("/.sock")
    if len(plain) > limit:
        checksum = hashlib.sha256(plain.encode()).hexdigest()[:32]
        plain = f"{plain[: max(0, limit - 33)]}={checksum}"
    return f"{plain}.sock"


def base_url(address: tuple[str, int]) -> str:
    """Return the base URL of a listener."""
    return f"http://{address_text(address)}"


def address_text(address: tuple[str, int]) -> str:
    """Return an address and a port as they are written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def named_in_errors(address: str) -> Iterator[None]:
    """Name the address in errors of the block."""
    try:
        yield
    except OSError as problem:
        raise CannotListenError(address, problem) from problem
