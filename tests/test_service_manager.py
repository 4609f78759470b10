"""The notify protocol of the service manager."""

import asyncio
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.service_manager import ServiceManager
from tests.virtual_time import run_leaping


@pytest.mark.parametrize(
    "abstract", [pytest.param(False, id="a socket in a folder"), pytest.param(True, id="an abstract one")]
)
def test_the_manager_is_notified_of_ready_alive_and_stopping(tmp_path: Path, abstract: bool) -> None:
    path = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{path}" if abstract else path)
        channel.settimeout(5)
        manager = ServiceManager({"NOTIFY_SOCKET": f"@{path}" if abstract else path})

        manager.ready("looking")
        manager.alive("at work")
        manager.stopping()

        received = [channel.recv(1000) for _ in range(3)]
    assert received == [b"READY=1\nSTATUS=looking", b"WATCHDOG=1\nSTATUS=at work", b"STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="no manager"),
        pytest.param({"NOTIFY_SOCKET": "/nowhere/notify"}, id="a manager that has gone"),
    ],
)
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    ServiceManager(environment).alive("at work")


@pytest.mark.parametrize(
    ("environment", "every"),
    [
        pytest.param({"WATCHDOG_USEC": "3000000"}, timedelta(seconds=1.5), id="half of the watchdog's time"),
        pytest.param({}, None, id="no watchdog"),
        pytest.param({"WATCHDOG_USEC": "0"}, None, id="a watchdog that is off"),
        pytest.param({"WATCHDOG_USEC": "soon"}, None, id="no number"),
        pytest.param({"WATCHDOG_USEC": "2", "WATCHDOG_PID": "1"}, None, id="another process's watchdog"),
        pytest.param(
            {"WATCHDOG_USEC": "2", "WATCHDOG_PID": str(os.getpid())},
            timedelta(microseconds=1),
            id="this process's watchdog",
        ),
    ],
)
def test_the_watchdog_hears_of_the_process_in_time(
    environment: dict[str, str], every: timedelta | None
) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/nowhere", **environment}).alive_every == every
    assert ServiceManager(environment).alive_every is None, "without a manager there is no watchdog"


def test_a_process_that_is_stuck_sends_no_sign_of_life(tmp_path: Path) -> None:
    async def story(manager: ServiceManager) -> None:
        stuck = False
        reporting = asyncio.create_task(manager.keep_alive(lambda: stuck, lambda: "at work"))
        await asyncio.sleep(2.5)
        stuck = True
        await asyncio.sleep(60)
        reporting.cancel()

    path = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path)
        channel.setblocking(False)
        run_leaping(story(ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"})))

        received = [channel.recv(1000) for _ in range(3)]
        with pytest.raises(BlockingIOError):
            channel.recv(1000)
    assert received == [b"WATCHDOG=1\nSTATUS=at work"] * 3
