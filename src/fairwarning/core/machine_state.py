"""How a machine is, in one word: what its power and the events that concern it come to."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from fairwarning.core.model import Event, EventStatus, EventType, Machine, PowerState, Scope


class MachineState(StrEnum):
    """The state of a machine, as people would say it."""

    RUNNING = "running"
    WARNED = "warned"
    FROZEN = "frozen"
    REBOOTING = "rebooting"
    MOVING = "moving"
    EVICTING = "evicting"
    TERMINATING = "terminating"
    STOPPED = "stopped"


#: What a started event does to a machine, the gravest first; a rebalance recommendation does nothing to it.
IMPACTS: Mapping[EventType, MachineState] = {
    EventType.TERMINATE: MachineState.TERMINATING,
    EventType.PREEMPT: MachineState.EVICTING,
    EventType.REDEPLOY: MachineState.MOVING,
    EventType.REBOOT: MachineState.REBOOTING,
    EventType.FREEZE: MachineState.FROZEN,
}


def machine_states(scope: Scope) -> Mapping[str, MachineState]:
    """Return how each machine of a scope is."""
    concerning: dict[str, list[Event]] = {}
    for event in scope.events.values():
        for name in event.undone:
            concerning.setdefault(name, []).append(event)
    return {name: _condition(machine, concerning.get(name, ())) for name, machine in scope.machines.items()}


def machine_state(scope: Scope, machine: Machine) -> MachineState:
    """Return how one machine of a scope is."""
    name, events = machine.name, scope.events.values()
    return _condition(machine, [one for one in events if name in one.undone])


def _condition(machine: Machine, concerning: Sequence[Event]) -> MachineState:
    if machine.power is PowerState.STOPPED:
        return MachineState.STOPPED
    acting = {event.kind for event in concerning if event.status is EventStatus.STARTED}
    for kind, impact in IMPACTS.items():
        if kind in acting:
            return impact
    return MachineState.WARNED if any(event.seen for event in concerning) else MachineState.RUNNING
