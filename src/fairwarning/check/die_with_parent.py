"""Runs a program that ends with the process that started it, even if that process is killed.

Usage: python -m fairwarning.check.die_with_parent PROGRAM [ARGUMENT]...
"""

import os
import signal
import sys

from fairwarning.sandbox.syscalls import PR_SET_PDEATHSIG, prctl


def main(*command: str) -> None:
    """Replace this process with the program."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
