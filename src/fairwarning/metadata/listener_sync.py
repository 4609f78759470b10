"""Keeps the listeners in step with the fleet: opens them for new machines, closes them for deleted ones."""

import logging
from collections.abc import Callable, Iterable

from fairwarning.core.changes import MachineChanged, MachineRemoved
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError, Subscription
from fairwarning.formats.log_messages import LogMessage
from fairwarning.metadata.listeners import MachineListeners

log = logging.getLogger("fairwarning.metadata")


async def sync_listeners(
    engine: Engine,
    listeners: MachineListeners,
    forget: Callable[[MachineRef], None],
    subscription: Subscription,
) -> None:
    """Open and close listeners as machines come and go; ``forget`` is called for each deleted machine."""
    while True:
        for machine in await _changed_machines(engine, listeners, subscription):
            try:
                await _sync_machine(engine, listeners, forget, machine)
            except FairWarningError as problem:
                log.error(LogMessage("listener_not_opened", machine=machine.full, problem=problem))


async def _changed_machines(
    engine: Engine, listeners: MachineListeners, subscription: Subscription
) -> Iterable[MachineRef]:
    try:
        entry = await subscription.next()
    except LaggingError:
        return {*engine.refs(), *listeners.machines()}
    match entry.change:
        case MachineChanged(machine=machine):
            return (machine.ref,)
        case MachineRemoved(scope=scope, name=name):
            return (MachineRef(scope, name),)
        case _:
            return ()


async def _sync_machine(
    engine: Engine, listeners: MachineListeners, forget: Callable[[MachineRef], None], machine: MachineRef
) -> None:
    scope = engine.scopes().get(machine.scope)
    if scope is not None and machine.name in scope.machines:
        await listeners.open((machine,))
    else:
        await listeners.close(machine)
        forget(machine)
