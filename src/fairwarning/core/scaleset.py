"""A scale set wants; its instances are. What an instance was given last is what counts (T-06)."""

from collections.abc import Iterator
from dataclasses import replace

from fairwarning.core.changes import Change, FactsChanged, MachineChanged
from fairwarning.core.commands import Add, ChangeModel, Upgrade
from fairwarning.core.errors import Invalid
from fairwarning.core.fleet import Fleet
from fairwarning.core.model import Machine, Model, ScopeKind
from fairwarning.core.policy import terminate_notice
from fairwarning.core.scope import MOST_MACHINES, grow


def latest_model_applied(fleet: Fleet, machine: Machine) -> bool:
    """Whether the instance has what its set wants by now."""
    return machine.model == fleet.scope(machine.scope).facts.model


def change_model(fleet: Fleet, command: ChangeModel) -> Iterator[Change]:
    """Yield the new model of each scope of the set; no instance changes."""
    if command.terminate_notice is not None:
        terminate_notice(command.terminate_notice)
    for scope_id in command.scopes:
        facts = fleet.scope(scope_id).facts
        model = Model(number=facts.model.number + 1, terminate_notice=command.terminate_notice)
        yield FactsChanged(scope=scope_id, facts=replace(facts, model=model), by=command.by)


def upgrade(fleet: Fleet, command: Upgrade) -> Iterator[Change]:
    """Yield the instances as the latest model of their set wants them."""
    for ref in command.machines:
        machine = fleet.machine(ref)
        if not latest_model_applied(fleet, machine):
            model = fleet.scope(ref.scope).facts.model
            yield MachineChanged(scope=ref.scope, machine=replace(machine, model=model))


def add(fleet: Fleet, command: Add) -> Iterator[Change]:
    """Yield the new instances of a set, on its latest model."""
    scope = fleet.scope(command.scope)
    if scope.facts.kind in (ScopeKind.STANDALONE, ScopeKind.CLOUD_SERVICE):
        raise Invalid("scope", f"a {scope.facts.kind} does not grow")
    if not 1 <= command.count <= MOST_MACHINES - len(scope.machines):
        raise Invalid("count", f"a set has at most {MOST_MACHINES} machines")
    like = next(iter(scope.machines.values()), None)
    for machine in grow(scope.facts, like, command.count, command.seed):
        yield MachineChanged(scope=scope.id, machine=machine)
    taken = scope.facts.next_instance + command.count * scope.facts.instance_step
    yield FactsChanged(scope=scope.id, facts=replace(scope.facts, next_instance=taken), by=command.by)
