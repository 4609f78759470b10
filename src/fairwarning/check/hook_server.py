"""Observes what a handler does to its machine, through HTTP calls, hook programs and marker files.

A call is ``POST {call}/drain/EVENT``. It is answered after the time that the scenario sets for the drain,
with 200 or 500. The hook programs make the same call. A handler that can do neither leaves a file
``drained-EVENT`` in its work folder, or a line ``drained EVENT`` in the file ``log`` there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

from fairwarning.check.background import local_server
from fairwarning.check.messages import read_body, read_head
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Hooked, Phase
from fairwarning.core.model import EventId

#: The phase that a marker file or a line of the log reports.
MARKERS: Mapping[str, Phase] = {"drained": Phase.DRAIN, "recovered": Phase.RECOVER}

_PHASES = frozenset(map(str, Phase))
_ANSWER = "HTTP/1.1 {} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_OK, _FAILED, _UNKNOWN = 200, 500, 404


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How long a hook takes on a machine, and whether it fails."""

    takes: timedelta
    fails: bool


class HookServer:
    """Serves the hook calls of all machines of a scenario."""

    def __init__(self, log: ObservationLog, behaviour_of: Callable[[str, Phase], Behaviour]) -> None:
        self._log = log
        self._behaviour_of = behaviour_of
        self._seen_markers = set[tuple[str, str]]()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Serve calls for the duration of the block; yields the base address."""
        async with local_server(self._handle_connection) as port:
            yield f"http://127.0.0.1:{port}"

    def scan_markers(self, machine: str, work: Path) -> None:
        """Record the markers that a machine has left since the last scan."""
        for marker in _markers(work):
            if (machine, marker) not in self._seen_markers:
                self._seen_markers.add((machine, marker))
                word, _, event = marker.replace("-", " ", 1).partition(" ")
                self._record_marker(machine, MARKERS[word], event)

    def _record_marker(self, machine: str, phase: Phase, event: str) -> None:
        now, event_id = self._log.now(), EventId(event.strip().upper()) or None
        hook = Hooked(machine=machine, phase=phase, event=event_id, begun=now, ended=now, ok=True)
        self._log.put_hook(hook)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError):
            status = await self._handle_call(reader)
            writer.write(_ANSWER.format(status).encode())

    async def _handle_call(self, reader: asyncio.StreamReader) -> int:
        head = await read_head(reader)
        if head is None:
            raise ConnectionResetError
        await read_body(reader, head, otherwise="none")
        machine, phase, event = (*head.words[1].strip("/").split("/", 2), "", "")[:3]
        if head.words[0] != "POST" or phase not in _PHASES:
            return _UNKNOWN
        return await self._run_hook(unquote(machine), Phase(phase), unquote(event), reader)

    async def _run_hook(self, machine: str, phase: Phase, event: str, reader: asyncio.StreamReader) -> int:
        behaviour = self._behaviour_of(machine, phase)
        event_id = EventId(event.upper()) or None
        hook = Hooked(machine=machine, phase=phase, event=event_id, begun=self._log.now())
        number = self._log.put_hook(hook)
        if await _disconnects(reader, behaviour.takes):
            return _FAILED
        ended = replace(hook, ended=self._log.now(), ok=not behaviour.fails)
        self._log.put_hook(ended, number)
        await self._log.wait_idle()
        return _FAILED if behaviour.fails else _OK


async def _disconnects(reader: asyncio.StreamReader, within: timedelta) -> bool:
    """Whether the caller disconnects before the hook has ended, because it was killed."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            await reader.read()
    except TimeoutError:
        return False
    return True


def _markers(work: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from (path.name for path in work.iterdir() if path.name.partition("-")[0] in MARKERS)
        log = (work / "log").read_text(encoding="utf-8", errors="replace")
        yield from (line.strip() for line in log.splitlines() if line.partition(" ")[0] in MARKERS)
