"""The isolate mode: a network for the program in which Azure's addresses exist and nothing else does.

User and network namespaces allow this without root, where the machine permits them. A socket belongs to the
network in which it was created, so the supervisor can accept connections inside and connect outside.
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
from fairwarning.sandbox.errors import ModeForbiddenError
from fairwarning.sandbox.host_name import MAX_HOST_NAME
from fairwarning.sandbox.syscalls import CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWUTS, unshare

_SIOCSIFFLAGS = 0x8914
_UP_LOOPBACK_RUNNING = 0x1 | 0x8 | 0x40

_RTM_NEWADDR = 20
#: Flags of a netlink request: acknowledge, create, and fail if the address exists.
_CREATE = 0x1 | 0x4 | 0x400 | 0x200
_ADDRESS, _LOCAL = 1, 2
_SCOPE_HOST = 254
_HEADER = struct.Struct("=IHHII")
_ADDRESS_MESSAGE = struct.Struct("=BBBBi")
_ATTRIBUTE = struct.Struct("=HH4s")
_ERROR = struct.Struct("=i")

_BACKLOG = 64
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Isolate:
    """The mode in which the addresses are real and the host name is the machine's."""

    endpoint: Endpoint
    host_name: str

    def enter(self) -> tuple[int, ...]:
        """Move this process into a network of its own and return the sockets that listen there.

        Raises:
            ModeForbiddenError: the machine does not allow namespaces.
        """
        try:
            _enter_namespaces()
        except OSError as error:
            raise ModeForbiddenError("user and network namespaces", error.errno or errno.EPERM) from error
        try:
            socket.sethostname(self.host_name[:MAX_HOST_NAME])
            _bring_up("lo")
            for address in (METADATA, WIRE_SERVER):
                _add_address("lo", address)
            return tuple(_listen(address, port) for address, port in WELL_KNOWN)
        except OSError as error:
            raise ModeForbiddenError("a network in a namespace", error.errno or errno.EPERM) from error

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Forward connections from inside to the endpoint outside, in the background."""
        for descriptor in descriptors:
            listener = socket.socket(fileno=descriptor)
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            inner, _ = listener.accept()
            threading.Thread(target=self._forward, args=(inner,), daemon=True).start()

    def _forward(self, inner: socket.socket) -> None:
        with inner:
            try:
                outer = socket.create_connection(self.endpoint.address)
            except OSError:
                # Reset the connection, as a server that is down does.
                inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            with outer:
                back = threading.Thread(target=_copy, args=(outer, inner), daemon=True)
                back.start()
                _copy(inner, outer)
                back.join()


def _enter_namespaces() -> None:
    """Enter new namespaces and keep the user id, so that the program does not see itself as root."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), _UP_LOOPBACK_RUNNING))


def _add_address(interface: str, address: IPv4Address) -> None:
    """Add an address to an interface."""
    index = socket.if_nametoindex(interface)
    body = _ADDRESS_MESSAGE.pack(socket.AF_INET, 32, 0, _SCOPE_HOST, index) + b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size, kind, address.packed) for kind in (_LOCAL, _ADDRESS)
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _RTM_NEWADDR, _CREATE, 1, 0) + body)
        (code,) = _ERROR.unpack_from(netlink.recv(4096), _HEADER.size)
    if code:
        raise OSError(-code, os.strerror(-code))


def _listen(address: IPv4Address, port: int) -> int:
    listener = socket.create_server((str(address), port), backlog=_BACKLOG)
    return listener.detach()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy bytes in one direction until the source ends, then end the sink."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
