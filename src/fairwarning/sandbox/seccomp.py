"""A seccomp filter that hands some system calls to a supervisor, and the supervisor's side of it.

``install`` puts the filter on the calling process, and with it on every process that it will start. Each
time one of them makes a chosen call, the kernel suspends it and queues a notification. The supervisor
``receive``s the notification, and then either lets the kernel carry the call out (``proceed``) or ends it
with a result of its own (``answer``).

The caller may be killed while the supervisor works, and its thread id may then belong to another process.
So everything that is read from the caller through ``/proc`` or a pidfd counts only if ``is_pending`` still
holds afterwards. Memory that other threads of the caller can write may change at any time; the filter is
therefore a redirection, not a security boundary (``redirect.py``).

The numbers are those of ``linux/seccomp.h`` and ``linux/bpf_common.h``.
"""

import errno
import fcntl
import select
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fairwarning.sandbox import syscalls
from fairwarning.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl

SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_RECEIVE, _SEND_RESPONSE, _ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1

_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000

#: id, thread, flags; then number, architecture, instruction pointer and the six arguments of the call.
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
#: Where the filter finds the number of the call, and the architecture it is a number of.
_NUMBER, _ARCHITECTURE = 0, 4


@dataclass(frozen=True, slots=True)
class Syscall:
    """A suspended system call that waits for the supervisor."""

    id: int
    thread: int
    number: int
    arguments: tuple[int, ...]


def program(numbers: Sequence[int], verdict: int) -> bytes:
    """Return a filter that gives a verdict on some system calls and allows all others.

    Programs of another architecture (32 bit) pass too, because their numbers mean other calls.
    """
    count = len(numbers)
    instructions = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, count + 1, syscalls.syscall_numbers().audit_arch),
        (_LOAD, 0, 0, _NUMBER),
        # Each comparison jumps over those that follow, and over the return that allows.
        *((_JUMP_IF_EQUAL, count - index, 0, number) for index, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, verdict),
    )
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)


def install(numbers: Sequence[int]) -> int:
    """Filter this process and all that it starts; return the descriptor of the listener."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    code = program(numbers, _NOTIFY)
    try:
        # A signal must not interrupt a call that the supervisor carries out: the program would repeat it.
        return syscalls.seccomp(SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, code)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Before Linux 5.19 there is no such flag.
        return syscalls.seccomp(SET_MODE_FILTER, _NEW_LISTENER, code)


class SeccompListener:
    """Receives and answers the calls of a whole tree of processes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def receive(self) -> Syscall | None:
        """Wait for the next call and return it; None when no process is left.

        Several threads may wait; each call goes to one of them.
        """
        while True:
            buffer = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(self._descriptor, _RECEIVE, buffer)
            except OSError as error:
                # The caller was killed in the meantime, or all processes were.
                if error.errno == errno.EINTR or (error.errno == errno.ENOENT and not self._is_hung_up()):
                    continue
                return None
            id_, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
            return Syscall(id_, thread, number, tuple(arguments))

    def is_pending(self, call: Syscall) -> bool:
        """Whether the caller still waits; if so, what was just read from its thread id was its own."""
        try:
            fcntl.ioctl(self._descriptor, _ID_VALID, call.id.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def proceed(self, call: Syscall) -> None:
        """Let the kernel carry out the call unchanged."""
        self._send(_RESPONSE.pack(call.id, 0, 0, _CONTINUE))

    def answer(self, call: Syscall, code: int) -> None:
        """End the call with this error; 0 is success."""
        self._send(_RESPONSE.pack(call.id, 0, -code, 0))

    def _send(self, response: bytes) -> None:
        try:
            fcntl.ioctl(self._descriptor, _SEND_RESPONSE, response)
        except OSError as error:
            # The caller no longer waits for the answer.
            if error.errno != errno.ENOENT:
                raise

    def _is_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, 0)
        return bool(poll.poll(0))
