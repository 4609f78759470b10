"""Scale sets: their model, their upgrades, their growth and which instances a scale-in removes.

A set has a model, and every instance keeps the model that it was given last. A change of the set's model
reaches an instance only by an upgrade (T-06).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from fairwarning.core.blueprint import MOST_MACHINES, check_name, grow, with_model
from fairwarning.core.changes import Change, MachineChanged, ScopePropertiesChanged
from fairwarning.core.commands import AddMachines, ChangeModel, Protect, SetTagsOfSet, Upgrade
from fairwarning.core.errors import InvalidError, NameTakenError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import (
    Machine,
    MachineModel,
    MachineRef,
    Scope,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
    replace,
)
from fairwarning.core.policy import check_terminate_notice


def latest_model_applied(fleet: FleetState, machine: Machine) -> bool:
    """Whether the instance has the latest model of its set."""
    return machine.model.number == fleet.scope(machine.scope).facts.model.number


def change_model(fleet: FleetState, command: ChangeModel) -> Iterator[Change]:
    """Yield the new model of each scope of the set, and the instances if the set upgrades itself."""
    for scope_id in command.scopes:
        scope = fleet.scope(scope_id)
        if command.terminate_notice is not None:
            uniform = scope.facts.kind is not ScopeKind.FLEXIBLE_SET
            spot = uniform and any(machine.spot for machine in scope.machines.values())
            check_terminate_notice(command.terminate_notice, spot=spot)
        model = MachineModel(
            number=scope.facts.model.number + 1,
            terminate_notice=command.terminate_notice,
            image_notice=command.image_notice,
            tags=scope.facts.model.tags,
        )
        itself = scope.facts.upgrades_itself
        itself = itself if command.upgrades_itself is None else command.upgrades_itself
        properties = replace(scope.facts, model=model, upgrades_itself=itself)
        yield ScopePropertiesChanged(scope=scope_id, facts=properties, by=command.by)
        if itself:
            yield from _upgraded(scope.machines.values(), model, command.by)


def set_tags(fleet: FleetState, command: SetTagsOfSet) -> Iterator[Change]:
    """Yield the scopes of a set with its new tags; that is no new model, and no instance has them yet."""
    for scope_id in command.scopes:
        properties = fleet.scope(scope_id).facts
        if properties.model.tags != command.tags:
            model = replace(properties.model, tags=command.tags)
            yield ScopePropertiesChanged(
                scope=scope_id, facts=replace(properties, model=model), by=command.by
            )


def restarted(machine: Machine, properties: ScopeProperties) -> Machine:
    """Return a machine after a restart: what has changed of its set's tags reaches an instance (I-11)."""
    now, before = properties.model.tags, dict(machine.model.tags or ())
    if now is None or now == machine.model.tags or properties.kind is not ScopeKind.SCALE_SET:
        return machine
    changed = {name: value for name, value in now if before.get(name) != value}
    removed = before.keys() - dict(now).keys()
    kept = {name: value for name, value in machine.tags if name not in removed}
    model = replace(machine.model, tags=now)
    return replace(machine, tags=tuple((kept | changed).items()), model=model)


def upgrade(fleet: FleetState, command: Upgrade) -> Iterator[Change]:
    """Yield the instances with the latest model of their set."""
    for ref in command.machines:
        machine = fleet.machine(ref)
        if not latest_model_applied(fleet, machine):
            yield from _upgraded([machine], fleet.scope(ref.scope).facts.model, command.by)


def _upgraded(machines: Iterable[Machine], model: MachineModel, by: str) -> Iterator[Change]:
    for machine in machines:
        # I-11: an upgrade is no restart.
        upgraded = with_model(machine, replace(model, tags=machine.model.tags))
        yield MachineChanged(scope=machine.scope, machine=upgraded, by=by)


def protect(fleet: FleetState, command: Protect) -> Iterator[Change]:
    """Yield the instance, protected from scale-in or not."""
    machine = fleet.machine(command.machine)
    if machine.protected != command.protected:
        after = replace(machine, protected=command.protected)
        yield MachineChanged(scope=machine.scope, machine=after, by=command.by)


