"""Turns connections to Azure's addresses aside, and leaves the rest of the network as it is.

The kernel asks us about every ``connect()`` of the program and its children. There are three ways to send one
elsewhere; docs/decisions/0009 says why we connect the program's own socket, taken over by ``pidfd_getfd``,
and write a new address into the program's memory only where that system call is refused (Docker's profile).

This serves programs, it does not jail them: between our look at the address and the kernel's, a thread of the
program may write another, and it then connects to where it could have connected without us.
"""

import errno
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from fairwarning.sandbox import seccomp, syscalls
from fairwarning.sandbox.addresses import LONGEST, Endpoint, is_well_known
from fairwarning.sandbox.errors import ForbiddenError
from fairwarning.sandbox.seccomp import SeccompListener, Syscall

#: Linux 6.9 has descriptors of single threads, and this flag for them.
_PIDFD_THREAD = os.O_EXCL

#: How many threads answer: to connect a blocking socket takes as long as a busy server lets it.
_ANSWERING = 8


@dataclass(frozen=True, slots=True)
class Redirect:
    """The mode that needs no namespaces."""

    endpoint: Endpoint

    def enter(self) -> tuple[int, ...]:
        """Put this process under supervision and return the listener's descriptor.

        Raises:
            Forbidden: the kernel is too old, or a container's profile is in the way.
        """
        number = syscalls.syscall_numbers().connect
        try:
            return (seccomp.install(number),)
        except OSError as error:
            # A tree of processes has one listener at most.
            what = "exec inside exec" if error.errno == errno.EBUSY else "seccomp notifications"
            raise ForbiddenError(what, error.errno or errno.EPERM) from error

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Begin to answer for the connections of the program, in the background."""
        listener = SeccompListener(*descriptors)
        for _ in range(_ANSWERING):
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()

    def _listen(self, listener: SeccompListener) -> None:
        while (call := listener.receive()) is not None:
            if is_well_known(_sockaddr(call)):
                self._turn_aside(listener, call)
            else:
                listener.proceed(call)

    def _turn_aside(self, listener: SeccompListener, call: Syscall) -> None:
        try:
            taken = _socket(call)
        except OSError:
            self._write_over(listener, call)
            return
        with taken:
            if not listener.waits(call):
                return
            # To connect a datagram socket is to ask for a route, or to be about to talk something else.
            if taken.type != socket.SOCK_STREAM:
                listener.proceed(call)
            else:
                listener.answer(call, taken.connect_ex(self.endpoint.address_for(taken.family)))

    def _write_over(self, listener: SeccompListener, call: Syscall) -> None:
        _, at, _, *_ = call.arguments
        sockaddr = _sockaddr(call)
        # Another thread may have changed it by now.
        if is_well_known(sockaddr):
            try:
                with open(f"/proc/{call.thread}/mem", "r+b", buffering=0) as memory:
                    if listener.waits(call):
                        os.pwrite(memory.fileno(), self.endpoint.written_over(sockaddr), at)
            except OSError as error:
                listener.answer(call, error.errno or errno.EPERM)
                return
        listener.proceed(call)


def _sockaddr(call: Syscall) -> bytes:
    """Return the address that the program connects to; nothing if we may not read it."""
    _, at, length, *_ = call.arguments
    try:
        with open(f"/proc/{call.thread}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), min(length & 0xFFFFFFFF, LONGEST), at)
    except (OSError, OverflowError):
        return b""


def _socket(call: Syscall) -> socket.socket:
    """Return the very socket that the program connects, not a copy of it."""
    pidfd = _pidfd(call.thread)
    try:
        descriptor = syscalls.pidfd_getfd(pidfd, call.arguments[0] & 0x7FFFFFFF)
    finally:
        os.close(pidfd)
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise


def _pidfd(thread: int) -> int:
    try:
        return os.pidfd_open(thread, _PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.pidfd_open(_process(thread))


def _process(thread: int) -> int:
    lines = Path(f"/proc/{thread}/status").read_text(errors="replace").splitlines()
    return next(int(line.removeprefix("Tgid:")) for line in lines if line.startswith("Tgid:"))
