"""An agent whose HTTP server gets connections that say little and stay."""

import socket
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from time import sleep

import pytest

from tests.agent.processes import guest
from tests.cli.server import free_port, until, up

CONNECTIONS, APART = 300, 0.02


def threads(pid: int) -> int:
    (line,) = [row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if "Threads:" in row]
    return int(line.split()[1])


def health(port: int) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.slow
def test_an_agent_under_300_slow_connections_drains_and_approves(tmp_path: Path, stack: ExitStack) -> None:
    port = free_port()
    server = stack.enter_context(up(tmp_path, "--vm", "attacked", "--speed", "20", "--no-arm"))
    attacked = guest(server, tmp_path, "attacked", stack, extra=f'listen = "127.0.0.1:{port}"')
    attacked.run()
    (agent,) = attacked.processes

    most = 0
    for _ in range(CONNECTIONS):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)).sendall(b"GET /")
        sleep(APART)
        most = max(most, threads(agent.pid))
    during = health(port)
    (event,) = server.cause("restart", "attacked")
    until(lambda: "approval_accepted" in attacked.log_text(), "the approval is accepted")
    attacked.recovered(event)

    assert agent.poll() is None
    assert most < 16
    assert (during, health(port)) == (200, 200)
    assert attacked.did(event) == ["prepare", "recover"]
