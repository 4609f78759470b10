"""A filter that lets a supervisor decide what becomes of a system call, and how the supervisor hears of it.

The numbers are those of ``linux/seccomp.h`` and ``linux/bpf_common.h``.
"""

import errno
import fcntl
import select
import struct
from dataclasses import dataclass

from fairwarning.sandbox import syscalls
from fairwarning.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl

SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_RECEIVE, _SEND, _ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
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
    """A system call that waits for our word."""

    id: int
    thread: int
    arguments: tuple[int, ...]


def program(number: int, verdict: int) -> bytes:
    """Return a filter that has a verdict on one system call and lets every other pass.

    Programs of another architecture (32 bit) pass too: their numbers mean something else.
    """
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 3, syscalls.syscall_numbers().audit_arch),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, verdict),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(_INSTRUCTION.pack(*step) for step in steps)


def install(number: int) -> int:
    """Put this process and all it will start under supervision; return the descriptor of the listener."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    asked = program(number, _NOTIFY)
    try:
        # A signal must not interrupt a call that we are carrying out: the program would make it twice.
        return syscalls.seccomp(SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, asked)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Before Linux 5.19 that cannot be asked for.
        return syscalls.seccomp(SET_MODE_FILTER, _NEW_LISTENER, asked)


class SeccompListener:
    """Hears of the calls of a whole tree of processes, and answers them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def receive(self) -> Syscall | None:
        """Return the next call, once there is one; None when nobody is left to make any.

        Several threads may wait here; each call goes to one of them.
        """
        while True:
            buffer = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(self._descriptor, _RECEIVE, buffer)
            except OSError as error:
                # Whoever called was killed meanwhile, or they all were.
                if error.errno == errno.EINTR or (error.errno == errno.ENOENT and not self._abandoned()):
                    continue
                return None
            id_, thread, _, _, _, _, *arguments = _NOTIFICATION.unpack(buffer)
            return Syscall(id_, thread, tuple(arguments))

    def waits(self, call: Syscall) -> bool:
        """Whether the caller is still there; if so, what was read from it just now was read from *it*."""
        try:
            fcntl.ioctl(self._descriptor, _ID_VALID, call.id.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def proceed(self, call: Syscall) -> None:
        """Let the kernel carry out the call as if we were not there."""
        self._answer(_RESPONSE.pack(call.id, 0, 0, _CONTINUE))

    def answer(self, call: Syscall, code: int) -> None:
        """End the call with this error; 0 is success."""
        self._answer(_RESPONSE.pack(call.id, 0, -code, 0))

    def _answer(self, response: bytes) -> None:
        try:
            fcntl.ioctl(self._descriptor, _SEND, response)
        except OSError as error:
            # Nobody waits for the answer any more.
            if error.errno != errno.ENOENT:
                raise

    def _abandoned(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, 0)
        return bool(poll.poll(0))
