"""The redirect mode: sends connections to Azure's addresses to the endpoint, and leaves all others alone.

It also gives the program the host name of its machine (``host_name.py``).

The kernel asks the supervisor about every ``connect()`` of the program and its children (``seccomp.py``).
For a well-known address, the supervisor takes over the program's own socket with ``pidfd_getfd`` and
connects it to the endpoint. Where that system call is forbidden (Docker's profile), it writes the
endpoint's address into the memory of the program and lets the call proceed. docs/decisions/0009 compares
the possible ways.

This is a service to the program, not a jail: between the supervisor's look at the address and the kernel's, a
thread of the program may change it. The program then connects to where it could have connected anyway.
"""

import errno
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from fairwarning.sandbox import seccomp, syscalls
from fairwarning.sandbox.addresses import MAX_SOCKADDR, Endpoint, is_well_known
from fairwarning.sandbox.errors import ModeForbiddenError
from fairwarning.sandbox.host_name import enter_uts_namespace, utsname
from fairwarning.sandbox.seccomp import SeccompListener, Syscall

#: The flag for a descriptor of a single thread; Linux 6.9 and later.
_PIDFD_THREAD = os.O_EXCL

#: The number of threads that answer calls; each may block while a busy server accepts.
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Redirect:
    """The mode that redirects single connections and needs no namespaces."""

    endpoint: Endpoint
    host_name: str

    def enter(self) -> tuple[int, ...]:
        """Put this process under supervision and return the listener's descriptor.

        Raises:
            ModeForbiddenError: the kernel is too old, or a container's profile forbids it.
        """
        numbers = syscalls.syscall_numbers()
        named = enter_uts_namespace(self.host_name)
        try:
            return (seccomp.install((numbers.connect,) if named else (numbers.connect, numbers.uname)),)
        except OSError as error:
            # A tree of processes can have only one listener.
            feature = "exec inside exec" if error.errno == errno.EBUSY else "seccomp notifications"
            raise ModeForbiddenError(feature, error.errno or errno.EPERM) from error

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Answer the program's calls of connect() and uname(), in the background."""
        listener = SeccompListener(*descriptors)
        for _ in range(_THREADS):
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()

    def _listen(self, listener: SeccompListener) -> None:
        while (call := listener.receive()) is not None:
            if call.number == syscalls.syscall_numbers().uname:
                self._tell_host_name(listener, call)
            elif is_well_known(_sockaddr(call)):
                self._redirect(listener, call)
            else:
                listener.proceed(call)

    def _tell_host_name(self, listener: SeccompListener, call: Syscall) -> None:
        try:
            with open(f"/proc/{call.thread}/mem", "r+b", buffering=0) as memory:
                if listener.is_pending(call):
                    os.pwrite(memory.fileno(), utsname(self.host_name), call.arguments[0])
        except (OSError, OverflowError):
            # The process may not be inspected, or its address is invalid; the kernel answers.
            listener.proceed(call)
        else:
            listener.answer(call, 0)

    def _redirect(self, listener: SeccompListener, call: Syscall) -> None:
        try:
            connection = _take_socket(call)
        except OSError:
            self._rewrite_address(listener, call)
            return
        with connection:
            if not listener.is_pending(call):
                return
            # A datagram socket that connects asks for a route, or speaks another protocol.
            if connection.type != socket.SOCK_STREAM:
                listener.proceed(call)
            else:
                listener.answer(call, connection.connect_ex(self.endpoint.address_for(connection.family)))

    def _rewrite_address(self, listener: SeccompListener, call: Syscall) -> None:
        _, at, _, *_ = call.arguments
        sockaddr = _sockaddr(call)
        # Another thread may have changed the address.
        if is_well_known(sockaddr):
            try:
                with open(f"/proc/{call.thread}/mem", "r+b", buffering=0) as memory:
                    if listener.is_pending(call):
                        os.pwrite(memory.fileno(), self.endpoint.replace_in(sockaddr), at)
            except OSError as error:
                listener.answer(call, error.errno or errno.EPERM)
                return
        listener.proceed(call)


def _sockaddr(call: Syscall) -> bytes:
    """Return the address that the program connects to; empty if its memory cannot be read."""
    _, at, length, *_ = call.arguments
    try:
        with open(f"/proc/{call.thread}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), min(length & 0xFFFFFFFF, MAX_SOCKADDR), at)
    except (OSError, OverflowError):
        return b""


def _take_socket(call: Syscall) -> socket.socket:
    """Return the program's own socket, not a copy of it."""
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
