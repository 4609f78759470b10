"""Which addresses are redirected, and the address that replaces them."""

import socket
import struct
from ipaddress import IPv4Address

import pytest

from fairwarning.sandbox.addresses import Endpoint, is_well_known

ENDPOINT = Endpoint(IPv4Address("127.0.0.1"), 8101)


def v4(host: str, port: int) -> bytes:
    """Return a ``sockaddr_in``."""
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def v6(host: str, port: int) -> bytes:
    """Return a ``sockaddr_in6`` with a flow label and a scope."""
    address = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!H", port) + b"flow" + address + b"scop"


@pytest.mark.parametrize(
    ("sockaddr", "ours"),
    [
        pytest.param(v4("169.254.169.254", 80), True, id="the metadata endpoint"),
        pytest.param(v4("168.63.129.16", 80), True, id="the wire server"),
        pytest.param(v4("168.63.129.16", 8080), True, id="the other port of the wire server"),
        pytest.param(v6("::ffff:169.254.169.254", 80), True, id="the metadata endpoint mapped into IPv6"),
        pytest.param(v6("::ffff:168.63.129.16", 8080), True, id="the wire server mapped into IPv6"),
        pytest.param(v4("169.254.169.254", 8080), False, id="another port of the metadata endpoint"),
        pytest.param(v4("169.254.169.253", 80), False, id="a neighbour of the metadata endpoint"),
        pytest.param(v4("127.0.0.1", 80), False, id="this machine"),
        pytest.param(v6("::1", 80), False, id="this machine in IPv6"),
        pytest.param(v6("::169.254.169.254", 80), False, id="an IPv6 address that only looks like it"),
        pytest.param(b"\x01\x00/run/some.sock\x00", False, id="a socket in the file system"),
        pytest.param(v4("169.254.169.254", 80)[:7], False, id="an address that is cut short"),
        pytest.param(v6("::ffff:169.254.169.254", 80)[:20], False, id="an IPv6 address that is cut short"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_only_the_hard_coded_addresses_are_turned_aside(sockaddr: bytes, ours: bool) -> None:
    assert is_well_known(sockaddr) is ours


@pytest.mark.parametrize(
    ("sockaddr", "expected"),
    [
        pytest.param(v4("169.254.169.254", 80), v4("127.0.0.1", 8101), id="IPv4"),
        pytest.param(v6("::ffff:169.254.169.254", 80), v6("::ffff:127.0.0.1", 8101), id="IPv6"),
    ],
)
def test_a_replaced_address_keeps_its_family_and_length(sockaddr: bytes, expected: bytes) -> None:
    assert ENDPOINT.replace_in(sockaddr) == expected
