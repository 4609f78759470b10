"""systemd's notify protocol: tells the service manager that a process is ready, alive or stopping.

The agent and the server use it, so this module needs the standard library alone.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

#: How long a message waits for a manager that is busy, in seconds.
_PATIENCE = 0.1


class ServiceManager:
    """The service manager behind NOTIFY_SOCKET; without one, nothing is sent."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ means the zero byte of an abstract socket.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        #: How often the manager wants to hear that the process is alive; None if it does not.
        self.alive_every = _watchdog(environment) if address else None

    def ready(self, text: str) -> None:
        """Report that the process has started."""
        self._send(f"READY=1\nSTATUS={text}")

    def alive(self, text: str) -> None:
        """Report that the process still works, and its state."""
        self._send(f"WATCHDOG=1\nSTATUS={text}")

    def stopping(self) -> None:
        """Report that the process is stopping."""
        self._send("STOPPING=1")

    async def keep_alive(self, is_stuck: Callable[[], bool], status: Callable[[], str]) -> None:
        """Report as often as the manager wants that the process works, unless it is stuck, until cancelled.

        The reports come from the event loop: a loop that does not turn sends none.
        """
        while self.alive_every is not None:
            if not is_stuck():
                self.alive(status())
            await asyncio.sleep(self.alive_every.total_seconds())

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A manager that no longer listens is no reason to stop working.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(_PATIENCE)
            channel.sendto(message.encode(), self._address)


def _watchdog(environment: Mapping[str, str]) -> timedelta | None:
    """Return half of the time after which a silent process is ended; None if there is no watchdog."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    is_meant = process in ("", str(os.getpid()))
    if not (microseconds.isascii() and microseconds.isdigit() and int(microseconds) and is_meant):
        return None
    return timedelta(microseconds=int(microseconds)) / 2
