"""The endpoint addresses that programs have hard-coded, and their form in a ``sockaddr``."""

import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

METADATA = IPv4Address("169.254.169.254")
WIRE_SERVER = IPv4Address("168.63.129.16")

#: Where a guest looks for its endpoint; outside a virtual network it tries the wire server first.
WELL_KNOWN: tuple[tuple[IPv4Address, int], ...] = ((METADATA, 80), (WIRE_SERVER, 80), (WIRE_SERVER, 8080))

#: The longest ``sockaddr`` of a well-known address: a ``sockaddr_in6``.
MAX_SOCKADDR = 28

_V4_MAPPED = bytes(10) + b"\xff\xff"
_IN = struct.Struct("=H2s4s")
_IN6 = struct.Struct("=H2s4s16s")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address at which a machine's endpoint listens."""

    host: IPv4Address
    port: int

    @property
    def address(self) -> tuple[str, int]:
        """The address as Python's sockets take it."""
        return str(self.host), self.port

    def address_for(self, family: int) -> tuple[str, int]:
        """Return the address for a socket of this family."""
        prefix = "::ffff:" if family == socket.AF_INET6 else ""
        return f"{prefix}{self.host}", self.port

    def replace_in(self, sockaddr: bytes) -> bytes:
        """Return a ``sockaddr`` of the same family and length with this address."""
        port = self.port.to_bytes(2, "big")
        (family,) = struct.unpack_from("=H", sockaddr)
        if family == socket.AF_INET:
            return _IN.pack(family, port, self.host.packed) + sockaddr[_IN.size :]
        _, _, flow, _ = _IN6.unpack_from(sockaddr)
        return _IN6.pack(family, port, flow, _V4_MAPPED + self.host.packed) + sockaddr[_IN6.size :]


def is_well_known(sockaddr: bytes) -> bool:
    """Whether a ``sockaddr`` holds a well-known address, as IPv4 or as IPv4-mapped IPv6."""
    target = _target(sockaddr)
    return target is not None and target in WELL_KNOWN


def _target(sockaddr: bytes) -> tuple[IPv4Address, int] | None:
    if len(sockaddr) < _IN.size:
        return None
    family, port, address = _IN.unpack_from(sockaddr)
    if family == socket.AF_INET:
        return IPv4Address(address), int.from_bytes(port, "big")
    if family != socket.AF_INET6 or len(sockaddr) < _IN6.size:
        return None
    _, port, _, address = _IN6.unpack_from(sockaddr)
    if not address.startswith(_V4_MAPPED):
        return None
    return IPv4Address(address[len(_V4_MAPPED) :]), int.from_bytes(port, "big")
