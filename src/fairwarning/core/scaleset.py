"""A scale set wants; its instances are. What an instance was given last is what counts (T-06)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from fairwarning.core.blueprint import MOST_MACHINES, check_name, grow, with_model
from fairwarning.core.changes import Change, MachineChanged, ScopePropertiesChanged
from fairwarning.core.commands import AddMachines, ChangeModel, Protect, Upgrade
from fairwarning.core.errors import InvalidError, NameTakenError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import Machine, MachineModel, MachineRef, Scope, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import terminate_notice


def latest_model_applied(fleet: FleetState, machine: Machine) -> bool:
    """Whether the instance has what its set wants by now."""
    return machine.model.number == fleet.scope(machine.scope).facts.model.number


def change_model(fleet: FleetState, command: ChangeModel) -> Iterator[Change]:
    """Yield the new model of each scope of the set; instances follow where the set upgrades itself."""
    for scope_id in command.scopes:
        scope = fleet.scope(scope_id)
        if command.terminate_notice is not None:
            uniform = scope.facts.kind is not ScopeKind.FLEXIBLE_SET
            spot = uniform and any(machine.spot for machine in scope.machines.values())
            terminate_notice(command.terminate_notice, spot=spot)
        model = MachineModel(
            number=scope.facts.model.number + 1,
            terminate_notice=command.terminate_notice,
            image_notice=command.image_notice,
        )
        itself = scope.facts.upgrades_itself
        itself = itself if command.upgrades_itself is None else command.upgrades_itself
        facts = replace(scope.facts, model=model, upgrades_itself=itself)
        yield ScopePropertiesChanged(scope=scope_id, facts=facts, by=command.by)
        if itself:
            yield from _upgraded(scope.machines.values(), model, command.by)


def upgrade(fleet: FleetState, command: Upgrade) -> Iterator[Change]:
    """Yield the instances as the latest model of their set wants them."""
    for ref in command.machines:
        machine = fleet.machine(ref)
        if not latest_model_applied(fleet, machine):
            yield from _upgraded([machine], fleet.scope(ref.scope).facts.model, command.by)


def _upgraded(machines: Iterable[Machine], model: MachineModel, by: str) -> Iterator[Change]:
    for machine in machines:
        yield MachineChanged(scope=machine.scope, machine=with_model(machine, model), by=by)


def protect(fleet: FleetState, command: Protect) -> Iterator[Change]:
    """Yield the instance, kept out of scale-ins or not."""
    machine = fleet.machine(command.machine)
    if machine.protected != command.protected:
        after = replace(machine, protected=command.protected)
        yield MachineChanged(scope=machine.scope, machine=after, by=command.by)


def add(fleet: FleetState, command: AddMachines) -> Iterator[Change]:
    """Yield the new instances of a set, on its latest model."""
    scope = fleet.scope(command.scope)
    if scope.facts.kind in (ScopeKind.STANDALONE, ScopeKind.CLOUD_SERVICE):
        raise InvalidError("scope", f"a {scope.facts.kind} does not grow")
    if scope.facts.deleting:
        raise InvalidError("scope", f"{scope.id} is being deleted")
    count = len(command.names) or command.count
    if not 1 <= count <= MOST_MACHINES - len(scope.machines):
        raise InvalidError("count", f"a set has at most {MOST_MACHINES} machines")
    like = next(iter(scope.machines.values()), None)
    for machine, name in zip_longest(grow(scope.facts, like, count, command.seed), command.names):
        fitted = _fitted(scope, _named(scope, machine, name), command)
        yield MachineChanged(scope=scope.id, machine=fitted, by=command.by)
    taken = scope.facts.next_instance + count * scope.facts.instance_step
    yield ScopePropertiesChanged(
        scope=scope.id, facts=replace(scope.facts, next_instance=taken), by=command.by
    )


def _named(scope: Scope, machine: Machine, name: str | None) -> Machine:
    if name is None:
        return machine
    if scope.facts.kind is ScopeKind.SCALE_SET:
        raise InvalidError("names", "the machines of a scale-set are named after it")
    check_name(name)
    if name in scope.machines:
        raise NameTakenError(name)
    return replace(machine, name=VmName(name))


def _fitted(scope: Scope, machine: Machine, command: AddMachines) -> Machine:
    spot = machine.spot if command.spot is None else command.spot
    eviction = machine.eviction if command.eviction is None else command.eviction
    tags = machine.tags if command.tags is None else command.tags
    return with_model(replace(machine, spot=spot, eviction=eviction, tags=tags), scope.facts.model)


def scale_out(scopes: Sequence[Scope], count: int) -> Mapping[ScopeId, int]:
    """Return how many new instances each zone of a set gets: always the emptiest is next."""
    sizes = {scope.id: len(remaining(scope)) for scope in scopes}
    gained: Counter[ScopeId] = Counter()
    for _ in range(count if sizes else 0):
        emptiest = min(sizes, key=lambda scope: sizes[scope])
        sizes[emptiest] += 1
        gained[emptiest] += 1
    return gained


def remaining(scope: Scope) -> tuple[VmName, ...]:
    """Return the machines that nobody has asked to delete; they are what a set's capacity counts (T-16)."""
    going = {name for e in scope.events.values() if e.cause == "delete" for name in e.resources}
    return tuple(name for name in scope.machines if name not in going)


def scale_in(scopes: Sequence[Scope], count: int) -> tuple[MachineRef, ...]:
    """Return the instances a scale-in takes.

    From the fullest zone, there from the fullest fault domain, the newest first. What is protected stays; so
    does what is being deleted already.
    """
    there = (scope.machines[name] for scope in scopes for name in remaining(scope))
    free = [machine for machine in there if not machine.protected]
    zones = Counter(machine.scope for machine in free)
    domains: dict[tuple[ScopeId, int], list[tuple[int, MachineRef]]] = {}
    for number, machine in enumerate(free):
        domains.setdefault((machine.scope, machine.fault_domain), []).append((number, machine.ref))
    chosen: list[MachineRef] = []
    while domains and len(chosen) < count:
        fullest = max(domains, key=lambda one: (zones[one[0]], len(domains[one]), domains[one][-1][0]))
        _, ref = domains[fullest].pop()
        if not domains[fullest]:
            del domains[fullest]
        zones[ref.scope] -= 1
        chosen.append(ref)
    return tuple(chosen)
