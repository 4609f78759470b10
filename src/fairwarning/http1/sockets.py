"""Listening sockets; a unix socket file of another server is neither replaced nor removed."""

import errno
import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple

#: SO_LINGER: closing drops what was not sent, and the peer sees a reset.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def bind_tcp(host: str, port: int, *, share: bool = False, dual_stack: bool = False) -> socket.socket:
    """Return a socket bound to an address; its connections send without delay.

    Several sockets may ``share`` an address. A socket with ``dual_stack`` on ``::`` serves IPv4, too.

    Raises:
        OSError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6 and not dual_stack:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


class SocketFile(NamedTuple):
    """A path, and the device and inode of the file that this process created there."""

    path: Path
    file: tuple[int, int]

    def remove(self) -> None:
        """Remove the file, unless another process has replaced it."""
        if _file(self.path) == self.file:
            self.path.unlink(missing_ok=True)


def bind_unix(path: Path, mode: int) -> tuple[socket.socket, SocketFile]:
    """Return a socket bound to ``path``; it accepts no connection before its mode is set.

    Raises:
        OSError: the socket cannot be created, or another server listens there.
    """
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        path.chmod(mode)
        file = _file(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "the socket file was removed at once")
    except OSError:
        bound.close()
        raise
    return bound, SocketFile(path, file)


def _remove_stale(path: Path) -> None:
    """Remove a socket that a server left behind when it was killed."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A full backlog does not refuse: a busy server counts as present.
        probe.setblocking(False)
        outcome = probe.connect_ex(str(path))
    if outcome == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif outcome != errno.ENOENT:
        raise OSError(errno.EADDRINUSE, "another server answers there")


def _file(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
