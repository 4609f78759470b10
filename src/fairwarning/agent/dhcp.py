"""Asks the network's DHCP server where the endpoint is, for machines outside a virtual network (D-01, D-02).

``discover`` and ``endpoint`` are pure; ``query`` opens the sockets, which takes root. Nothing is leased: the
server's offer is read and left unanswered.
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
#: An answer shorter than this has no room for an option.
SHORTEST: Final = 0xF6
#: Relays may drop what is shorter than BOOTP's own packets; what follows the end is padding.
PADDED_TO: Final = 300

ENDPOINT: Final = 245
_MESSAGE_TYPE, _DISCOVER, _PAD, _END = 53, 1, 0, 255
_BROADCAST_FLAG: Final = 0x8000
_SERVER, _CLIENT = 67, 68
_ETHERNET: Final = "1"
#: Other clients' answers are broadcast too; after so many of them we give up.
PACKETS: Final = 100


@dataclass(frozen=True, slots=True)
class Interface:
    """An Ethernet interface, and the address it is known by to the server."""

    name: str
    mac: bytes


@dataclass(frozen=True, slots=True)
class Try:
    """How long to wait before asking, and whether the answer is to be broadcast."""

    wait: timedelta
    broadcast: bool = True


#: D-02. The first answer may come to the address we have; a machine without one hears only broadcasts.
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
    """Return the address that ``answer`` offers, if it answers our question and has one."""
    ours = (
        len(answer) >= SHORTEST
        and answer[4:8] == xid
        and answer[0x1C : 0x1C + len(mac)] == mac
        and answer[COOKIE_AT:OPTIONS_AT] == COOKIE
    )
    return option_245(answer) if ours else None


def option_245(packet: bytes) -> IPv4Address | None:
    """Return the address in option 245 of a whole packet."""
    value = options(packet[OPTIONS_AT:]).get(ENDPOINT, b"")
    return IPv4Address(value) if len(value) == 4 else None


def options(packed: bytes) -> dict[int, bytes]:
    """Return the options by number; a list that is cut off ends where it is."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(packed) and packed[at] != _END:
        if packed[at] == _PAD:
            at += 1
            continue
        length = packed[at + 1] if at + 1 < len(packed) else 0
        value = packed[at + 2 : at + 2 + length]
        if len(value) == length:
            found[packed[at]] = value
        at += 2 + length
    return found


def interfaces(root: Path = Path("/")) -> tuple[Interface, ...]:
    """Return the Ethernet interfaces that are not down."""
    found = []
    for folder in sorted((root / "sys/class/net").glob("*")):
        with suppress(OSError, ValueError):
            kind, state, address = (
                (folder / name).read_text().strip() for name in ("type", "operstate", "address")
            )
            if kind == _ETHERNET and state != "down":
                found.append(Interface(folder.name, bytes.fromhex(address.replace(":", ""))))
    return tuple(found)


def query(
    among: Iterable[Interface],
    tries: Sequence[Try] = TRIES,
    timeout: timedelta = TIMEOUT,
    stop: threading.Event | None = None,
) -> IPv4Address | None:
    """Return the address the first server to answer offers; setting ``stop`` ends the waiting."""
    pause = stop or threading.Event()
    asked = tuple(among)
    for attempt in tries if asked else ():
        if pause.wait(attempt.wait.total_seconds()):
            return None
        for interface in asked:
            # An interface that cannot be asked, for want of rights or of a link, does not spoil the others.
            with suppress(OSError):
                if found := _ask(interface, attempt.broadcast, timeout):
                    return found
    return None


def _ask(interface: Interface, broadcast: bool, timeout: timedelta) -> IPv4Address | None:
    xid = os.urandom(4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.name.encode() + b"\0")
        line.settimeout(timeout.total_seconds())
        line.bind(("", _CLIENT))
        line.sendto(discover(xid, interface.mac, broadcast), ("255.255.255.255", _SERVER))
        for _ in range(PACKETS):
            if found := endpoint(line.recv(2048), xid, interface.mac):
                return found
    return None
