"""How a machine is, in one word: what its power and the events that concern it come to."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from fairwarning.core.model import Event, Kind, Machine, Power, Scope, Status


class Condition(StrEnum):
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
IMPACTS: Mapping[Kind, Condition] = {
    Kind.TERMINATE: Condition.TERMINATING,
    Kind.PREEMPT: Condition.EVICTING,
    Kind.REDEPLOY: Condition.MOVING,
    Kind.REBOOT: Condition.REBOOTING,
    Kind.FREEZE: Condition.FROZEN,
}


def conditions(scope: Scope) -> Mapping[str, Condition]:
    """Return how each machine of a scope is."""
    concerning: dict[str, list[Event]] = {}
    for event in scope.events.values():
        for name in event.undone:
            concerning.setdefault(name, []).append(event)
    return {name: _condition(machine, concerning.get(name, ())) for name, machine in scope.machines.items()}


def condition(scope: Scope, machine: Machine) -> Condition:
    """Return how one machine of a scope is."""
    name, events = machine.name, scope.events.values()
    return _condition(machine, [one for one in events if name in one.undone])


def _condition(machine: Machine, concerning: Sequence[Event]) -> Condition:
    if machine.power is Power.STOPPED:
        return Condition.STOPPED
    acting = {event.kind for event in concerning if event.status is Status.STARTED}
    for kind, impact in IMPACTS.items():
        if kind in acting:
            return impact
    return Condition.WARNED if any(event.seen for event in concerning) else Condition.RUNNING
