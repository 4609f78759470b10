"""A server with all APIs in one process, which reports how late its event loop is.

``python -m bench.full_server MACHINES`` writes the URLs of the shared metadata listener, the operator API and
the management API, and the path of the certificate authority. A callback is due every hundredth of a second.
For each line on standard input, the server writes how late the callbacks were since the last line, in ms.
"""

import asyncio
import gc
import json
import os
import sys
from dataclasses import replace

from fairwarning.config import Settings, arm_address
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.policy import PROFILES
from fairwarning.metadata.listeners import LOOPBACK
from fairwarning.server import FleetServer

INTERVAL = 0.01


class Lateness:
    """Records how late a periodic callback is."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._late: list[float] = []
        self._due = self._loop.time()
        self._record()

    def _record(self) -> None:
        now = self._loop.time()
        self._late.append((now - self._due) * 1e3)
        self._due = max(self._due + INTERVAL, now)
        self._loop.call_at(self._due, self._record)

    def take(self) -> list[float]:
        """Return the records since the last call."""
        late, self._late = self._late, []
        return late


async def serve(machines: int) -> None:
    """Serve until standard input ends."""
    profile = PROFILES["azure"]
    settings = Settings(
        blueprints=(Blueprint(name="web", count=machines),),
        profile=replace(profile, policy=replace(profile.policy, start_enabled=True)),
        port_base=0,
        arm=arm_address(0),
        listen=((LOOPBACK, 0),),
    )
    async with FleetServer(settings) as service:
        gc.collect()
        gc.freeze()
        _write_line([*service.shared_urls(), service.operator_url, service.arm_url, str(service.ca)])
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        lateness = Lateness()
        while await reader.readline():
            _write_line(lateness.take())


def _write_line(value: object) -> None:
    os.write(sys.stdout.fileno(), f"{json.dumps(value)}\n".encode())


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