def add_machines(fleet: FleetState, command: AddMachines) -> Iterator[Change]:
    """Yield the new instances of a set, on its latest model."""
    scope = fleet.scope(command.scope)
    if scope.facts.kind in (ScopeKind.STANDALONE, ScopeKind.CLOUD_SERVICE):
        raise InvalidError("scope", f"machines cannot be added to a {scope.facts.kind}")
    if scope.facts.deleting:
        raise InvalidError("scope", f"{scope.id} is being deleted")
    count = len(command.names) or command.number
    if not 1 <= count <= MOST_MACHINES - len(scope.machines):
        raise InvalidError("count", f"a set has at most {MOST_MACHINES} machines")
    like = next(iter(scope.machines.values()), None)
    for machine, name in zip_longest(grow(scope.facts, like, count, command.seed), command.names):
        configured = _with_settings(scope, _with_name(scope, machine, name), command)
        yield MachineChanged(scope=scope.id, machine=configured, by=command.by)
    next_instance = scope.facts.next_instance + count * scope.facts.instance_step
    properties = replace(scope.facts, next_instance=next_instance)
    yield ScopePropertiesChanged(scope=scope.id, facts=properties, by=command.by)


def _with_name(scope: Scope, machine: Machine, name: str | None) -> Machine:
    if name is None:
        return machine
    if scope.facts.kind is ScopeKind.SCALE_SET:
        raise InvalidError("names", "the machines of a scale-set are named after it")
    check_name(name)
    if name in scope.machines:
        raise NameTakenError(name)
    return replace(machine, name=VmName(name))


def _with_settings(scope: Scope, machine: Machine, command: AddMachines) -> Machine:
    spot = machine.spot if command.spot is None else command.spot
    eviction = machine.eviction if command.eviction is None else command.eviction
    inherited = machine.tags if scope.facts.model.tags is None else scope.facts.model.tags
    tags = inherited if command.tags is None else command.tags
    return with_model(replace(machine, spot=spot, eviction=eviction, tags=tags), scope.facts.model)


def scale_out(scopes: Sequence[Scope], count: int) -> Mapping[ScopeId, int]:
    """Return how many new instances each zone of a set gets; each goes to the zone with the fewest."""
    sizes = {scope.id: len(remaining(scope)) for scope in scopes}
    gained: Counter[ScopeId] = Counter()
    for _ in range(count if sizes else 0):
        emptiest = min(sizes, key=lambda scope: sizes[scope])
        sizes[emptiest] += 1
        gained[emptiest] += 1
    return gained


def remaining(scope: Scope) -> tuple[VmName, ...]:
    """Return the machines without a pending delete; a set's capacity counts only these (T-16)."""
    deletes = [event for event in scope.events.values() if event.cause == "delete"]
    deleting = {name for event in deletes for name in event.resources}
    return tuple(name for name in scope.machines if name not in deleting)


def scale_in(scopes: Sequence[Scope], count: int) -> tuple[MachineRef, ...]:
    """Return the instances that a scale-in removes.

    Each is the newest of the fullest fault domain of the fullest zone. Protected instances stay, and
    instances with a pending delete do not count.
    """
    machines = (scope.machines[name] for scope in scopes for name in remaining(scope))
    removable = [machine for machine in machines if not machine.protected]
    zones = Counter(machine.scope for machine in removable)
    domains: dict[tuple[ScopeId, int], list[tuple[int, MachineRef]]] = {}
    for number, machine in enumerate(removable):
        domains.setdefault((machine.scope, machine.fault_domain), []).append((number, machine.ref))
    chosen: list[MachineRef] = []
    while domains and len(chosen) < count:
        fullest = max(domains, key=lambda key: (zones[key[0]], len(domains[key]), domains[key][-1][0]))
        _, ref = domains[fullest].pop()
        if not domains[fullest]:
            del domains[fullest]
        zones[ref.scope] -= 1
        chosen.append(ref)
    return tuple(chosen)
