"""Who is calling: a property of the listener or of the network path, never of the request (R-03)."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from fairwarning.core.errors import Invalid
from fairwarning.core.model import MachineRef

#: Where the addresses begin that are handed out to machines on the shared loopback listener.
FIRST_ADDRESS = IPv4Address("127.1.0.1")


class Inventory:
    """Source addresses and the machines they belong to; an address nobody has is a stranger's."""

    def __init__(self) -> None:
        self._machines: dict[str, MachineRef] = {}
        self._addresses: dict[MachineRef, str] = {}
        self._handed_out = 0

    def assign(self, machine: MachineRef, address: str | None = None) -> str:
        """Give a machine its address, or one of 127/8 that nobody has."""
        if address is None:
            address = str(FIRST_ADDRESS + self._handed_out)
            self._handed_out += 1
        address = canonical(address)
        if self._machines.get(address, machine) != machine:
            raise Invalid("address", f"{address} belongs to {self._machines[address].name} already")
        self.forget(machine)
        self._machines[address] = machine
        self._addresses[machine] = address
        return address

    def forget(self, machine: MachineRef) -> None:
        """Take a machine's address away."""
        address = self._addresses.pop(machine, None)
        if address is not None:
            del self._machines[address]

    def identify(self, peer: tuple[str, int]) -> MachineRef | None:
        """Return whose address the caller has."""
        return self._machines.get(canonical(peer[0]))

    def addresses(self) -> Mapping[MachineRef, str]:
        """Return every machine's address."""
        return self._addresses


def canonical(address: str) -> str:
    """Return an address in its one spelling; an IPv4 caller of an IPv6 listener is an IPv4 caller."""
    try:
        found = ip_address(address)
    except ValueError:
        raise Invalid("address", f"{address!r} is no IP address") from None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)
