"""Asks the DHCP server for the endpoint's address, on machines outside a virtual network (D-01, D-02).

``discover`` and ``endpoint`` are pure; ``query`` opens the sockets, which needs root. No address is leased:
the server's offer is read and never answered.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

COOKIE: Final = bytes.fromhex("63825363")
COOKIE_AT: Final = 0xEC
OPTIONS_AT: Final = 0xF0
#: A shorter answer holds no option.
SHORTEST: Final = 0xF6
#: Relays may drop packets that are shorter than BOOTP's; the bytes after the end option are padding.
PADDED_TO: Final = 300

ENDPOINT: Final = 245
_MESSAGE_TYPE, _DISCOVER, _PAD, _END = 53, 1, 0, 255
_BROADCAST_FLAG: Final = 0x8000
_SERVER, _CLIENT = 67, 68
_ETHERNET: Final = "1"
#: Answers to other clients are broadcast too; the query gives up after this many packets.
MAX_PACKETS: Final = 100


@dataclass(frozen=True, slots=True)
class Interface:
    """An Ethernet interface and its hardware address."""

    name: str
    mac: bytes


@dataclass(frozen=True, slots=True)
class Try:
    """An attempt: the wait before it, and whether the server should broadcast its answer."""

    wait: timedelta
    broadcast: bool = True


#: D-02. The first answer goes to the machine's own address; a machine without one receives only broadcasts.
TRIES: Final = (
    Try(timedelta(0), broadcast=False),
    *(Try(timedelta(seconds=wait)) for wait in (10, 30, 60, 60)),
)
TIMEOUT: Final = timedelta(seconds=10)


def discover(xid: bytes, mac: bytes, broadcast: bool) -> bytes:
    """Return a DISCOVER packet."""
    flags = _BROADCAST_FLAG if broadcast else 0
    head = struct.pack(
        "!4B4sHH16s16s192x4s", 1, int(_ETHERNET), len(mac), 0, xid, 0, flags, bytes(16), mac, COOKIE
    )
    return (head + bytes((_MESSAGE_TYPE, 1, _DISCOVER, _END))).ljust(PADDED_TO, b"\0")


def endpoint(answer: bytes, xid: bytes, mac: bytes) -> IPv4Address | None:
    """Return the address that ``answer`` offers, if it belongs to this query and has one."""
    matches = (
        len(answer) >= SHORTEST
        and answer[4:8] == xid
        and answer[0x1C : 0x1C + len(mac)] == mac
        and answer[COOKIE_AT:OPTIONS_AT] == COOKIE
    )
    return option_245(answer) if matches else None


def option_245(packet: bytes) -> IPv4Address | None:
    """Return the address in option 245 of a whole packet."""
    value = options(packet[OPTIONS_AT:]).get(ENDPOINT, b"")
    return IPv4Address(value) if len(value) == 4 else None


def options(packed: bytes) -> dict[int, bytes]:
    """Return the options by number; a truncated list ends at the truncation."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(packed) and packed[at] != _END:
        if packed[at] == _PAD:
            at += 1
            continue
        length = packed[at + 1] if at + 1 < len(packed) else 0
        value = packed[at + 2 : at + 2 + length]
        if len(value) == length:
            values[packed[at]] = value
        at += 2 + length
    return values


def interfaces(root: Path = Path("/")) -> tuple[Interface, ...]:
    """Return the Ethernet interfaces that are not down."""
    result = []
    for folder in sorted((root / "sys/class/net").glob("*")):
        with suppress(OSError, ValueError):
            kind, state, address = (
                (folder / name).read_text().strip() for name in ("type", "operstate", "address")
            )
            if kind == _ETHERNET and state != "down":
                result.append(Interface(folder.name, bytes.fromhex(address.replace(":", ""))))
    return tuple(result)


def query(
    candidates: Iterable[Interface],
    tries: Sequence[Try] = TRIES,
    timeout: timedelta = TIMEOUT,
    stop: threading.Event | None = None,
) -> IPv4Address | None:
    """Return the address in the first server's offer; setting ``stop`` ends the query."""
    pause = stop or threading.Event()
    usable = tuple(candidates)
    for attempt in tries if usable else ():
        if pause.wait(attempt.wait.total_seconds()):
            return None
        for interface in usable:
            # An interface without a link, or without permission, must not stop the query on the others.
            with suppress(OSError):
                if offered := _ask(interface, attempt.broadcast, timeout):
                    return offered
    return None


def _ask(interface: Interface, broadcast: bool, timeout: timedelta) -> IPv4Address | None:
    xid = os.urandom(4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.name.encode() + b"\0")
        channel.settimeout(timeout.total_seconds())
        channel.bind(("", _CLIENT))
        channel.sendto(discover(xid, interface.mac, broadcast), ("255.255.255.255", _SERVER))
        for _ in range(MAX_PACKETS):
            if offered := endpoint(channel.recv(2048), xid, interface.mac):
                return offered
    return None
