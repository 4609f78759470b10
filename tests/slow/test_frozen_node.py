"""A node that stood still does not answer from the state that it had before, whatever asks first."""

import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.cli.server import until
from tests.cli.test_serve import EVENTS, FLEET, Serving, serving
from tests.config.files import secret
from tests.postgres import new_database

GUEST = "127.77.0.2"
STORE = 'kind = "postgres"\ndsn_file = "../dsn"\nmigrate = true\nstale_after = "3s"'
#: How long the node stands still, in seconds.
PAUSE = 3.5


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[Serving, Serving]]:
    """Run two nodes on a new database during the block."""
    secret(folder, "dsn", new_database())
    text = FLEET.replace('kind = "sqlite"\npath = "data"', STORE)
    for name in ("a", "b"):
        (folder / name).mkdir()
    with serving(folder / "a", text) as first, serving(folder / "b", text) as second:
        yield first, second


class KeptConnection:
    """A guest that keeps its connection, and need not read an answer before it goes on."""

    def __init__(self, node: Serving) -> None:
        with node.guest(GUEST) as guest:
            address = guest.base_url.host, guest.base_url.port or 80
        self._socket = socket.create_connection(address, 20, (GUEST, 0))

    def ask(self, query: str = "", *lines: str) -> None:
        """Send a poll."""
        head = [f"GET {EVENTS}{query} HTTP/1.1", "Host: imds", "Metadata: true", *lines, "", ""]
        self._socket.sendall("\r\n".join(head).encode())

    def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next response."""
        head, _, body = self._socket.recv(65536).partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def poll(self) -> tuple[int, bytes]:
        """Send a poll, and return its answer."""
        self.ask()
        return self.answer()


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.rule("R-29")
def test_a_node_that_stood_still_does_not_answer_from_its_old_state(tmp_path: Path) -> None:
    with (
        two_nodes(tmp_path) as (frozen, other),
        closing(KeptConnection(frozen)) as polling,
        closing(KeptConnection(frozen)) as waiting,
    ):
        before = [polling.poll()[0] for _ in range(3)]  # the last takes the fast path
        waiting.ask("&wait=2", 'If-None-Match: "1"')

        frozen.process.send_signal(signal.SIGSTOP)
        other.tell("cause", "restart", "w2")
        polling.ask()
        Event().wait(PAUSE)
        frozen.process.send_signal(signal.SIGCONT)
        first = [polling.answer(), waiting.answer()]
        until(lambda: b"Reboot" in polling.poll()[1], "the node has read what happened meanwhile")

    assert before == [200, 200, 200]
    assert [answer for answer in first if answer[0] != 503 and b"Reboot" not in answer[1]] == []
