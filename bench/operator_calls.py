"""The calls of ``bench.server_under_test``: a line on standard input; the result, and when, on output."""

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

#: Changes a set a number of times, and returns the result as text.
Call = Callable[[Engine, ScopeId, int], Awaitable[str]]


async def serve_calls(engine: Engine, url: str) -> None:
    """Write the URL for polls, then carry out the calls on standard input, line by line."""
    _write_line(url)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        call, number, times = line.decode().split()
        result = await CALLS[call](engine, ScopeId(f"set{number}"), int(times))
        _write_line(f"{result} {time.monotonic()}")


def _write_line(text: str) -> None:
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


async def _restart(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Restart machines without a pending event."""
    machines = _idle_machines(engine.scope(scope_id), times)
    await engine.handle(Schedule(id=new_event_id(), cause="restart", machines=machines))
    return str(len(machines))


async def _cancel(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Cancel the newest scheduled events."""
    events = [event for event in engine.scope(scope_id).events.values() if event.waiting][-times:]
    for event in events:
        await engine.handle(Cancel(scope=scope_id, id=event.id))
    return str(len(events))


async def _roll_out(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Start a rollout in a set, unless one is under way."""
    if engine.scope(scope_id).facts.walk is not None:
        return "0"
    await engine.handle(StartRollout(id=new_event_id(), scope=scope_id))
    return "1"


async def _collect(engine: Engine, scope_id: ScopeId, times: int) -> str:
    """Collect garbage of all generations; return the CPU seconds."""
    begun = time.process_time()
    for _ in range(times):
        gc.collect()
    return str((time.process_time() - begun) / times)


CALLS: Mapping[str, Call] = {
    "restart": _restart,
    "cancel": _cancel,
    "rollout": _roll_out,
    "collect": _collect,
}


def _idle_machines(scope: Scope, count: int) -> tuple[MachineRef, ...]:
    busy = {name for event in scope.events.values() for name in event.resources}
    return tuple(islice((ref for ref in scope.refs() if ref.name not in busy), count))
