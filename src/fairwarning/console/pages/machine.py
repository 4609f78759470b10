"""The page of a machine: its document, events, history and endpoint fault, and the actions on it."""

import asyncio
import json
from collections.abc import Mapping
from typing import TypeVar

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import machine_path
from fairwarning.console.journal import HistoryFilter
from fairwarning.console.page import CONSOLE, FormResult, Fragment, PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.control.results import Announced
from fairwarning.core.announce import is_deletion_announced
from fairwarning.core.causes import CAUSES
from fairwarning.core.document import snippets
from fairwarning.core.document.endpoint_faults import FAULT_DESCRIPTIONS
from fairwarning.core.errors import InvalidError, UnknownMachineError
from fairwarning.core.fleet import FleetState, machine_state
from fairwarning.core.model import Machine, MachineRef, PowerState
from fairwarning.core.scaleset import latest_model_applied

T = TypeVar("T")

#: How many lines of the machine's history the page shows, and how many lines of its scope it searches.
LINES, REACH = 50, 5000

#: The causes that have a button, and its label; the core decides whether the cause is allowed.
BUTTONS: Mapping[str, str] = {
    "restart": "Restart",
    "redeploy": "Redeploy",
    "freeze": "Freeze",
    "evict": "Evict",
}

_POWER_STATES: Mapping[str, PowerState] = {power.value: power for power in PowerState}


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page of a machine."""
    machine = _machine(context, request)
    version = _version(context, request)
    values = {
        "machine": machine,
        "version": version,
        "versions": list(context.versions),
        "curl": _curl(context, machine.ref, version),
        "buttons": [
            (name, label, CAUSES[name].summary)
            for name, label in BUTTONS.items()
            if machine.spot or not CAUSES[name].spot_only
        ],
        "faults": {name: f"{name}: {meaning}" for name, meaning in FAULT_DESCRIPTIONS.items()},
    }
    history = await _history(context, request, machine.ref)
    fragments = (*_fragments(context, request, machine, version), history)
    return PageView(title=machine.ref.full, template="machine.html", values=values, fragments=fragments)


async def confirm_delete(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page that asks for confirmation before a machine is deleted."""
    machine = _machine(context, request)
    warned = is_deletion_announced(context.engine.scope(machine.scope), [machine], context.engine.policy)
    values = {"machine": machine, "warned": warned}
    return PageView(title=f"Delete {machine.name}", template="delete.html", values=values)


async def cause(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Trigger an event on the machine."""
    label = _chosen(request, "cause", BUTTONS)
    announced = await context.control.cause(CONSOLE, request.form.get("cause"), [request.name])
    return _announced(context, request, label, announced)


async def delete(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Delete the machine, with the notice of its model unless the form skips the notice."""
    force = "force" in request.form
    announced = await context.control.delete_machine(CONSOLE, request.name, force=force)
    return _announced(context, request, "Delete", announced)


async def set_power(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Start or stop the machine."""
    power = _chosen(request, "power", _POWER_STATES)
    machine = await context.control.set_power(CONSOLE, request.name, power)
    return FormResult(machine_path(machine), f"{machine.name} is {power}.")


async def set_fault(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Set a fault of the machine's endpoint, for a while or until it is cleared."""
    form = request.form
    fault, lasts, delay = form.get("fault"), form.get("lasts") or None, form.get("delay") or "2s"
    machine = await context.control.set_fault(CONSOLE, request.name, fault, lasts, delay)
    flash = f"The endpoint of {machine.name} now has the fault {fault}."
    return FormResult(machine_path(machine), flash)


async def clear_fault(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Clear the fault of the machine's endpoint."""
    machine = await context.control.clear_fault(CONSOLE, request.name)
    return FormResult(machine_path(machine), f"The endpoint of {machine.name} works again.")


def _announced(context: ConsoleContext, request: PageRequest, label: str, announced: Announced) -> FormResult:
    warning = "guests have been warned" if announced.warned else "done without a warning"
    try:
        to = machine_path(_machine(context, request))
    except UnknownMachineError:
        to = "/"
    return FormResult(to, announced.hint or f"{label}: {warning}.")


def _chosen(request: PageRequest, field: str, choices: Mapping[str, T]) -> T:
    given = request.form.get(field)
    if given not in choices:
        raise InvalidError(field, f"{given[:40]!r} is not one of {', '.join(choices)}")
    return choices[given]


def _machine(context: ConsoleContext, request: PageRequest) -> Machine:
    return context.engine.machine(context.engine.directory.machine(request.name))


def _fragments(
    context: ConsoleContext, request: PageRequest, machine: Machine, version: str
) -> tuple[Fragment, ...]:
    scope, macros = context.engine.scope(machine.scope), TemplateMacros("_machine.html", request)
    fault = context.engine.faults.kind_of(machine.ref, asyncio.get_running_loop().time())
    body = context.document(machine.ref, context.versions[version])
    events = [event for event in scope.events.values() if machine.name in event.resources]
    faults = (macros.fragment("fault", "machine-fault", machine=machine, fault=fault),)
    return (
        macros.fragment("head", "machine-head", machine=machine, state=machine_state(scope, machine),
                        fault=fault),
        macros.fragment("facts", "machine-facts", machine=machine, scope=scope,
                        polled_at=context.seen_at(scope),
                        newest=latest_model_applied(FleetState({scope.id: scope}), machine)),
        macros.fragment("document", "machine-document", body=body.decode(), indented=_indented(body)),
        macros.fragment("events", "machine-events", events=events),
        macros.fragment("power", "machine-power", machine=machine),
        *(faults if request.emulator else ()),
    )  # fmt: skip


async def _history(context: ConsoleContext, request: PageRequest, ref: MachineRef) -> Fragment:
    criteria = HistoryFilter(scope=ref.scope, machine=ref.name)
    excerpt = await context.journal.excerpt(criteria, most=LINES, reach=REACH)
    macros = TemplateMacros("_machine.html", request)
    return macros.fragment("history", "machine-history", ref=ref, excerpt=excerpt)


def _version(context: ConsoleContext, request: PageRequest) -> str:
    version = request.query.get("version")
    return version if version in context.versions else list(context.versions)[-1]


def _curl(context: ConsoleContext, ref: MachineRef, version: str) -> str:
    url = context.endpoints(ref)
    return "" if url is None else snippets.poll_command(url, version, context.alternatives(ref))


def _indented(body: bytes) -> str:
    return json.dumps(json.loads(body), indent=2)
