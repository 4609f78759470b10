"""Our metadata face alone in a process, with a fleet in memory and no limit on how often machines may ask.

``python -m bench.face PORT SETS MACHINES`` answers on one listener, on which machines are known by their
source address; every set has one event pending.
"""

import asyncio
import signal
import sys
from dataclasses import replace

from fairwarning.core.commands import Make, Schedule
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import PROFILES
from fairwarning.core.scope import Blueprint
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.doors import LOOPBACK, Doors, Plan
from fairwarning.metadata.server import MetadataServer
from fairwarning.store.memory import MemoryStore

UNLIMITED = replace(PROFILES["azure"], requests_per_second=1e12, burst=1e12)


async def populate(engine: Engine, sets: int, machines: int) -> None:
    """Make sets that are polled and have one event each."""
    for number in range(sets):
        blueprint = Blueprint(name=f"set{number}", count=machines)
        await engine.handle(Make(seed="bench", blueprint=blueprint))
        first = engine.directory.machine(f"set{number}_0")
        await engine.poll(first)
        await engine.handle(Schedule(id=new_event_id(), cause="restart", machines=(first,)))


async def serve(port: int, sets: int, machines: int) -> None:
    """Answer polls until told to end."""
    clock = SystemClock()
    engine = Engine(MemoryStore(), clock, SimulatedDriver(), UNLIMITED.policy)
    await engine.open()
    await populate(engine, sets, machines)
    server = MetadataServer[MachineRef](MetadataApp(engine, UNLIMITED).answer, clock.now)
    plan = Plan(port=port, own=0, shared=((LOOPBACK, port),))
    doors = Doors(server, plan, lambda slots: engine.store.note("slots", slots))
    await doors.open_shared()
    await doors.open(one.ref for scope in engine.scopes().values() for one in scope.machines.values())
    running = asyncio.ensure_future(timer.run(engine, clock))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait([running])
    await server.close()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
