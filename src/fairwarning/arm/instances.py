"""Instances of scale sets by their ids; those of a flexible set go by the names of their machines."""

from functools import partial

from fairwarning.arm import actions, gates, places, scalesets, views
from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import not_found
from fairwarning.arm.operations import accepted
from fairwarning.arm.places import GROUPED, SCALE_SETS, VMS
from fairwarning.arm.room import Document, Room
from fairwarning.arm.routing import Route
from fairwarning.core.blueprint import instance_of
from fairwarning.core.commands import Protect
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeKind, VmName

#: The kind that gates are looked up by; an instance has none of its own.
_KIND = f"{SCALE_SETS}/{VMS}"


async def list_all(room: Room, call: Call) -> Reply:
    """Show a page of a set's instances."""
    scopes = _scopes(room, call)
    model = views.scale_set(room, scopes)
    names = [(scope, name) for scope in scopes for name in scope.machines]
    found = [(_order(scope, name), partial(_listed, room, call, scope, name, model)) for scope, name in names]
    return places.page(call, found)


async def get(room: Room, call: Call) -> Reply:
    """Show an instance."""
    scopes = _scopes(room, call)
    return Reply(body=_shown(room, call, _machine(scopes, call), views.scale_set(room, scopes)))


async def put(room: Room, call: Call) -> Reply:
    """Change an instance: whether it takes part in scale-ins."""
    body = gates.read(_KIND, call)
    async with room.lock(places.resource_id(call.names["group"], SCALE_SETS, call.names["name"])):
        scopes = _scopes(room, call)
        machine, model = _machine(scopes, call), views.scale_set(room, scopes)
        after = views.over(views.instance(room, machine, model), body)
        protected = child(after, "properties", "protectionPolicy", "protectFromScaleIn") is True
        key = views.instance_id(room, machine)
        command = Protect(machine=machine.ref, protected=protected, by=call.by)
        kept = views.storable(after, "properties")
        await room.handle(command, lambda changes: {key: kept})
        machine = room.engine.machine(machine.ref)
    settled: Document = {"properties": {"provisioningState": "Succeeded"}}
    return Reply(body=views.over(_shown(room, call, machine, model), settled))


async def delete(room: Room, call: Call) -> Reply:
    """Delete an instance, with its warning; one that is not there is gone already."""
    async with room.lock(places.resource_id(call.names["group"], SCALE_SETS, call.names["name"])):
        machine = scalesets.chosen(_scopes(room, call), call.names["instance"])
        if machine is None:
            return Reply(status=204)
        key = views.instance_id(room, machine)
        removes = (key, views.switched_off(machine.ref))
        operation = await actions.announce(
            room, call, "delete", key, (machine.ref,), force=actions.forced(call), removes=removes
        )
    return accepted(room, call, operation)


async def view(room: Room, call: Call) -> Reply:
    """Show how an instance is doing."""
    return Reply(body=views.instance_view(room, _machine(_scopes(room, call), call)))


async def act(verb: str, room: Room, call: Call) -> Reply:
    """Do to an instance, or to all of them, what a verb says."""
    scopes = _scopes(room, call)
    everybody = call.names["instance"] == "*"
    resource = places.set_id(room, scopes[0])
    return await actions.act(room, call, verb, resource, _refs(scopes, call), everybody=everybody)


async def evict(room: Room, call: Call) -> Reply:
    """Evict a Spot instance."""
    return await actions.evict(room, call, _refs(_scopes(room, call), call))


def _scopes(room: Room, call: Call) -> tuple[Scope, ...]:
    return places.demand(room, SCALE_SETS, call.names["group"], call.names["name"])


def _machine(scopes: tuple[Scope, ...], call: Call) -> Machine:
    machine = scalesets.chosen(scopes, call.names["instance"])
    if machine is None:
        name = f"{call.names['name']}/{VMS}/{call.names['instance']}"
        raise not_found(f"Microsoft.Compute/{SCALE_SETS}", name, call.names["group"])
    return machine


def _refs(scopes: tuple[Scope, ...], call: Call) -> tuple[MachineRef, ...]:
    if call.names["instance"] == "*":
        return tuple(ref for scope in scopes for ref in scope.refs())
    return (_machine(scopes, call).ref,)


def _order(scope: Scope, name: VmName) -> str:
    """Return what instances are listed by: their numbers, or their names in a flexible set."""
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return name.lower()
    return f"{instance_of(name):0>10}"


def _listed(room: Room, call: Call, scope: Scope, name: VmName, model: Document) -> Document:
    return _shown(room, call, scope.machines[name], model)


def _shown(room: Room, call: Call, machine: Machine, model: Document) -> Document:
    document = gates.hide(VMS, views.instance(room, machine, model), call.version)
    if "instanceview" in call.query.get("$expand", "").lower():
        return views.expanded(document, views.instance_view(room, machine))
    return document


_VERBS = (*actions.SWITCHED, *actions.IDLE, *(v for v in actions.ANNOUNCED if v != "osRollingUpgrade"))
_ALL = f"{GROUPED}/{SCALE_SETS}/{{name}}/{VMS}"
_ONE = f"{_ALL}/{{instance}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", _ALL, list_all),
    Route("GET", _ONE, get),
    Route("PUT", _ONE, put),
    Route("PATCH", _ONE, put),
    Route("DELETE", _ONE, delete),
    Route("GET", f"{_ONE}/instanceView", view),
    Route("POST", f"{_ONE}/simulateEviction", evict),
    *(Route("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
