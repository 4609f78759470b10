"""Gives a program the host name of its machine.

A UTS namespace does so completely, but only root may make one without a user namespace, which changes what
the program sees of users and files. For all others the supervisor answers ``uname()`` in place of the kernel
(``redirect.py``): the C libraries, Go, Node and Java all read the host name with this call. What a program
reads from ``/proc/sys/kernel/hostname`` stays the name of the host then.
"""

import os
import socket
from pathlib import Path

from fairwarning.sandbox.syscalls import CLONE_NEWUTS, unshare

#: The longest host name that Linux allows.
MAX_HOST_NAME = 64

_DOMAIN = Path("/proc/sys/kernel/domainname")


def enter_uts_namespace(name: str) -> bool:
    """Give this process a host name of its own; return whether the kernel allows it."""
    try:
        unshare(CLONE_NEWUTS)
        socket.sethostname(name[:MAX_HOST_NAME])
    except OSError:
        return False
    return True


def utsname(name: str) -> bytes:
    """Return what ``uname()`` writes on this host, with another host name."""
    kernel = os.uname()
    domain = _DOMAIN.read_text().strip()
    fields = (kernel.sysname, name, kernel.release, kernel.version, kernel.machine, domain)
    return b"".join(field.encode()[:MAX_HOST_NAME].ljust(MAX_HOST_NAME + 1, b"\0") for field in fields)
