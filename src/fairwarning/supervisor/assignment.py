"""What a supervisor gives a worker when it starts it: a number, the sockets, an internal address.

The worker inherits the sockets; the assignment names their descriptors, in the order in which they were
opened. It is passed in an environment variable (``config.WORKER_VARIABLE``).
"""

import json
import os
import signal
import socket
from dataclasses import asdict, dataclass
from errno import EADDRNOTAVAIL
from pathlib import Path

from fairwarning.sandbox.syscalls import PR_SET_PDEATHSIG, prctl


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedSocket:
    """A listening socket: the address as configured, and the descriptor."""

    host: str
    port: int
    descriptor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The place of one worker."""

    worker: int
    supervisor_pid: int
    #: The Unix socket at which the worker answers the supervisor.
    internal: Path
    sockets: tuple[InheritedSocket, ...]

    def encode(self) -> str:
        """Return the assignment as a text for the environment."""
        return json.dumps({**asdict(self), "internal": str(self.internal)})

    @classmethod
    def decode(cls, text: str) -> "Assignment":
        """Return the assignment that a text holds."""
        members = json.loads(text)
        return cls(
            worker=members["worker"],
            supervisor_pid=members["supervisor_pid"],
            internal=Path(members["internal"]),
            sockets=tuple(InheritedSocket(**member) for member in members["sockets"]),
        )


class InheritedSockets:
    """Gives each inherited socket to the first listener that asks for its address."""

    def __init__(self, assignment: Assignment) -> None:
        self._remaining = list(assignment.sockets)

    def bind(self, host: str, port: int) -> socket.socket:
        """Return the listening socket of an address.

        Raises:
            OSError: the supervisor has opened no socket for this address.
        """
        for inherited in self._remaining:
            if (inherited.host, inherited.port) == (host, port):
                self._remaining.remove(inherited)
                os.set_inheritable(inherited.descriptor, False)
                return socket.socket(fileno=inherited.descriptor)
        raise OSError(EADDRNOTAVAIL, "the supervisor has no socket for this address; restart it")


def end_with_supervisor(assignment: Assignment) -> None:
    """Have this process stop as after SIGTERM when its supervisor ends, even if that is killed."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != assignment.supervisor_pid:
        raise SystemExit("the supervisor has ended")
