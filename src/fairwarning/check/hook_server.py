"""What a handler can do to its machine so that we hear of it: hooks, calls and marker files.

A call is ``POST {call}/drain/EVENT``; it is answered once the machine has been drained, with 200 or 500 as
the scenario wants it. The hook commands make the same call. Who can do neither leaves ``drained-EVENT`` in
its work folder, or a line ``drained EVENT`` in the file ``log`` there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

from fairwarning.check.background import conversing
from fairwarning.check.messages import read_body, read_head
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Hooked, Phase
from fairwarning.core.model import EventId

#: What a marker file or a line of the log says has been done.
MARKS: Mapping[str, Phase] = {"drained": Phase.DRAIN, "recovered": Phase.RECOVER}

_PHASES = frozenset(map(str, Phase))
_ANSWER = "HTTP/1.1 {} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_DONE, _FAILED, _UNKNOWN = 200, 500, 404


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How long a hook takes on a machine, and whether it fails then."""

    takes: timedelta
    fails: bool


class HookServer:
    """Takes the calls of all machines of a play."""

    def __init__(self, notebook: ObservationLog, behaves: Callable[[str, Phase], Behaviour]) -> None:
        self._notebook = notebook
        self._behaves = behaves
        self._marked = set[tuple[str, str]]()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Take calls for as long as the block lasts, at the address that is given."""
        async with conversing(self._converse) as port:
            yield f"http://127.0.0.1:{port}"

    def survey(self, machine: str, work: Path) -> None:
        """Write down the marks that a machine has left since the last look."""
        for mark in _marks(work):
            if (machine, mark) not in self._marked:
                self._marked.add((machine, mark))
                word, _, event = mark.replace("-", " ", 1).partition(" ")
                self._note(machine, MARKS[word], event)

    def _note(self, machine: str, phase: Phase, event: str) -> None:
        now, known = self._notebook.now(), EventId(event.strip().upper()) or None
        self._notebook.hook(Hooked(machine=machine, phase=phase, event=known, begun=now, ended=now, ok=True))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError):
            status = await self._take(reader)
            writer.write(_ANSWER.format(status).encode())

    async def _take(self, reader: asyncio.StreamReader) -> int:
        head = await read_head(reader)
        if head is None:
            raise ConnectionResetError
        await read_body(reader, head, otherwise="none")
        machine, phase, event = (*head.words[1].strip("/").split("/", 2), "", "")[:3]
        if head.words[0] != "POST" or phase not in _PHASES:
            return _UNKNOWN
        return await self._hook(unquote(machine), Phase(phase), unquote(event), reader)

    async def _hook(self, machine: str, phase: Phase, event: str, reader: asyncio.StreamReader) -> int:
        behaviour = self._behaves(machine, phase)
        known = EventId(event.upper()) or None
        begun = Hooked(machine=machine, phase=phase, event=known, begun=self._notebook.now())
        number = self._notebook.hook(begun)
        if await _hangs_up(reader, behaviour.takes):
            return _FAILED
        ended = replace(begun, ended=self._notebook.now(), ok=not behaviour.fails)
        self._notebook.hook(ended, number)
        await self._notebook.settled()
        return _FAILED if behaviour.fails else _DONE


async def _hangs_up(reader: asyncio.StreamReader, within: timedelta) -> bool:
    """Whether the caller goes away before the hook is done: it was killed, and so was the hook."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            await reader.read()
    except TimeoutError:
        return False
    return True


def _marks(work: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from (path.name for path in work.iterdir() if path.name.partition("-")[0] in MARKS)
        log = (work / "log").read_text(encoding="utf-8", errors="replace")
        yield from (line.strip() for line in log.splitlines() if line.partition(" ")[0] in MARKS)
