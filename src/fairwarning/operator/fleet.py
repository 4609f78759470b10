"""Machines and scopes: listing, creating and changing them."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import msgspec
from msgspec import UNSET

from fairwarning.control.control import Unset
from fairwarning.core.azure.identity import machine_computer_name, stored_documents
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.fleet import FleetState, machine_state
from fairwarning.core.inputs import check_visible, parse_duration
from fairwarning.core.model import OPERATOR, ApprovalSettings, HostId, MachineRef, Scope, ScopeId
from fairwarning.core.scaleset import latest_model_applied
from fairwarning.engine.engine import Engine
from fairwarning.formats import durations
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import BadRequestError
from fairwarning.operator.rollouts import rollout_body


async def machines(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.MachinesBody:
    """Return every machine, by scope."""
    return machines_body(context, list(context.engine.refs()))


async def machine(
    context: OperatorContext, name: str, request: schemas.EmptyRequest
) -> schemas.MachineDetailBody:
    """Return one machine, with its host name."""
    engine = context.engine
    ref = engine.directory.machine(name)
    properties, documents = engine.scope(ref.scope).facts, stored_documents(engine.stored)
    return schemas.MachineDetailBody(
        **msgspec.structs.asdict(machine_body(context, ref)),
        computer_name=machine_computer_name(engine.machine(ref), properties, documents),
    )


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
    return machine_body(context, await context.control.set_power(OPERATOR, name, request.power))


async def move(context: OperatorContext, name: str, request: schemas.MoveRequest) -> schemas.MachineBody:
    """Report that a machine is on another host and return it."""
    check_visible(request.host, "host")
    return machine_body(context, await context.control.move(OPERATOR, name, request.host))


async def set_fault(
    context: OperatorContext, name: str, request: schemas.FaultRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint misbehave, for a while or until the fault is cleared."""
    ref = await context.control.set_fault(OPERATOR, name, request.fault, request.lasts, request.delay)
    return machine_body(context, ref)


async def clear_fault(
    context: OperatorContext, name: str, request: schemas.ActorRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint work again."""
    return machine_body(context, await context.control.clear_fault(OPERATOR, name))


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
    created = await context.control.create_set(OPERATOR, _blueprint(request))
    return _scopes_body(context.engine, created.scopes)


async def change_set(
    context: OperatorContext, name: str, request: schemas.ChangeSetRequest
) -> schemas.ScopesBody:
    """Change the model or the approval settings of a set and return its scopes."""
    text, patch = request.terminate_notice, request.approvals
    ids = await context.control.change_set(
        OPERATOR,
        name,
        terminate_notice=Unset.UNSET if text is UNSET else _terminate_notice(text),
        approvals=None if patch is UNSET else partial(_approvals, patch),
    )
    return _scopes_body(context.engine, ids)


async def add_machines(
    context: OperatorContext, name: str, request: schemas.AddMachinesRequest
) -> schemas.MachinesBody:
    """Add machines to a scope and return them."""
    created = await context.control.add_machines(OPERATOR, name, request.count)
    return machines_body(context, created.machines)


async def upgrade(
    context: OperatorContext, name: str, request: schemas.UpgradeRequest
) -> schemas.MachinesBody:
    """Apply the latest model of a set to its instances and return them."""
    return machines_body(context, await context.control.upgrade(OPERATOR, name, request.machines))


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


def _blueprint(request: schemas.CreateSetRequest) -> Blueprint:
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
        terminate_notice=_terminate_notice(request.terminate_notice),
        approvals=_approvals(request.approvals, ApprovalSettings()),
        host=None if request.host is None else HostId(request.host),
        tags=tuple(request.tags.items()),
    )


def _terminate_notice(text: str | None) -> timedelta | None:
    return None if text is None else parse_duration(text, "terminate_notice")


def _approvals(patch: schemas.ApprovalsPatch, current: ApprovalSettings) -> ApprovalSettings:
    reboot, redeploy, down = patch.user_reboot, patch.user_redeploy, patch.all_instances_down
    return ApprovalSettings(
        user_reboot=current.user_reboot if reboot is UNSET else reboot,
        user_redeploy=current.user_redeploy if redeploy is UNSET else redeploy,
        all_instances_down=current.all_instances_down if down is UNSET else down,
    )
