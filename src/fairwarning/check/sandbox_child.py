"""The process that a handler runs under: gives it the well-known addresses and lets nothing outlive it.

The sandbox takes over the process that it runs in, so each handler has one of these. It goes with whoever
started it. Usage: cell.py PORT COMPLAINTS WORD…, PORT being where the handler's endpoint listens, and
COMPLAINTS a descriptor that hears why nothing could be run. An exit code could not say that: those are all
the handler's own.
"""

import os
import signal
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address

from fairwarning.sandbox.addresses import Endpoint
from fairwarning.sandbox.errors import ForbiddenError, NotStartedError
from fairwarning.sandbox.redirect import Redirect
from fairwarning.sandbox.supervise import run
from fairwarning.sandbox.syscalls import PR_SET_PDEATHSIG, prctl


def main(port: str, complaints: str, *command: str) -> int:
    """Run a handler to its end and return its exit code."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_inheritable(int(complaints), False)  # a handler does not complain in our name
    try:
        return run(command, Redirect(Endpoint(IPv4Address("127.0.0.1"), int(port))))
    except (ForbiddenError, NotStartedError) as problem:
        os.write(int(complaints), str(problem).encode())
        return 1


def words(port: int, complaints: int, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs a handler here."""
    return (sys.executable, "-m", "fairwarning.check.sandbox_child", str(port), str(complaints), *command)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
