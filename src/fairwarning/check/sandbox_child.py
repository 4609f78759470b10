"""The process that a handler runs under: it redirects the well-known addresses and ends all descendants.

The sandbox takes over its process, so each handler gets a process of this kind, which ends with its parent.
Usage: python -m fairwarning.check.sandbox_child PORT HOST_NAME ERROR_FD PROGRAM [ARGUMENT]... The endpoint
of the handler listens on PORT. If the handler cannot be run, the reason is written to ERROR_FD; an exit code
could not carry it, because every exit code may be the handler's own.
"""

import os
import signal
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address

from fairwarning.sandbox.addresses import Endpoint
from fairwarning.sandbox.errors import ModeForbiddenError, NotStartedError
from fairwarning.sandbox.redirect import Redirect
from fairwarning.sandbox.supervise import run
from fairwarning.sandbox.syscalls import PR_SET_PDEATHSIG, prctl


def main(port: str, host_name: str, error_fd: str, *command: str) -> int:
    """Run a handler to its end and return its exit code."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_inheritable(int(error_fd), False)  # the handler must not write to it
    try:
        return run(command, Redirect(Endpoint(IPv4Address("127.0.0.1"), int(port)), host_name))
    except (ModeForbiddenError, NotStartedError) as problem:
        os.write(int(error_fd), str(problem).encode())
        return 1


def command_line(port: int, host_name: str, error_fd: int, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs a handler in this sandbox."""
    module = "fairwarning.check.sandbox_child"
    return (sys.executable, "-m", module, str(port), host_name, str(error_fd), *command)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
