"""Who is calling: a property of the listener or of the network path, never of the request (R-03)."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton

from fairwarning.core.errors import Invalid
from fairwarning.core.model import MachineRef

#: Where the addresses begin that are handed out to machines on the shared loopback listener.
FIRST_ADDRESS = IPv4Address("127.1.0.1")

_FIRST = int(FIRST_ADDRESS)


class Inventory:
    """Source addresses and the machines they belong to; an address nobody has is a stranger's.

    There may be a million machines, so an address that is handed out is not kept: it follows from the number
    of machines that came before.
    """

    def __init__(self) -> None:
        self._given: dict[str, MachineRef] = {}
        self._handed_out: list[MachineRef | None] = []
        #: Each machine's address, or the number of the one it was handed out.
        self._places: dict[MachineRef, str | int] = {}

    def __contains__(self, machine: object) -> bool:
        return machine in self._places

    def __iter__(self) -> Iterator[MachineRef]:
        return iter(self._places)

    def assign(self, machine: MachineRef, address: str | None = None) -> None:
        """Give a machine its address, or one of 127/8 that nobody has."""
        if address is not None:
            self._give(machine, canonical(address))
            return
        while self._given and _spelled(len(self._handed_out)) in self._given:
            self._handed_out.append(None)
        if machine in self._places:
            self.forget(machine)
        self._places[machine] = len(self._handed_out)
        self._handed_out.append(machine)

    def forget(self, machine: MachineRef) -> None:
        """Take a machine's address away."""
        place = self._places.pop(machine, None)
        if isinstance(place, str):
            del self._given[place]
        elif place is not None:
            self._handed_out[place] = None

    def identify(self, peer: tuple[str, int]) -> MachineRef | None:
        """Return whose address the caller has."""
        address, _ = peer
        return self._owner(canonical(address) if ":" in address else address)

    def address(self, machine: MachineRef) -> str:
        """Return the address of a machine that has one."""
        place = self._places[machine]
        return place if isinstance(place, str) else _spelled(place)

    def _give(self, machine: MachineRef, address: str) -> None:
        owner = self._owner(address)
        if owner is not None and owner != machine:
            raise Invalid("address", f"{address} belongs to {owner.name} already")
        self.forget(machine)
        self._given[address] = machine
        self._places[machine] = address

    def _owner(self, address: str) -> MachineRef | None:
        found = self._given.get(address)
        if found is not None or ":" in address:
            return found
        number = int.from_bytes(inet_aton(address), "big") - _FIRST
        return self._handed_out[number] if 0 <= number < len(self._handed_out) else None


def _spelled(number: int) -> str:
    return str(FIRST_ADDRESS + number)


def canonical(address: str) -> str:
    """Return an address in its one spelling; an IPv4 caller of an IPv6 listener is an IPv4 caller."""
    try:
        found = ip_address(address)
    except ValueError:
        raise Invalid("address", f"{address!r} is no IP address") from None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)
