"""Faults of single endpoints."""

import asyncio
from math import inf

from fairwarning.core import durations
from fairwarning.engine.faults import Ailment, Fault
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk
from fairwarning.operator.fleet import machine_shape


async def put(desk: Desk, name: str, asked: shapes.FaultWanted) -> shapes.Machine:
    """Let a machine's endpoint misbehave, for a while or until it is healed."""
    ref = desk.engine.directory.machine(name)
    now = asyncio.get_running_loop().time()
    lasts = inf if asked.lasts is None else durations.parse(asked.lasts, "lasts").total_seconds()
    delay = durations.parse(asked.delay, "delay").total_seconds()
    desk.engine.faults.put(ref, Fault(Ailment(asked.fault), now + lasts, delay))
    return machine_shape(desk, ref)


async def heal(desk: Desk, name: str, asked: shapes.Nothing) -> shapes.Machine:
    """Let a machine's endpoint work again."""
    ref = desk.engine.directory.machine(name)
    desk.engine.faults.heal(ref)
    return machine_shape(desk, ref)
