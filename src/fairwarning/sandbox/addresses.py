"""The addresses that programs have hard-coded, and how a ``sockaddr`` spells them."""

import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

METADATA = IPv4Address("169.254.169.254")
WIRE_SERVER = IPv4Address("168.63.129.16")

#: Where a guest looks for its endpoint; without a virtual network it asks the wire server first.
WELL_KNOWN: tuple[tuple[IPv4Address, int], ...] = ((METADATA, 80), (WIRE_SERVER, 80), (WIRE_SERVER, 8080))

#: The longest ``sockaddr`` that can name one of them: a ``sockaddr_in6``.
LONGEST = 28

_MAPPED = bytes(10) + b"\xff\xff"
_IN = struct.Struct("=H2s4s")
_IN6 = struct.Struct("=H2s4s16s")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one machine's endpoint listens."""

    host: IPv4Address
    port: int

    @property
    def address(self) -> tuple[str, int]:
        """The endpoint as sockets want it."""
        return str(self.host), self.port

    def address_for(self, family: int) -> tuple[str, int]:
        """Return the endpoint as a socket of this family reaches it."""
        prefix = "::ffff:" if family == socket.AF_INET6 else ""
        return f"{prefix}{self.host}", self.port

    def written_over(self, sockaddr: bytes) -> bytes:
        """Return a ``sockaddr`` of the same family and length that leads here."""
        port = self.port.to_bytes(2, "big")
        (family,) = struct.unpack_from("=H", sockaddr)
        if family == socket.AF_INET:
            return _IN.pack(family, port, self.host.packed) + sockaddr[_IN.size :]
        _, _, flow, _ = _IN6.unpack_from(sockaddr)
        return _IN6.pack(family, port, flow, _MAPPED + self.host.packed) + sockaddr[_IN6.size :]


def is_well_known(sockaddr: bytes) -> bool:
    """Whether a ``sockaddr`` names an endpoint of Azure's, be it as IPv4 or as IPv6."""
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
    _, port, _, long = _IN6.unpack_from(sockaddr)
    if not long.startswith(_MAPPED):
        return None
    return IPv4Address(long[len(_MAPPED) :]), int.from_bytes(port, "big")
