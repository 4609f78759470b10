"""Runs ``bench.server_under_test`` in a process, and sends it calls that change its fleet."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import UnansweredError
from bench.measure import scheduler_seconds
from bench.servers import LOOPBACK, Server, fetch, module, process


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledServer(Server):
    """A server whose fleet the bench can change."""

    child: subprocess.Popen[bytes]

    def send(self, call: str, number: int = 0, times: int = 1) -> None:
        """Send a call about a set; ``receive`` returns its result."""
        assert self.child.stdin is not None
        self.child.stdin.write(f"{call} {number} {times}\n".encode())
        self.child.stdin.flush()

    def receive(self) -> float:
        """Return the result of the last call."""
        return self._receive()[0]

    def finished(self) -> float:
        """Return when the last call was carried out."""
        return self._receive()[1]

    def _receive(self) -> tuple[float, float]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            raise UnansweredError(f"{self.name} has ended")
        result, at = map(float, line.split())
        return result, at

    def call(self, call: str, number: int = 0, times: int = 1) -> float:
        """Send a call and return its result."""
        self.send(call, number, times)
        return self.receive()


@contextmanager
def controlled_server(
    sets: int, machines: int, *options: str, name: str = "fairwarning"
) -> Iterator[ControlledServer]:
    """Run our metadata API during the block; it has answered before the block begins."""
    # The server picks its port: a port chosen here could be taken by the time a large fleet is built.
    with process(
        module("bench.server_under_test", 0, sets, machines, "calls", *options), piped=True
    ) as child:
        assert child.stdout is not None
        port = child.stdout.readline().decode().rpartition(":")[2]
        if not port:
            raise UnansweredError(f"{child.args!r} did not start")
        server = ControlledServer(
            name=name, pid=child.pid, address=(LOOPBACK, int(port)), meter=scheduler_seconds, child=child
        )
        fetch(server.address)
        yield server


def data(folder: Path) -> str:
    """Return the option that keeps the fleet in a folder."""
    return f"data={folder}"
