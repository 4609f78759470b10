"""Listening sockets that share one address: the source address of a connection chooses its socket.

Linux keeps the sockets of one address in a group, in the order in which they began to listen (SO_REUSEPORT).
A classic BPF program, attached to the group, returns the index of the socket for each new connection. Here
it hashes the source address, never the port, so all connections of a caller reach the same socket. A socket
that leaves the group would move the others; so one process opens all of them and keeps them open, whichever
processes accept on them.

The program begins at the payload of the packet. A negative offset (SKF_NET_OFF) reaches the IP header. The
numbers are those of ``linux/filter.h`` and ``linux/bpf_common.h``.
"""

import ctypes
import socket
import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fairwarning.http1.sockets import bind_tcp

#: Connections that the kernel queues for each socket until they are accepted.
_BACKLOG = 1024

#: Missing in Python's socket module.
_SO_ATTACH_REUSEPORT_CBPF = 51
_IP_HEADER = -0x100000
_IPV4_SOURCE, _IPV6_SOURCE = 12, 8

_LOAD_BYTE, _LOAD_WORD, _LOAD_CELL, _STORE_CELL = 0x30, 0x20, 0x60, 0x02
_MULTIPLY, _DIVIDE, _REMAINDER, _SHIFT_RIGHT = 0x24, 0x34, 0x94, 0x74
_COPY_TO_X, _XOR_X = 0x07, 0xAC
_JUMP, _JUMP_IF_EQUAL = 0x05, 0x15
_RETURN, _RETURN_RESULT = 0x06, 0x16


class Instruction(NamedTuple):
    """One instruction of classic BPF; jumps are relative to the next instruction."""

    code: int
    operand: int = 0
    if_true: int = 0
    if_false: int = 0


class ListenerGroup:
    """The listening sockets of one address."""

    def __init__(self, host: str, port: int, size: int, *, dual_stack: bool = False) -> None:
        """Open the sockets; port 0 takes any free port.

        Raises:
            OSError: the address cannot be bound.
        """
        # The first socket is bound without sharing: an address that another server uses is refused.
        first = bind_tcp(host, port, dual_stack=dual_stack)
        self.sockets: list[socket.socket] = [first]
        try:
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self.address: tuple[str, int] = first.getsockname()[:2]
            for _ in range(1, size):
                self.sockets.append(bind_tcp(host, self.address[1], share=True, dual_stack=dual_stack))
            for bound in self.sockets:
                bound.listen(_BACKLOG)
            self.direct(range(size))
        except OSError:
            self.close()
            raise

    def direct(self, live: Collection[int]) -> None:
        """Send new connections to the live sockets alone; callers of those stay where they are."""
        code = b"".join(
            struct.pack("=HBBI", step.code, step.if_true, step.if_false, step.operand & 0xFFFFFFFF)
            for step in source_program(len(self.sockets), sorted(live))
        )
        buffer = ctypes.create_string_buffer(code)
        program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
        self.sockets[0].setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, program)

    def close(self) -> None:
        """Close the sockets; those that another process has inherited stay open there."""
        for bound in self.sockets:
            bound.close()


def source_program(size: int, live: Sequence[int]) -> list[Instruction]:
    """Return the program that chooses one of ``size`` sockets, and a live one instead of any other."""
    others = [index for index in range(size) if index not in live] if live else []
    choice = [
        *_load_source(),
        *_mix(),
        Instruction(_STORE_CELL),
        Instruction(_REMAINDER, size),
    ]
    for passed, index in enumerate(others, start=1):
        remaining = 2 * (len(others) - passed)
        choice += [
            Instruction(_JUMP_IF_EQUAL, index, if_false=1),
            Instruction(_JUMP, remaining + 1),
        ]
    choice.append(Instruction(_RETURN_RESULT))
    return choice + _choose_again(size, live) if others else choice


def _load_source() -> list[Instruction]:
    words = [_IP_HEADER + _IPV6_SOURCE + 4 * number for number in range(4)]
    ipv6 = [Instruction(_LOAD_WORD, words[0])]
    for word in words[1:]:
        ipv6 += [
            Instruction(_MULTIPLY, 0x9E3779B1),
            Instruction(_COPY_TO_X),
            Instruction(_LOAD_WORD, word),
            Instruction(_XOR_X),
        ]
    return [
        Instruction(_LOAD_BYTE, _IP_HEADER),
        Instruction(_SHIFT_RIGHT, 4),
        Instruction(_JUMP_IF_EQUAL, 4, if_false=2),
        Instruction(_LOAD_WORD, _IP_HEADER + _IPV4_SOURCE),
        Instruction(_JUMP, len(ipv6)),
        *ipv6,
    ]


def _mix() -> list[Instruction]:
    """Return the last steps of MurmurHash3: neighbouring addresses get unrelated numbers."""

    def xor_shifted(bits: int) -> list[Instruction]:
        return [Instruction(_COPY_TO_X), Instruction(_SHIFT_RIGHT, bits), Instruction(_XOR_X)]

    return [
        *xor_shifted(16),
        Instruction(_MULTIPLY, 0x85EBCA6B),
        *xor_shifted(13),
        Instruction(_MULTIPLY, 0xC2B2AE35),
        *xor_shifted(16),
    ]


def _choose_again(size: int, live: Sequence[int]) -> list[Instruction]:
    """Return the steps for a caller whose socket is not live: the rest of its hash chooses a live one."""
    steps = [Instruction(_LOAD_CELL), Instruction(_DIVIDE, size), Instruction(_REMAINDER, len(live))]
    for place, index in enumerate(live[:-1]):
        steps += [Instruction(_JUMP_IF_EQUAL, place, if_false=1), Instruction(_RETURN, index)]
    return [*steps, Instruction(_RETURN, live[-1])]
