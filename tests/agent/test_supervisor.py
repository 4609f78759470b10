"""The notify protocol of the service manager."""

import socket
from pathlib import Path

import pytest

from fairwarning.agent.service import Supervisor


@pytest.mark.parametrize(
    "abstract", [pytest.param(False, id="a socket in a folder"), pytest.param(True, id="an abstract one")]
)
def test_the_manager_is_notified_of_ready_alive_and_stopping(tmp_path: Path, abstract: bool) -> None:
    path = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{path}" if abstract else path)
        manager.settimeout(5)
        supervisor = Supervisor({"NOTIFY_SOCKET": f"@{path}" if abstract else path})

        supervisor.ready("looking")
        supervisor.alive("at work")
        supervisor.stopping()

        received = [manager.recv(1000) for _ in range(3)]
    assert received == [b"READY=1\nSTATUS=looking", b"WATCHDOG=1\nSTATUS=at work", b"STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="no manager"),
        pytest.param({"NOTIFY_SOCKET": "/nowhere/notify"}, id="a manager that has gone"),
    ],
)
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    Supervisor(environment).alive("at work")
