"""Becomes a program that ends with whoever started it, even if that one is killed.

Usage: leash.py WORD….
"""

import os
import signal
import sys

from fairwarning.sandbox.syscalls import PR_SET_PDEATHSIG, prctl


def main(*command: str) -> None:
    """Become the program."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
