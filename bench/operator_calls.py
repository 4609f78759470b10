"""What the bench asks of ``bench.server_under_test``: a word in, a line with the result out."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

from fairwarning.core.commands import Cancel, Schedule, StartRollout
from fairwarning.core.model import MachineRef, Scope, ScopeId
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.engine import Engine

#: What is done to the fleet, told which set and how often; returns what to say about it.
Act = Callable[[Engine, ScopeId, int], Awaitable[str]]


async def talk(engine: Engine, url: str) -> None:
    """Say where polls are answered, then do what standard input says, line by line."""
    _say(url)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        word, number, times = line.decode().split()
        _say(await ACTS[word](engine, ScopeId(f"set{number}"), int(times)))


def _say(what: str) -> None:
    os.write(sys.stdout.fileno(), f"{what}\n".encode())


async def _announce(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Restart machines that have nothing pending."""
    machines = _quiet(engine.scope(scope_id), times)
    await engine.handle(Schedule(id=new_event_id(), cause="restart", machines=machines))
    return str(len(machines))


async def _withdraw(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Take back what was announced last."""
    events = [event for event in engine.scope(scope_id).events.values() if event.waiting][-times:]
    for event in events:
        await engine.handle(Cancel(scope=scope_id, id=event.id))
    return str(len(events))


async def _walk(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Take maintenance through a set, unless it is under way."""
    if engine.scope(scope_id).facts.walk is not None:
        return "0"
    await engine.handle(StartRollout(id=new_event_id(), scope=scope_id))
    return "1"


async def _collect(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Collect garbage of all generations; say how many CPU seconds that took."""
    begun = time.process_time()
    for _ in range(times):
        gc.collect()
    return str((time.process_time() - begun) / times)


ACTS: Mapping[str, Act] = {
    "announce": _announce,
    "withdraw": _withdraw,
    "walk": _walk,
    "collect": _collect,
}


def _quiet(scope: Scope, wanted: int) -> tuple[MachineRef, ...]:
    busy = {name for event in scope.events.values() for name in event.resources}
    return tuple(islice((one for one in scope.refs() if one.name not in busy), wanted))
