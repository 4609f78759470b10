"""Makes a network of its own for a program, in which Azure's addresses exist and nothing else does.

Namespaces of users and of the network let anybody do so without root, where the machine allows them. Sockets
belong to the network they were made in, so the supervisor can accept inside and connect outside.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from fairwarning.sandbox.addresses import METADATA, WELL_KNOWN, WIRE_SERVER, Endpoint
from fairwarning.sandbox.errors import ForbiddenError
from fairwarning.sandbox.syscalls import CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWUTS, unshare

_SIOCSIFFLAGS = 0x8914
_UP_LOOPBACK_RUNNING = 0x1 | 0x8 | 0x40

_RTM_NEWADDR = 20
#: A request, acknowledged, that creates what must not exist yet.
_NEW = 0x1 | 0x4 | 0x400 | 0x200
_ADDRESS, _LOCAL = 1, 2
_SCOPE_HOST = 254
_HEADER = struct.Struct("=IHHII")
_ADDRESS_MESSAGE = struct.Struct("=BBBBi")
_ATTRIBUTE = struct.Struct("=HH4s")
_ERROR = struct.Struct("=i")

_BACKLOG = 64
_CHUNK = 65536
#: How long Linux lets a host name be.
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Isolate:
    """The mode in which the addresses are real and the host is named as the machine."""

    endpoint: Endpoint
    name: str

    def enter(self) -> tuple[int, ...]:
        """Take this process into a network of its own and return what listens there.

        Raises:
            Forbidden: namespaces are switched off, or reserved for others.
        """
        try:
            _leave()
        except OSError as error:
            raise ForbiddenError("user and network namespaces", error.errno or errno.EPERM) from error
        try:
            socket.sethostname(self.name[:_LONGEST_NAME])
            _bring_up("lo")
            for address in (METADATA, WIRE_SERVER):
                _add("lo", address)
            return tuple(_listen(address, port) for address, port in WELL_KNOWN)
        except OSError as error:
            raise ForbiddenError("a network in a namespace", error.errno or errno.EPERM) from error

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Begin to carry what arrives inside to the endpoint outside, in the background."""
        for descriptor in descriptors:
            listening = socket.socket(fileno=descriptor)
            threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            inner, _ = listening.accept()
            threading.Thread(target=self._carry, args=(inner,), daemon=True).start()

    def _carry(self, inner: socket.socket) -> None:
        with inner:
            try:
                outer = socket.create_connection(self.endpoint.address)
            except OSError:
                # A server that is down resets: the caller learns of it as it would outside.
                inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            with outer:
                back = threading.Thread(target=_pump, args=(outer, inner), daemon=True)
                back.start()
                _pump(inner, outer)
                back.join()


def _leave() -> None:
    """Enter new namespaces as the user we are: the program shall not believe to be root."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), _UP_LOOPBACK_RUNNING))


def _add(interface: str, address: IPv4Address) -> None:
    """Give an interface one more address."""
    index = socket.if_nametoindex(interface)
    body = _ADDRESS_MESSAGE.pack(socket.AF_INET, 32, 0, _SCOPE_HOST, index) + b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size, kind, address.packed) for kind in (_LOCAL, _ADDRESS)
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asking:
        asking.send(_HEADER.pack(_HEADER.size + len(body), _RTM_NEWADDR, _NEW, 1, 0) + body)
        (code,) = _ERROR.unpack_from(asking.recv(4096), _HEADER.size)
    if code:
        raise OSError(-code, os.strerror(-code))


def _listen(address: IPv4Address, port: int) -> int:
    listening = socket.create_server((str(address), port), backlog=_BACKLOG)
    return listening.detach()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes one way until there are no more, and say so on the other side."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
