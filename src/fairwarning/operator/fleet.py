"""Machines and scopes: listing, creating and changing them."""

import asyncio
from collections.abc import Iterable

from msgspec import UNSET

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, MachineChanged, ScopeMade
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, SetApprovals, SetPower, Upgrade
from fairwarning.core.errors import UnknownMachineError, UnknownScopeError
from fairwarning.core.fleet import FleetState, machine_state
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import ApprovalSettings, HostId, MachineRef, Scope, ScopeId, VmName
from fairwarning.core.scaleset import latest_model_applied
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.formats import durations
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import BadRequestError, field_context
from fairwarning.operator.rollouts import rollout_body


async def machines(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.MachinesBody:
    """Return every machine, by scope."""
    return machines_body(context, list(context.engine.refs()))


async def machine(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.MachineBody:
    """Return one machine."""
    return machine_body(context, context.engine.directory.machine(name))


async def management(
    context: OperatorContext, _: str, request: schemas.EmptyRequest
) -> schemas.ManagementBody:
    """Return the address of the management API."""
    endpoint = await context.management()
    if endpoint is None:
        raise BadRequestError(404, "this server has no management API")
    return schemas.ManagementBody(
        arm=endpoint.url,
        ca=str(endpoint.ca),
        certificate=endpoint.certificate,
        tenant=endpoint.tenant,
        subscription=endpoint.subscription,
    )


async def set_power(
    context: OperatorContext, name: str, request: schemas.PowerRequest
) -> schemas.MachineBody:
    """Start or stop a machine and return it."""
    ref = context.engine.directory.machine(name)
    await context.engine.handle(SetPower(machine=ref, power=request.power, by=request.actor))
    return machine_body(context, ref)


async def scopes(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.ScopesBody:
    """Return every scope."""
    return _scopes_body(context.engine, list(context.engine.scopes()))


async def scope(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.ScopeBody:
    """Return one scope."""
    return scope_body(context.engine, context.engine.scope(ScopeId(name)))


async def create_set(
    context: OperatorContext, _: str, request: schemas.CreateSetRequest
) -> schemas.ScopesBody:
    """Create a set and return its scopes."""
    command = CreateSet(seed=new_event_id(), blueprint=_blueprint(request), by=request.actor)
    changes = await context.engine.handle(command)
    await context.open_endpoints(_changed_machines(changes))
    created = [change.scope for change in changes if isinstance(change, ScopeMade)]
    return _scopes_body(context.engine, created)


async def change_set(
    context: OperatorContext, name: str, request: schemas.ChangeSetRequest
) -> schemas.ScopesBody:
    """Change the model or the approval settings of a set and return its scopes."""
    engine = context.engine
    ids = scopes_of(engine, name)
    if request.terminate_notice is not UNSET:
        text = request.terminate_notice
        notice = None if text is None else parse_duration(text, "terminate_notice")
        await engine.handle(ChangeModel(scopes=ids, terminate_notice=notice, by=request.actor))
    if request.approvals is not UNSET:
        for scope_id in ids:
            approvals = _approvals(request.approvals, engine.scope(scope_id).facts.approvals)
            await engine.handle(SetApprovals(scope=scope_id, approvals=approvals, by=request.actor))
    return _scopes_body(engine, ids)


async def add_machines(
    context: OperatorContext, name: str, request: schemas.AddMachinesRequest
) -> schemas.MachinesBody:
    """Add machines to a scope and return them."""
    command = AddMachines(seed=new_event_id(), scope=ScopeId(name), count=request.count, by=request.actor)
    added = _changed_machines(await context.engine.handle(command))
    await context.open_endpoints(added)
    return machines_body(context, added)


async def upgrade(
    context: OperatorContext, name: str, request: schemas.UpgradeRequest
) -> schemas.MachinesBody:
    """Apply the latest model of a set to its instances and return them."""
    engine = context.engine
    ids = scopes_of(engine, name)
    if request.machines is None:
        refs = [ref for scope_id in ids for ref in engine.scope(scope_id).refs()]
    else:
        refs = _members(engine, ids, request.machines)
    await engine.handle(Upgrade(machines=tuple(refs), by=request.actor))
    return machines_body(context, refs)


def scopes_of(engine: Engine, name: str) -> tuple[ScopeId, ...]:
    """Return the scopes of the set called ``name``, or the one scope with this id."""
    ids = engine.directory.scopes_of_set(name)
    if not ids and ScopeId(name) not in engine.scopes():
        raise UnknownScopeError(name)
    return ids or (ScopeId(name),)


def machines_body(context: OperatorContext, refs: Iterable[MachineRef]) -> schemas.MachinesBody:
    """Return the bodies of those machines that still exist."""
    scopes = context.engine.scopes()
    existing = (ref for ref in refs if ref.scope in scopes and ref.name in scopes[ref.scope].machines)
    return schemas.MachinesBody(machines=[machine_body(context, ref) for ref in existing])


def machine_body(context: OperatorContext, ref: MachineRef) -> schemas.MachineBody:
    """Return the body of a machine."""
    engine = context.engine
    machine, scope = engine.machine(ref), engine.scope(ref.scope)
    return schemas.MachineBody(
        name=machine.name,
        scope=machine.scope,
        set=scope.facts.set_name,
        instance=machine.instance,
        power=machine.power,
        state=machine_state(scope, machine),
        update_domain=machine.update_domain,
        fault_domain=machine.fault_domain,
        host=machine.host,
        spot=machine.spot,
        enabled=scope.enabled,
        polled_at=engine.polled_at(scope.id),
        latest_model_applied=latest_model_applied(FleetState({scope.id: scope}), machine),
        fault=engine.faults.kind_of(ref, asyncio.get_running_loop().time()),
        metadata=context.endpoints(ref),
        alternatives=list(context.alternatives(ref)),
    )


def scope_body(engine: Engine, scope: Scope) -> schemas.ScopeBody:
    """Return the body of a scope."""
    properties = scope.facts
    notice, approvals = properties.model.terminate_notice, properties.approvals
    return schemas.ScopeBody(
        id=scope.id,
        set=properties.set_name,
        kind=properties.kind,
        zone=properties.zone,
        incarnation=scope.incarnation,
        version=scope.version,
        enabled=scope.enabled,
        enabled_at=properties.enabled_at,
        polled_at=engine.polled_at(scope.id),
        machines=list(scope.machines),
        events=list(scope.events),
        update_domains=properties.update_domains,
        fault_domains=properties.fault_domains,
        terminate_notice=None if notice is None else durations.for_people(notice),
        approvals=schemas.ApprovalsBody(
            user_reboot=approvals.user_reboot,
            user_redeploy=approvals.user_redeploy,
            all_instances_down=approvals.all_instances_down,
        ),
        walk=None if properties.walk is None else rollout_body(scope, properties.walk),
    )


def _scopes_body(engine: Engine, ids: Iterable[ScopeId]) -> schemas.ScopesBody:
    return schemas.ScopesBody(scopes=[scope_body(engine, engine.scope(scope_id)) for scope_id in ids])


def _changed_machines(changes: Iterable[Change]) -> list[MachineRef]:
    return [change.machine.ref for change in changes if isinstance(change, MachineChanged)]


def _members(engine: Engine, ids: tuple[ScopeId, ...], names: list[str]) -> list[MachineRef]:
    refs = []
    for number, name in enumerate(names):
        with field_context(f"machines[{number}]"):
            own = [
                MachineRef(scope_id, VmName(name))
                for scope_id in ids
                if VmName(name) in engine.scope(scope_id).machines
            ]
            ref = own[0] if own else engine.directory.machine(name)
            if ref.scope not in ids:
                raise UnknownMachineError(name)
            refs.append(ref)
    return refs


def _blueprint(request: schemas.CreateSetRequest) -> Blueprint:
    notice = request.terminate_notice
    return Blueprint(
        name=request.name,
        kind=request.kind,
        count=request.count,
        zones=tuple(request.zones),
        roles=tuple(request.roles.items()),
        names=tuple(request.names),
        update_domains=request.update_domains,
        fault_domains=request.fault_domains,
        broadcast=request.broadcast,
        spot=request.spot,
        eviction=request.eviction,
        terminate_notice=None if notice is None else parse_duration(notice, "terminate_notice"),
        approvals=_approvals(request.approvals, ApprovalSettings()),
        host=None if request.host is None else HostId(request.host),
        tags=tuple(request.tags.items()),
    )


def _approvals(patch: schemas.ApprovalsPatch, current: ApprovalSettings) -> ApprovalSettings:
    reboot, redeploy, down = patch.user_reboot, patch.user_redeploy, patch.all_instances_down
    return ApprovalSettings(
        user_reboot=current.user_reboot if reboot is UNSET else reboot,
        user_redeploy=current.user_redeploy if redeploy is UNSET else redeploy,
        all_instances_down=current.all_instances_down if down is UNSET else down,
    )
