"""Tells systemd how the agent is: ready, alive, on its way out."""

import socket
from collections.abc import Mapping
from contextlib import suppress


class Supervisor:
    """The service manager that started the agent, if one did."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of an abstract socket.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self, text: str) -> None:
        """Say that the agent is up."""
        self._send(f"READY=1\nSTATUS={text}")

    def alive(self, text: str) -> None:
        """Say that the agent still turns, and how it is."""
        self._send(f"WATCHDOG=1\nSTATUS={text}")

    def stopping(self) -> None:
        """Say that the agent ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A manager that does not listen any more is no reason to stop watching over the machine.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line,
        ):
            line.settimeout(1.0)
            line.sendto(message.encode(), self._address)
