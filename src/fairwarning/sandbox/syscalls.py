"""System calls that Python has no name for, with their numbers where those differ."""

import ctypes
import errno
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from fairwarning.sandbox.errors import ForbiddenError

#: Of an unshare(2): namespaces of users, of the network, of the host name.
CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWUTS = 0x10000000, 0x40000000, 0x04000000

#: Of a prctl(2).
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallNumbers:
    """What a processor calls the system calls we need."""

    audit_arch: int
    seccomp: int
    connect: int
    pidfd_getfd: int


#: x86-64 is what our tests run on. The numbers for arm64 are from the kernel's tables: untested.
NUMBERS: Mapping[str, SyscallNumbers] = {
    "x86_64": SyscallNumbers(audit_arch=0xC000003E, seccomp=317, connect=42, pidfd_getfd=438),
    "aarch64": SyscallNumbers(audit_arch=0xC00000B7, seccomp=277, connect=203, pidfd_getfd=438),
}

_libc = ctypes.CDLL(None, use_errno=True)


def syscall_numbers() -> SyscallNumbers:
    """Return the numbers of this machine.

    Raises:
        Forbidden: nobody has written them down yet.
    """
    machine = platform.machine()
    if machine not in NUMBERS:
        raise ForbiddenError(f"system calls whose numbers we do not know ({machine})", errno.ENOSYS)
    return NUMBERS[machine]


def prctl(option: int, value: int) -> None:
    """Change something about this process."""
    _checked(_libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(flags))


def seccomp(operation: int, flags: int, program: bytes) -> int:
    """Put a filter on this process and return what the kernel returns."""
    code = ctypes.create_string_buffer(program, len(program))
    head = _Program(len(program) // 8, ctypes.addressof(code))
    return _checked(_libc.syscall(syscall_numbers().seccomp, operation, flags, ctypes.byref(head)))


def pidfd_getfd(pidfd: int, descriptor: int) -> int:
    """Return a descriptor of our own for what another process has open."""
    return _checked(_libc.syscall(syscall_numbers().pidfd_getfd, pidfd, descriptor, 0))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
