"""The agent with its threads: how it starts, stops and fails."""

import json
import logging
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from fairwarning.agent.clock import AgentSystemClock
from fairwarning.agent.journal import Journal
from fairwarning.agent.service import AgentService
from fairwarning.agent.settings import AgentSettings
from fairwarning.agent.telemetry import JsonLines
from fairwarning.core.errors import InvalidError
from tests.agent.scripted import endpoint


def test_a_thread_that_breaks_ends_the_agent_instead_of_leaving_it_blind(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        service = AgentService(
            lambda: AgentSettings(endpoints=("ftp://nowhere",)), journal, AgentSystemClock(), {}
        )

        with pytest.raises(InvalidError, match="is not an http address"):
            service.run()


def test_the_service_manager_is_notified_from_start_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fairwarning.agent")
    received: list[bytes] = []
    with endpoint() as script, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(20)

        def listen() -> None:
            while not received or b"web_0 is at work" not in received[-1]:
                received.append(manager.recv(1000))
            os.kill(os.getpid(), signal.SIGTERM)
            while received[-1] != b"STOPPING=1":
                received.append(manager.recv(1000))

        listener = threading.Thread(target=listen)
        listener.start()
        with Journal(tmp_path) as journal:
            settings = AgentSettings(endpoints=(script.url,), machine="web_0")
            environment = {"NOTIFY_SOCKET": f"{tmp_path}/notify"}
            AgentService(lambda: settings, journal, AgentSystemClock(), environment).run()
        listener.join()

    assert received[0] == b"READY=1\nSTATUS=looking for the endpoint"
    assert b"WATCHDOG=1\nSTATUS=web_0 is at work; events: 0" in received
    assert received[-1] == b"STOPPING=1"
    assert caplog.messages[-1] == "stopped"


def test_a_log_line_is_one_object_with_a_name_and_fields() -> None:
    line = logging.makeLogRecord(
        {"msg": "event_seen", "levelname": "INFO", "created": 0.0, "event_id": "E1", "resources": ["web_0"]}
    )

    fields = json.loads(JsonLines().format(line))

    assert fields == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "event": "event_seen",
        "event_id": "E1",
        "resources": ["web_0"],
    }
