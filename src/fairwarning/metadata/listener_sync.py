"""Keeps the doors in step with the fleet: who comes gets one, and whose machine is gone loses it."""

import logging
from collections.abc import Callable, Iterable

from fairwarning.core.changes import MachineChanged, MachineRemoved
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError, Subscription
from fairwarning.metadata.listeners import Listeners

log = logging.getLogger("fairwarning.metadata")


async def follow(
    engine: Engine, doors: Listeners, forget: Callable[[MachineRef], None], follower: Subscription
) -> None:
    """Open and close doors as the follower hears of machines; ``forget`` is told of those that are gone."""
    while True:
        for ref in await _concerned(engine, doors, follower):
            try:
                await _look_after(engine, doors, forget, ref)
            except FairWarningError as problem:
                log.error("door_not_opened machine=%s problem=%s", ref.full, problem)


async def _concerned(engine: Engine, doors: Listeners, follower: Subscription) -> Iterable[MachineRef]:
    try:
        entry = await follower.next()
    except LaggingError:
        return {*engine.refs(), *doors.machines()}
    match entry.change:
        case MachineChanged(machine=machine):
            return (machine.ref,)
        case MachineRemoved(scope=scope, name=name):
            return (MachineRef(scope, name),)
        case _:
            return ()


async def _look_after(
    engine: Engine, doors: Listeners, forget: Callable[[MachineRef], None], ref: MachineRef
) -> None:
    scope = engine.scopes().get(ref.scope)
    if scope is not None and ref.name in scope.machines:
        await doors.open((ref,))
    else:
        await doors.close(ref)
        forget(ref)
