"""Instances of scale sets by their ids; those of a flexible set go by the names of their machines."""

from functools import partial

from fairwarning.arm import resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import actions, render, scalesets, validation
from fairwarning.arm.context import ArmContext, Document
from fairwarning.arm.errors import not_found
from fairwarning.arm.operations import accepted
from fairwarning.arm.resource_ids import GROUPED, SCALE_SETS, VMS
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import instance_of
from fairwarning.core.commands import Protect
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeKind, VmName

#: The kind that gates are looked up by; an instance has none of its own.
_KIND = f"{SCALE_SETS}/{VMS}"


async def list_all(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of a set's instances."""
    scopes = _scopes(room, call)
    model = render.scale_set(room, scopes)
    names = [(scope, name) for scope in scopes for name in scope.machines]
    found = [(_order(scope, name), partial(_listed, room, call, scope, name, model)) for scope, name in names]
    return resource_ids.page(call, found)


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show an instance."""
    scopes = _scopes(room, call)
    return ArmResponse(body=_shown(room, call, _machine(scopes, call), render.scale_set(room, scopes)))


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Change an instance: whether it takes part in scale-ins."""
    body = validation.read(_KIND, call)
    async with room.lock(resource_ids.resource_id(call.names["group"], SCALE_SETS, call.names["name"])):
        scopes = _scopes(room, call)
        machine, model = _machine(scopes, call), render.scale_set(room, scopes)
        after = render.overlay(render.instance(room, machine, model), body)
        protected = get_path(after, "properties", "protectionPolicy", "protectFromScaleIn") is True
        key = render.instance_id(room, machine)
        command = Protect(machine=machine.ref, protected=protected, by=call.by)
        kept = render.storable(after, "properties")
        await room.handle(command, lambda changes: {key: kept})
        machine = room.engine.machine(machine.ref)
    settled: Document = {"properties": {"provisioningState": "Succeeded"}}
    return ArmResponse(body=render.overlay(_shown(room, call, machine, model), settled))


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete an instance, with its warning; one that is not there is gone already."""
    async with room.lock(resource_ids.resource_id(call.names["group"], SCALE_SETS, call.names["name"])):
        machine = scalesets.chosen(_scopes(room, call), call.names["instance"])
        if machine is None:
            return ArmResponse(status=204)
        key = render.instance_id(room, machine)
        removes = (key, render.switched_off(machine.ref))
        operation = await actions.announce(
            room, call, "delete", key, (machine.ref,), force=actions.forced(call), removes=removes
        )
    return accepted(room, call, operation)


async def view(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show how an instance is doing."""
    return ArmResponse(body=render.instance_view(room, _machine(_scopes(room, call), call)))


async def act(verb: str, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Do to an instance, or to all of them, what a verb says."""
    scopes = _scopes(room, call)
    everybody = call.names["instance"] == "*"
    resource = resource_ids.set_id(room, scopes[0])
    return await actions.act(room, call, verb, resource, _refs(scopes, call), everybody=everybody)


async def evict(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Evict a Spot instance."""
    return await actions.evict(room, call, _refs(_scopes(room, call), call))


def _scopes(room: ArmContext, call: ArmRequest) -> tuple[Scope, ...]:
    return resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])


def _machine(scopes: tuple[Scope, ...], call: ArmRequest) -> Machine:
    machine = scalesets.chosen(scopes, call.names["instance"])
    if machine is None:
        name = f"{call.names['name']}/{VMS}/{call.names['instance']}"
        raise not_found(f"Microsoft.Compute/{SCALE_SETS}", name, call.names["group"])
    return machine


def _refs(scopes: tuple[Scope, ...], call: ArmRequest) -> tuple[MachineRef, ...]:
    if call.names["instance"] == "*":
        return tuple(ref for scope in scopes for ref in scope.refs())
    return (_machine(scopes, call).ref,)


def _order(scope: Scope, name: VmName) -> str:
    """Return what instances are listed by: their numbers, or their names in a flexible set."""
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return name.lower()
    return f"{instance_of(name):0>10}"


def _listed(room: ArmContext, call: ArmRequest, scope: Scope, name: VmName, model: Document) -> Document:
    return _shown(room, call, scope.machines[name], model)


def _shown(room: ArmContext, call: ArmRequest, machine: Machine, model: Document) -> Document:
    document = validation.hide(VMS, render.instance(room, machine, model), call.version)
    if "instanceview" in call.query.get("$expand", "").lower():
        return render.expanded(document, render.instance_view(room, machine))
    return document


_VERBS = (*actions.SWITCHED, *actions.IDLE, *(v for v in actions.ANNOUNCED if v != "osRollingUpgrade"))
_ALL = f"{GROUPED}/{SCALE_SETS}/{{name}}/{VMS}"
_ONE = f"{_ALL}/{{instance}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, put),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("GET", f"{_ONE}/instanceView", view),
    ArmRoute("POST", f"{_ONE}/simulateEviction", evict),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
