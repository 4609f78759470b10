"""A whole server with every face in one process, which says how late its loop is.

``python -m bench.whole MACHINES`` writes the URLs of a listener that all machines share, of the operator API
and of the management API, and the certificate of the latter. Whenever a line comes from standard input, it
writes how late the callbacks were that were due every hundredth of a second since the line before, in ms.
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
    """Keeps how late a callback was each time it was due."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._found: list[float] = []
        self._due = self._loop.time()
        self._look()

    def _look(self) -> None:
        now = self._loop.time()
        self._found.append((now - self._due) * 1e3)
        self._due = max(self._due + INTERVAL, now)
        self._loop.call_at(self._due, self._look)

    def taken(self) -> list[float]:
        """Return what was found since this was asked last."""
        found, self._found = self._found, []
        return found


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
        _say([*service.shared_urls(), service.operator_url, service.arm_url, str(service.ca)])
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        late = Lateness()
        while await reader.readline():
            _say(late.taken())


def _say(what: object) -> None:
    os.write(sys.stdout.fileno(), f"{json.dumps(what)}\n".encode())


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
