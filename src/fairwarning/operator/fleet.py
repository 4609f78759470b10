"""Machines and the scopes they share: what there is, and what operators change about it."""

import asyncio
from collections.abc import Iterable

from msgspec import UNSET

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import MachineChanged, ScopeMade
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
from fairwarning.operator.rollouts import walk_shape


async def machines(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.MachinesBody:
    """Return every machine, scope by scope."""
    return machines_shape(desk, list(desk.engine.refs()))


async def machine(desk: OperatorContext, name: str, asked: schemas.Nothing) -> schemas.MachineBody:
    """Return one machine."""
    return machine_shape(desk, desk.engine.directory.machine(name))


async def management(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.ManagementBody:
    """Return where the management face is."""
    face = await desk.management()
    if face is None:
        raise BadRequestError(404, "this server has no management face")
    return schemas.ManagementBody(
        arm=face.url,
        ca=str(face.ca),
        certificate=face.certificate,
        tenant=face.tenant,
        subscription=face.subscription,
    )


async def set_power(desk: OperatorContext, name: str, asked: schemas.PowerWanted) -> schemas.MachineBody:
    """Start or stop a machine and return it."""
    ref = desk.engine.directory.machine(name)
    await desk.engine.handle(SetPower(machine=ref, power=asked.power, by=asked.who))
    return machine_shape(desk, ref)


async def scopes(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.ScopesBody:
    """Return every scope."""
    return schemas.ScopesBody(
        scopes=[scope_shape(desk.engine, scope) for scope in desk.engine.scopes().values()]
    )


async def scope(desk: OperatorContext, name: str, asked: schemas.Nothing) -> schemas.ScopeBody:
    """Return one scope."""
    return scope_shape(desk.engine, desk.engine.scope(ScopeId(name)))


async def make(desk: OperatorContext, _: str, asked: schemas.ScopeWanted) -> schemas.ScopesBody:
    """Bring up a set and return its scopes."""
    command = CreateSet(seed=new_event_id(), blueprint=_blueprint(asked), by=asked.who)
    changes = await desk.engine.handle(command)
    await desk.welcome([c.machine.ref for c in changes if isinstance(c, MachineChanged)])
    made = [change.scope for change in changes if isinstance(change, ScopeMade)]
    return schemas.ScopesBody(
        scopes=[scope_shape(desk.engine, desk.engine.scope(scope_id)) for scope_id in made]
    )


async def change(desk: OperatorContext, name: str, asked: schemas.ScopeChange) -> schemas.ScopesBody:
    """Change what a set wants of its instances, or what it approves by itself, and return its scopes."""
    engine = desk.engine
    ids = scopes_called(engine, name)
    if asked.terminate_notice is not UNSET:
        notice = asked.terminate_notice
        wanted = None if notice is None else parse_duration(notice, "terminate_notice")
        await engine.handle(ChangeModel(scopes=ids, terminate_notice=wanted, by=asked.who))
    if asked.approvals is not UNSET:
        for scope_id in ids:
            approvals = _approvals(asked.approvals, engine.scope(scope_id).facts.approvals)
            await engine.handle(SetApprovals(scope=scope_id, approvals=approvals, by=asked.who))
    return schemas.ScopesBody(scopes=[scope_shape(engine, engine.scope(scope_id)) for scope_id in ids])


async def grow(desk: OperatorContext, name: str, asked: schemas.Growth) -> schemas.MachinesBody:
    """Add machines to a scope and return them."""
    command = AddMachines(seed=new_event_id(), scope=ScopeId(name), count=asked.count, by=asked.who)
    changes = await desk.engine.handle(command)
    new = [c.machine.ref for c in changes if isinstance(c, MachineChanged)]
    await desk.welcome(new)
    return machines_shape(desk, new)


async def upgrade(desk: OperatorContext, name: str, asked: schemas.UpgradeWanted) -> schemas.MachinesBody:
    """Bring instances of a set to its latest model and return them."""
    engine = desk.engine
    ids = scopes_called(engine, name)
    if asked.machines is None:
        refs = [ref for scope_id in ids for ref in engine.scope(scope_id).refs()]
    else:
        refs = _members(engine, ids, asked.machines)
    await engine.handle(Upgrade(machines=tuple(refs), by=asked.who))
    return machines_shape(desk, refs)


def scopes_called(engine: Engine, name: str) -> tuple[ScopeId, ...]:
    """Return the scopes of the set called ``name``, or the one scope that has this id."""
    found = engine.directory.scopes_of_set(name)
    if not found and ScopeId(name) not in engine.scopes():
        raise UnknownScopeError(name)
    return found or (ScopeId(name),)


def machines_shape(desk: OperatorContext, refs: Iterable[MachineRef]) -> schemas.MachinesBody:
    """Return the machines that are still there, as the operator sees them."""
    known = desk.engine.scopes()
    there = (ref for ref in refs if ref.scope in known and ref.name in known[ref.scope].machines)
    return schemas.MachinesBody(machines=[machine_shape(desk, ref) for ref in there])


def machine_shape(desk: OperatorContext, ref: MachineRef) -> schemas.MachineBody:
    """Return a machine as the operator sees it."""
    one = desk.engine.machine(ref)
    its = desk.engine.scope(ref.scope)
    return schemas.MachineBody(
        name=one.name,
        scope=one.scope,
        set=its.facts.set_name,
        instance=one.instance,
        power=one.power,
        state=machine_state(its, one),
        update_domain=one.update_domain,
        fault_domain=one.fault_domain,
        host=one.host,
        spot=one.spot,
        enabled=its.enabled,
        polled_at=desk.engine.polled_at(its.id),
        latest_model_applied=latest_model_applied(FleetState({its.id: its}), one),
        fault=desk.engine.faults.kind_of(ref, asyncio.get_running_loop().time()),
        metadata=desk.endpoints(ref),
        alternatives=list(desk.alternatives(ref)),
    )


def scope_shape(engine: Engine, its: Scope) -> schemas.ScopeBody:
    """Return a scope as the operator sees it."""
    facts = its.facts
    notice, approvals = facts.model.terminate_notice, facts.approvals
    return schemas.ScopeBody(
        id=its.id,
        set=facts.set_name,
        kind=facts.kind,
        zone=facts.zone,
        incarnation=its.incarnation,
        version=its.version,
        enabled=its.enabled,
        enabled_at=facts.enabled_at,
        polled_at=engine.polled_at(its.id),
        machines=list(its.machines),
        events=list(its.events),
        update_domains=facts.update_domains,
        fault_domains=facts.fault_domains,
        terminate_notice=None if notice is None else durations.for_people(notice),
        approvals=schemas.ApprovalsBody(
            user_reboot=approvals.user_reboot,
            user_redeploy=approvals.user_redeploy,
            all_instances_down=approvals.all_instances_down,
        ),
        walk=None if facts.walk is None else walk_shape(its, facts.walk),
    )


def _members(engine: Engine, ids: tuple[ScopeId, ...], names: list[str]) -> list[MachineRef]:
    refs = []
    for number, name in enumerate(names):
        with field_context(f"machines[{number}]"):
            plain = VmName(name)
            own = [MachineRef(one, plain) for one in ids if plain in engine.scope(one).machines]
            ref = own[0] if own else engine.directory.machine(name)
            if ref.scope not in ids:
                raise UnknownMachineError(name)
            refs.append(ref)
    return refs


def _blueprint(asked: schemas.ScopeWanted) -> Blueprint:
    notice = asked.terminate_notice
    return Blueprint(
        name=asked.name,
        kind=asked.kind,
        count=asked.count,
        zones=tuple(asked.zones),
        roles=tuple(asked.roles.items()),
        names=tuple(asked.names),
        update_domains=asked.update_domains,
        fault_domains=asked.fault_domains,
        broadcast=asked.broadcast,
        spot=asked.spot,
        eviction=asked.eviction,
        terminate_notice=None if notice is None else parse_duration(notice, "terminate_notice"),
        approvals=_approvals(asked.approvals, ApprovalSettings()),
        host=None if asked.host is None else HostId(asked.host),
        tags=tuple(asked.tags.items()),
    )


def _approvals(asked: schemas.ApprovalsWanted, now: ApprovalSettings) -> ApprovalSettings:
    reboot, redeploy, down = asked.user_reboot, asked.user_redeploy, asked.all_instances_down
    return ApprovalSettings(
        user_reboot=now.user_reboot if reboot is UNSET else reboot,
        user_redeploy=now.user_redeploy if redeploy is UNSET else redeploy,
        all_instances_down=now.all_instances_down if down is UNSET else down,
    )
