"""Who is calling: a property of the listener or of the network path, never of the request (R-03)."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton, inet_ntoa

from fairwarning.core.errors import InvalidError
from fairwarning.core.model import MachineRef
from fairwarning.metadata.machine_numbers import MachineNumbers

#: The addresses that machines have on the shared loopback listener, in order of their numbers.
FIRST_ADDRESS, LAST_ADDRESS = IPv4Address("127.1.0.1"), IPv4Address("127.255.255.254")

_FIRST, _LAST = int(FIRST_ADDRESS), int(LAST_ADDRESS)


class Inventory:
    """Source addresses and the machines they belong to; an address nobody has is a stranger's.

    A machine's address follows from its number, unless it was named by who operates the network.
    """

    def __init__(self, numbers: MachineNumbers) -> None:
        self._numbers = numbers
        #: For every number that was given, whether its machine is answered.
        self._answered = bytearray()
        self._named: dict[MachineRef, str] = {}
        self._bearers: dict[str, MachineRef] = {}

    def __contains__(self, machine: MachineRef) -> bool:
        return self.number(machine) is not None

    def __iter__(self) -> Iterator[MachineRef]:
        for number, answered in enumerate(self._answered):
            owner = self._numbers.owner(number) if answered else None
            if owner is not None:
                yield owner

    async def name(self, addresses: Mapping[MachineRef, str]) -> None:
        """Let machines have these addresses and no others; nobody will be given one of them by number.

        Raises:
            Invalid: an address is none, or belongs to another machine.
        """
        withheld = []
        for machine, spelled in addresses.items():
            address = canonical(spelled)
            number = _number(address)
            owner = None if number is None else self._numbers.owner(number)
            if number is not None and owner is None:
                withheld.append(number)
            owner = owner or self._bearers.get(address, machine)
            if owner != machine:
                raise InvalidError("address", f"{address} belongs to {owner.name} already")
            self._bearers[address], self._named[machine] = machine, address
        await self._numbers.withhold(withheld)

    def admit(self, number: int) -> bool:
        """Answer the machine with this number from now on; False if it was answered already."""
        if number >= len(self._answered):
            self._answered.extend(bytes(number + 1 - len(self._answered)))
        before, self._answered[number] = self._answered[number], 1
        return not before

    def dismiss(self, machine: MachineRef) -> None:
        """Answer a machine no more; its number stays its own."""
        number = self.number(machine)
        if number is not None:
            self._answered[number] = 0

    def number(self, machine: MachineRef) -> int | None:
        """Return the number of a machine that is answered."""
        number = self._numbers.number(machine)
        return number if number is not None and self._is_answered(number) else None

    def identify(self, peer: tuple[str, int]) -> MachineRef | None:
        """Return whose address the caller has."""
        address, _ = peer
        return self._owner(canonical(address) if ":" in address else address)

    def address(self, machine: MachineRef) -> str | None:
        """Return the address of a machine that is answered; there are fewer of them than numbers."""
        number = self.number(machine)
        if number is None or _FIRST + number > _LAST:
            return self._named.get(machine)
        return self._named.get(machine) or inet_ntoa((_FIRST + number).to_bytes(4, "big"))

    def _owner(self, address: str) -> MachineRef | None:
        bearer = self._bearers.get(address)
        if bearer is not None:
            return bearer if bearer in self else None
        number = _number(address)
        if number is None or not self._is_answered(number):
            return None
        owner = self._numbers.owner(number)
        return None if owner in self._named else owner

    def _is_answered(self, number: int) -> bool:
        return number < len(self._answered) and self._answered[number] == 1


def _number(address: str) -> int | None:
    """Return the number whose machine has an address, unless somebody named it."""
    if ":" in address:
        return None
    number = int.from_bytes(inet_aton(address), "big") - _FIRST
    return number if 0 <= number <= _LAST - _FIRST else None


def canonical(address: str) -> str:
    """Return an address in its one spelling; an IPv4 caller of an IPv6 listener is an IPv4 caller."""
    try:
        found = ip_address(address)
    except ValueError:
        raise InvalidError("address", f"{address!r} is no IP address") from None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)
