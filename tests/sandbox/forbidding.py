"""Runs a program on a machine that forbids some system calls, as the profiles of containers do.

usage: forbidding.py NAME… -- PROGRAM…
"""

import errno
import os
import platform
import sys
from collections.abc import Mapping

from fairwarning.sandbox.seccomp import SET_MODE_FILTER, program
from fairwarning.sandbox.syscalls import PR_SET_NO_NEW_PRIVS, prctl, seccomp

REFUSE = 0x00050000
NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"seccomp": 317, "pidfd_getfd": 438, "unshare": 272},
    "aarch64": {"seccomp": 277, "pidfd_getfd": 438, "unshare": 97},
}

if __name__ == "__main__":
    end = sys.argv.index("--")
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    # The call that sets filters can only be forbidden last.
    for name in sorted(sys.argv[1:end], key="seccomp".__eq__):
        seccomp(SET_MODE_FILTER, 0, program((NUMBERS[platform.machine()][name],), REFUSE | errno.EPERM))
    os.execv(sys.argv[end + 1], sys.argv[end + 1 :])
