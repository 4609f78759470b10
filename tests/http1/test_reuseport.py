"""Sockets that share an address, with real connections and with the program on its own."""

import select
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

import pytest

from fairwarning.http1.reuseport import Instruction, ListenerGroup, source_program
from fairwarning.http1.sockets import bind_tcp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SOURCES = [f"127.{1 + number // 250}.{number % 250}.7" for number in range(1000)]


@contextmanager
def group(size: int, host: str = "127.0.0.1") -> Iterator[ListenerGroup]:
    opened = ListenerGroup(host, 0, size)
    try:
        yield opened
    finally:
        opened.close()


def reached(group: ListenerGroup, source: str) -> int:
    """Connect from a source address, and return the index of the socket that gets the connection."""
    with socket.socket(group.sockets[0].family) as client:
        client.bind((source, 0))
        client.connect(group.address)
        (ready,), _, _ = select.select(group.sockets, [], [], 10)
        ready.accept()[0].close()
        return group.sockets.index(ready)


def run(program: Sequence[Instruction], packet: bytes) -> int:
    """Run a program on the IP header of a packet, as the kernel does."""
    result = index = cell = step = 0
    operations: dict[int, Callable[[int, int], int]] = {
        0x24: lambda value, operand: value * operand & 0xFFFFFFFF,
        0x34: lambda value, operand: value // operand,
        0x94: lambda value, operand: value % operand,
        0x74: lambda value, operand: value >> operand,
        0xAC: lambda value, operand: value ^ index,
    }
    while True:
        code, operand, if_true, if_false = program[step]
        step += 1
        match code:
            case 0x30:
                result = packet[operand + 0x100000]
            case 0x20:
                (result,) = struct.unpack_from("!I", packet, operand + 0x100000)
            case 0x60:
                result = cell
            case 0x02:
                cell = result
            case 0x07:
                index = result
            case 0x05:
                step += operand
            case 0x15:
                step += if_true if result == operand else if_false
            case 0x06:
                return operand
            case 0x16:
                return result
            case _:
                result = operations[code](result, operand)


def choice(source: str, size: int, live: Sequence[int]) -> int:
    address = ip_address(source)
    if isinstance(address, IPv6Address):
        packet = bytes([0x60, *bytes(7)]) + address.packed + bytes(16)
    else:
        packet = bytes([0x45, *bytes(11)]) + address.packed + bytes(4)
    return run(source_program(size, live), packet)


def test_each_of_1000_sources_always_reaches_the_same_socket_and_each_socket_gets_30_to_70_percent() -> None:
    with group(2) as listening:
        first = [reached(listening, source) for source in SOURCES]
        second = [reached(listening, source) for source in SOURCES]

    assert first == second == [choice(source, 2, (0, 1)) for source in SOURCES]
    assert all(300 <= count <= 700 for count in Counter(first).values())


def test_sources_of_a_socket_that_is_not_live_are_spread_and_all_others_stay() -> None:
    with group(4) as listening:
        before = {source: reached(listening, source) for source in SOURCES[:400]}
        listening.direct([0, 2, 3])
        during = {source: reached(listening, source) for source in before}
        listening.direct(range(4))
        after = {source: reached(listening, source) for source in before}

    moved = [source for source, index in before.items() if index == 1]
    assert all(during[source] == before[source] for source in before if source not in moved)
    assert Counter(during[source] for source in moved).keys() == {0, 2, 3}
    assert after == before


def test_an_ipv6_source_is_hashed_as_a_whole() -> None:
    with group(8, "::1") as listening:
        local = reached(listening, "::1")

    assert local == choice("::1", 8, range(8))
    for text in ("fd00::{:x}", "fd00:{:x}::1", "fd00:0:{0:x}:{0:x}::5", "fe80::{0:x}:0:{0:x}"):
        chosen = Counter(choice(text.format(number), 2, (0, 1)) for number in range(1, 1001))
        assert all(300 <= count <= 700 for count in chosen.values()), text


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 16, 32])
def test_neighbouring_addresses_are_spread_over_all_sockets(size: int) -> None:
    sources = [f"10.0.{number // 250}.{number % 250}" for number in range(4000)]

    chosen = Counter(choice(source, size, range(size)) for source in sources)

    assert len(chosen) == size
    assert max(chosen.values()) < 1.4 * len(sources) / size


@pytest.mark.parametrize("live", [[5], [0, 31], [*range(1, 32)], [*range(0, 32, 2)]])
def test_the_program_for_32_sockets_chooses_live_ones_alone(live: list[int]) -> None:
    chosen = {choice(source, 32, live) for source in SOURCES}

    assert chosen == set(live)


def test_without_a_live_socket_connections_wait_where_they_belong() -> None:
    assert [choice(source, 4, ()) for source in SOURCES] == [
        choice(source, 4, range(4)) for source in SOURCES
    ]


def test_an_address_that_another_group_or_server_uses_is_refused() -> None:
    with group(2) as listening:
        host, port = listening.address

        with pytest.raises(OSError, match="in use"):
            ListenerGroup(host, port, 2)
        with pytest.raises(OSError, match="in use"):
            bind_tcp(host, port)
