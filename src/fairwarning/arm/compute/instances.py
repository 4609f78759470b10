"""Instances of scale sets, by number; instances of a flexible set by the name of the machine."""

import asyncio
from functools import partial

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import actions, render, scalesets, validation
from fairwarning.arm.context import ArmContext
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import not_found
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import accepted_response
from fairwarning.arm.resource_ids import GROUP_PATH, SCALE_SETS, VMS
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import instance_of
from fairwarning.core.commands import Protect
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeKind, VmName

#: No version gates exist for this kind: instances have none of their own.
_KIND = f"{SCALE_SETS}/{VMS}"


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of a set's instances."""
    scopes = _scopes(context, request)
    model = render.scale_set(context, scopes)
    names = [(scope, name) for scope in scopes for name in scope.machines]
    instances = [
        (_sort_key(scope, name), partial(_render_named, context, request, scope, name, model))
        for scope, name in names
    ]
    return resource_ids.paginate(request, instances)


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return an instance."""
    scopes = _scopes(context, request)
    return ArmResponse(
        body=_render(context, request, _machine(scopes, request), render.scale_set(context, scopes))
    )


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Change an instance: its document, and whether scale-in may delete it."""
    body = validation.read_body(_KIND, request)
    async with _lock(context, request):
        scopes = _scopes(context, request)
        machine, model = _machine(scopes, request), render.scale_set(context, scopes)
        after = overlay(render.instance(context, machine, model), body)
        is_protected = get_path(after, "properties", "protectionPolicy", "protectFromScaleIn") is True
        key = render.instance_id(context, machine)
        command = Protect(machine=machine.ref, protected=is_protected, by=request.by)
        document = render.storable(after, "properties")
        await context.handle(command, lambda changes: {key: document})
        machine = context.engine.machine(machine.ref)
    succeeded: Document = {"properties": {"provisioningState": "Succeeded"}}
    return ArmResponse(body=overlay(_render(context, request, machine, model), succeeded))


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete an instance, with a warning; 204 if there is none."""
    async with _lock(context, request):
        machine = scalesets.find_instance(_scopes(context, request), request.names["instance"])
        if machine is None:
            return ArmResponse(status=204)
        key = render.instance_id(context, machine)
        removes = (key, render.power_off_key(machine.ref))
        operation = await actions.announce(
            context, request, "delete", key, (machine.ref,), force=actions.is_forced(request), removes=removes
        )
    return accepted_response(context, request, operation)


async def view(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the instance view of an instance."""
    return ArmResponse(body=render.instance_view(context, _machine(_scopes(context, request), request)))


async def act(verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Carry out a verb on an instance, or on all of them."""
    scopes = _scopes(context, request)
    all_machines = request.names["instance"] == "*"
    resource = resource_ids.set_id(context, scopes[0])
    return await actions.act(
        context, request, verb, resource, _refs(scopes, request), all_machines=all_machines
    )


async def evict(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Evict a Spot instance."""
    return await actions.evict(context, request, _refs(_scopes(context, request), request))


def _lock(context: ArmContext, request: ArmRequest) -> asyncio.Lock:
    return context.lock(resource_ids.resource_id(request.names["group"], SCALE_SETS, request.names["name"]))


def _scopes(context: ArmContext, request: ArmRequest) -> tuple[Scope, ...]:
    return resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"])


def _machine(scopes: tuple[Scope, ...], request: ArmRequest) -> Machine:
    machine = scalesets.find_instance(scopes, request.names["instance"])
    if machine is None:
        name = f"{request.names['name']}/{VMS}/{request.names['instance']}"
        raise not_found(f"Microsoft.Compute/{SCALE_SETS}", name, request.names["group"])
    return machine


def _refs(scopes: tuple[Scope, ...], request: ArmRequest) -> tuple[MachineRef, ...]:
    if request.names["instance"] == "*":
        return tuple(ref for scope in scopes for ref in scope.refs())
    return (_machine(scopes, request).ref,)


def _sort_key(scope: Scope, name: VmName) -> str:
    """Return the sort key of an instance: its number, or its name in a flexible set."""
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return name.lower()
    return f"{instance_of(name):0>10}"


def _render_named(
    context: ArmContext, request: ArmRequest, scope: Scope, name: VmName, model: Document
) -> Document:
    return _render(context, request, scope.machines[name], model)


def _render(context: ArmContext, request: ArmRequest, machine: Machine, model: Document) -> Document:
    document = validation.hide_newer_properties(
        VMS, render.instance(context, machine, model), request.version
    )
    if "instanceview" in request.query.get("$expand", "").lower():
        return render.with_instance_view(document, render.instance_view(context, machine))
    return document


_VERBS = (
    *actions.POWER_VERBS,
    *actions.NO_OP_VERBS,
    *(verb for verb in actions.ANNOUNCED_VERBS if verb != "osRollingUpgrade"),
)
_ALL = f"{GROUP_PATH}/{SCALE_SETS}/{{name}}/{VMS}"
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
