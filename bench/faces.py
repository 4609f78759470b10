"""Our own server as the bench sees it: started, measured from outside, and told what to do to its fleet."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import Unanswered
from bench.measure import scheduler_seconds
from bench.servers import LOOPBACK, Server, fetch, module, process


@dataclass(frozen=True, slots=True, kw_only=True)
class Face(Server):
    """A server of ours that can be told what to do."""

    child: subprocess.Popen[bytes]

    def tell(self, word: str, number: int = 0, times: int = 1) -> None:
        """Have something done to a set; whoever wants to know what came of it listens."""
        assert self.child.stdin is not None
        self.child.stdin.write(f"{word} {number} {times}\n".encode())
        self.child.stdin.flush()

    def listen(self) -> float:
        """Return the number that was said about what was told last."""
        assert self.child.stdout is not None
        said = self.child.stdout.readline()
        if not said:
            raise Unanswered(f"{self.name} has ended")
        return float(said)

    def ask(self, word: str, number: int = 0, times: int = 1) -> float:
        """Have something done and return what was said about it."""
        self.tell(word, number, times)
        return self.listen()


@contextmanager
def face(sets: int, machines: int, *options: str, name: str = "fairwarning") -> Iterator[Face]:
    """Run our metadata face during the block; it has answered before the block begins."""
    # Its port is its own choice: one found for it now could be somebody else's once a large fleet is made.
    with process(
        module("bench.server_under_test", 0, sets, machines, "talk", *options), talking=True
    ) as child:
        assert child.stdout is not None
        port = child.stdout.readline().decode().rpartition(":")[2]
        if not port:
            raise Unanswered(f"{child.args!r} did not start")
        server = Face(
            name=name, pid=child.pid, address=(LOOPBACK, int(port)), meter=scheduler_seconds, child=child
        )
        fetch(server.address)
        yield server


def data(folder: Path) -> str:
    """Return the option that makes a face keep its fleet in a folder."""
    return f"data={folder}"
