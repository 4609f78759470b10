"""The page of one machine: what it sees right now, what happens to it, and what can be done to it."""

import asyncio
import json
from collections.abc import Mapping
from typing import TypeVar

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import machine_path
from fairwarning.console.journal import Wanted
from fairwarning.console.page import CONSOLE, Done, Fragment, PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.announce import events_caused_by, is_deletion_announced, unpolled_hint
from fairwarning.core.causes import CAUSES
from fairwarning.core.commands import Schedule, SetPower
from fairwarning.core.document import snippets
from fairwarning.core.endpoint_faults import FAULT_DESCRIPTIONS
from fairwarning.core.errors import InvalidError
from fairwarning.core.fleet import FleetState, machine_state
from fairwarning.core.model import Machine, MachineRef, PowerState
from fairwarning.core.scaleset import latest_model_applied
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.faults import ActiveFault

T = TypeVar("T")

#: How many lines of its history a machine's page shows, and how many of its scope's it looks through.
LINES, REACH = 50, 5000


#: The causes that have a button, and what it says; the core decides whether they may happen.
BUTTONS: Mapping[str, str] = {
    "restart": "Restart",
    "redeploy": "Redeploy",
    "freeze": "Freeze",
    "evict": "Evict",
}

_POWERS: Mapping[str, PowerState] = {power.value: power for power in PowerState}


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the machine's page."""
    machine = _machine(room, visit)
    ref = machine.ref
    version = _version(room, visit)
    values = {
        "machine": machine,
        "version": version,
        "versions": list(room.versions),
        "curl": _curl(room, ref, version),
        "buttons": [
            (name, label, CAUSES[name].summary)
            for name, label in BUTTONS.items()
            if machine.spot or not CAUSES[name].spot_only
        ],
        "ailments": {name: f"{name}: {meaning}" for name, meaning in FAULT_DESCRIPTIONS.items()},
    }
    parts = (*_parts(room, visit, machine, version), await _history(room, visit, ref))
    return PageView(title=ref.full, template="machine.html", values=values, fragments=parts)


async def confirm(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the page that asks whether a machine is really to be deleted."""
    machine = _machine(room, visit)
    warned = is_deletion_announced(room.engine.scope(machine.scope), [machine], room.engine.policy)
    values = {"machine": machine, "warned": warned}
    return PageView(title=f"Delete {machine.name}", template="delete.html", values=values)


async def cause(room: ConsoleContext, visit: Visit) -> Done:
    """Do something to the machine."""
    label = _chosen(visit, "cause", BUTTONS)
    return await _do(room, visit, visit.form.get("cause"), label)


async def delete(room: ConsoleContext, visit: Visit) -> Done:
    """Delete the machine, with the notice its model calls for unless that is skipped."""
    return await _do(room, visit, "delete", "Delete", force="force" in visit.form)


async def set_power(room: ConsoleContext, visit: Visit) -> Done:
    """Start or stop the machine."""
    machine = _machine(room, visit)
    power = _chosen(visit, "power", _POWERS)
    await room.engine.handle(SetPower(machine=machine.ref, power=power, by=CONSOLE))
    return Done(machine_path(machine), f"{machine.name} is {power}")


async def put_fault(room: ConsoleContext, visit: Visit) -> Done:
    """Let the machine's endpoint misbehave, for a while or until it is healed."""
    machine, form = _machine(room, visit), visit.form
    now = asyncio.get_running_loop().time()
    fault = ActiveFault.parse(form.get("fault"), form.get("lasts") or None, form.get("delay") or "2s", now)
    await room.engine.faults.set(machine.ref, fault, CONSOLE)
    return Done(machine_path(machine), f"the endpoint of {machine.name} now has the fault {fault.kind}")


async def heal(room: ConsoleContext, visit: Visit) -> Done:
    """Let the machine's endpoint work again."""
    machine = _machine(room, visit)
    await room.engine.faults.clear(machine.ref, CONSOLE)
    return Done(machine_path(machine), f"the endpoint of {machine.name} works again")


async def _do(room: ConsoleContext, visit: Visit, cause: str, label: str, *, force: bool = False) -> Done:
    machine = _machine(room, visit)
    command = Schedule(id=new_event_id(), cause=cause, machines=(machine.ref,), force=force, by=CONSOLE)
    events = events_caused_by(command.id, await room.engine.handle(command))
    warned = any(event.seen for event in events)
    said = f"{label}: {'guests have been warned' if warned else 'done without a warning'}"
    scope = room.engine.scopes().get(machine.scope)
    there = scope is not None and machine.name in scope.machines
    return Done(machine_path(machine) if there else "/", unpolled_hint(room.engine.scopes(), events) or said)


def _chosen(visit: Visit, field: str, choices: Mapping[str, T]) -> T:
    asked = visit.form.get(field)
    if asked not in choices:
        raise InvalidError(field, f"{asked[:40]!r} is not one of {', '.join(choices)}")
    return choices[asked]


def _machine(room: ConsoleContext, visit: Visit) -> Machine:
    return room.engine.machine(room.engine.directory.machine(visit.name))


def _parts(room: ConsoleContext, visit: Visit, machine: Machine, version: str) -> tuple[Fragment, ...]:
    scope, sheet = room.engine.scope(machine.scope), TemplateMacros("_machine.html", visit)
    ailment = room.engine.faults.kind_of(machine.ref, asyncio.get_running_loop().time())
    body = room.document(machine.ref, room.versions[version])
    concerning = [event for event in scope.events.values() if machine.name in event.resources]
    return (
        sheet.fragment("head", "machine-head", machine=machine, condition=machine_state(scope, machine),
                       ailment=ailment),
        sheet.fragment("facts", "machine-facts", machine=machine, scope=scope,
                       seen=room.seen_at(scope),
                       newest=latest_model_applied(FleetState({scope.id: scope}), machine)),
        sheet.fragment("document", "machine-document", body=body.decode(), indented=_indented(body)),
        sheet.fragment("events", "machine-events", events=concerning),
        sheet.fragment("power", "machine-power", machine=machine),
        sheet.fragment("fault", "machine-fault", machine=machine, ailment=ailment),
    )  # fmt: skip


async def _history(room: ConsoleContext, visit: Visit, ref: MachineRef) -> Fragment:
    wanted = Wanted(scope=ref.scope, machine=ref.name)
    found = await room.recent.excerpt(wanted, most=LINES, reach=REACH)
    return TemplateMacros("_machine.html", visit).fragment("history", "machine-history", ref=ref, found=found)


def _version(room: ConsoleContext, visit: Visit) -> str:
    asked = visit.query.get("version")
    return asked if asked in room.versions else list(room.versions)[-1]


def _curl(room: ConsoleContext, ref: MachineRef, version: str) -> str:
    base = room.endpoints(ref)
    return "" if base is None else snippets.poll_command(base, version, room.alternatives(ref))


def _indented(body: bytes) -> str:
    return json.dumps(json.loads(body), indent=2)
