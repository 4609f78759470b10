"""Which machine is calling: a property of the network path, never of the request (R-03).

A guest is identified by its listener (a port or unix socket of its own) or by its source address. The
address follows from the machine number (``machine_numbers.py``), so it needs no table: number n has the
address ``FIRST_ADDRESS`` + n. The settings may assign other addresses instead. No header is
read, so no guest can claim to be another machine. A caller whose address belongs to no active machine is
unknown.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from socket import inet_aton, inet_ntoa

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.inputs import parse_address
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.metadata.machine_numbers import MachineNumbers

#: The addresses of machines on the shared loopback listener, in the order of their numbers.
FIRST_ADDRESS, LAST_ADDRESS = IPv4Address("127.1.0.1"), IPv4Address("127.255.255.254")

_FIRST, _LAST = int(FIRST_ADDRESS), int(LAST_ADDRESS)

#: For how many numbers there is room each time that the array grows.
_ROOM = 4096


class Inventory:
    """Source addresses and their machines."""

    def __init__(self, numbers: MachineNumbers) -> None:
        self._numbers = numbers
        #: For each machine number, whether requests of the machine are answered.
        self._active = bytearray()
        self._assigned: dict[MachineRef, str] = {}
        self._machine_at: dict[str, MachineRef] = {}

    def __contains__(self, machine: MachineRef) -> bool:
        return self.number(machine) is not None

    def __iter__(self) -> Iterator[MachineRef]:
        for number, active in enumerate(self._active):
            owner = self._numbers.owner(number) if active else None
            if owner is not None:
                yield owner

    async def assign(self, addresses: Mapping[MachineRef, str]) -> None:
        """Give machines these addresses in place of their numbered ones; no other machine gets them.

        Raises:
            InvalidError: an address is malformed, or belongs to another machine.
        """
        reserved = []
        for machine, text in addresses.items():
            address = parse_address(text)
            number = _number(address)
            owner = None if number is None else self._numbers.owner(number)
            if number is not None and owner is None:
                reserved.append(number)
            owner = owner or self._machine_at.get(address, machine)
            if owner != machine:
                raise InvalidError("address", f"{address} belongs to {owner.name} already")
            self._machine_at[address], self._assigned[machine] = machine, address
        await self._numbers.reserve(reserved)

    def activate(self, number: int) -> bool:
        """Start answering the machine with this number; False if it was active already."""
        if number >= len(self._active):
            self._active.extend(bytes(number - len(self._active) + _ROOM))
        before, self._active[number] = self._active[number], 1
        return not before

    def deactivate(self, machine: MachineRef) -> None:
        """Stop answering a machine; it keeps its number."""
        number = self.number(machine)
        if number is not None:
            self._active[number] = 0

    def number(self, machine: MachineRef) -> int | None:
        """Return the number of an active machine."""
        number = self._numbers.number(machine)
        return number if number is not None and self._is_active(number) else None

    def identify(self, peer: tuple[str, int]) -> MachineRef | None:
        """Return the machine that calls from an address."""
        address, _ = peer
        return self._owner(parse_address(address) if ":" in address else address)

    def address(self, machine: MachineRef) -> str | None:
        """Return the address of an active machine; there are more numbers than addresses."""
        number = self.number(machine)
        if number is None or _FIRST + number > _LAST:
            return self._assigned.get(machine)
        return self._assigned.get(machine) or inet_ntoa((_FIRST + number).to_bytes(4, "big"))

    def _owner(self, address: str) -> MachineRef | None:
        machine = self._machine_at.get(address)
        if machine is not None:
            return machine if machine in self else None
        number = _number(address)
        if number is None or not self._is_active(number):
            return None
        owner = self._numbers.owner(number)
        return None if owner in self._assigned else owner

    def _is_active(self, number: int) -> bool:
        return number < len(self._active) and self._active[number] == 1


def machine_addresses(engine: Engine, addresses: Mapping[str, str]) -> dict[MachineRef, str]:
    """Return the addresses by machine; the settings name machines as operators do."""
    by_machine: dict[MachineRef, str] = {}
    for name, address in addresses.items():
        try:
            machine = engine.directory.machine(name)
        except FairWarningError as error:
            raise InvalidError("address", str(error)) from error
        if machine in by_machine:
            raise InvalidError("address", f"{machine.full} has more than one")
        by_machine[machine] = address
    return by_machine


def _number(address: str) -> int | None:
    """Return the machine number that an address follows from."""
    if ":" in address:
        return None
    number = int.from_bytes(inet_aton(address), "big") - _FIRST
    return number if 0 <= number <= _LAST - _FIRST else None
