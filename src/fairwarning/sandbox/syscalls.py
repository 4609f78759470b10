"""System calls that Python does not offer, with their numbers per architecture."""

import ctypes
import errno
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from fairwarning.sandbox.errors import ModeForbiddenError

#: Flags of unshare(2): user, network and UTS namespaces.
CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWUTS = 0x10000000, 0x40000000, 0x04000000

#: Options of prctl(2).
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallNumbers:
    """The numbers of the system calls on one architecture."""

    audit_arch: int
    seccomp: int
    connect: int
    uname: int
    pidfd_getfd: int


#: The tests run on x86-64. The numbers for arm64 come from the kernel's tables and are untested.
NUMBERS: Mapping[str, SyscallNumbers] = {
    "x86_64": SyscallNumbers(audit_arch=0xC000003E, seccomp=317, connect=42, uname=63, pidfd_getfd=438),
    "aarch64": SyscallNumbers(audit_arch=0xC00000B7, seccomp=277, connect=203, uname=160, pidfd_getfd=438),
}

_libc = ctypes.CDLL(None, use_errno=True)


def syscall_numbers() -> SyscallNumbers:
    """Return the numbers of this machine.

    Raises:
        ModeForbiddenError: the numbers of this architecture are unknown.
    """
    machine = platform.machine()
    if machine not in NUMBERS:
        raise ModeForbiddenError(f"system calls with unknown numbers ({machine})", errno.ENOSYS)
    return NUMBERS[machine]


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    _checked(_libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(_libc.unshare(flags))


def seccomp(operation: int, flags: int, program: bytes) -> int:
    """Put a filter on this process and return what the kernel returns."""
    code = ctypes.create_string_buffer(program, len(program))
    head = _Program(len(program) // 8, ctypes.addressof(code))
    return _checked(_libc.syscall(syscall_numbers().seccomp, operation, flags, ctypes.byref(head)))


def pidfd_getfd(pidfd: int, descriptor: int) -> int:
    """Return a duplicate of a descriptor of another process."""
    return _checked(_libc.syscall(syscall_numbers().pidfd_getfd, pidfd, descriptor, 0))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
