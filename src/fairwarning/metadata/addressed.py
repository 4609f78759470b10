"""The listeners of the metadata API for machines that are real: an inventory says where their guests are.

All guests share the listeners, and a guest is the machine that the inventory has at its source address.
Nothing is stored, so every node that has the inventory knows the same guests. With a socket folder, each
machine has a unix socket too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from fairwarning.core.document import snippets
from fairwarning.core.inputs import parse_address
from fairwarning.core.model import MachineRef
from fairwarning.http1.server import HttpServer, Listener
from fairwarning.metadata.listeners import address_text, base_url, named_in_errors, socket_name


class AddressedListeners:
    """Listeners that all machines share, and sockets that open and close as machines come and go."""

    def __init__(
        self,
        server: HttpServer[MachineRef],
        shared: Iterable[tuple[str, int]],
        sockets: Path | None,
        guests: Mapping[str, MachineRef],
        exists: Callable[[MachineRef], bool],
    ) -> None:
        self._server = server
        self._plan = tuple(shared)
        self._folder = sockets
        self._exists = exists
        self._shared: list[Listener[tuple[str, int]]] = []
        self._sockets: dict[MachineRef, tuple[Path, Listener[Path]]] = {}
        self._machine_at: Mapping[str, MachineRef] = {}
        self.set_guests(guests)

    def set_guests(self, guests: Mapping[str, MachineRef]) -> None:
        """Know guests by these addresses from now on, also those that are connected."""
        moved = {machine for address, machine in self._machine_at.items() if guests.get(address) != machine}
        self._disconnect({*moved, None})
        self._machine_at = guests
        self._address_of: dict[MachineRef, str] = {}
        for address, machine in guests.items():
            self._address_of.setdefault(machine, address)

    async def open_shared(self) -> None:
        """Open the listeners that all machines share."""
        for host, port in self._plan:
            with named_in_errors(address_text((host, port))):
                self._shared.append(await self._server.listen_tcp(host, port, self.identify))

    async def open(self, machines: Iterable[MachineRef]) -> None:
        """Open the sockets of machines that have none yet."""
        if self._folder is None:
            return
        for machine in machines:
            if machine not in self._sockets:
                path = self._folder / socket_name(self._folder, machine)
                with named_in_errors(str(path)):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._sockets[machine] = path, await self._server.listen_unix(path, machine)

    async def close(self, machine: MachineRef) -> None:
        """Close the socket of a machine, and all its connections."""
        self._disconnect({machine})
        opened = self._sockets.pop(machine, None)
        if opened is not None:
            await opened[1].close()

    def identify(self, peer: tuple[str, int]) -> MachineRef | None:
        """Return the machine that calls from an address."""
        address, _ = peer
        machine = self._machine_at.get(parse_address(address) if ":" in address else address)
        return machine if machine is not None and self._exists(machine) else None

    def url(self, machine: MachineRef) -> str | None:
        """Return the base URL of the metadata service of a machine."""
        return next(iter(self._urls(machine)), None)

    def alternatives(self, machine: MachineRef) -> tuple[str, ...]:
        """Return the other ways to reach the metadata service of a machine: curl options, sockets."""
        return self._urls(machine)[1:]

    def shared_urls(self) -> tuple[str, ...]:
        """Return the base URLs of the listeners that all machines share."""
        return tuple(base_url(listener.address) for listener in self._shared)

    def machines(self) -> frozenset[MachineRef]:
        """Return the machines that have a socket."""
        return frozenset(self._sockets)

    def _disconnect(self, callers: Collection[MachineRef | None]) -> None:
        for listener in self._shared:
            listener.disconnect(callers)

    def _urls(self, machine: MachineRef) -> tuple[str, ...]:
        sockets = (f"unix:{self._sockets[machine][0]}",) if machine in self._sockets else ()
        address = self._address_of.get(machine)
        if address is None or not self._shared:
            return sockets
        return base_url(self._shared[0].address), snippets.interface_option(address), *sockets
