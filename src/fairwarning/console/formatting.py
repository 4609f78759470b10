"""How values read on a page."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from markupsafe import Markup, escape

from fairwarning.core.fleet import MachineState
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeId, ScopeKind, VmName
from fairwarning.formats import durations
from fairwarning.formats.timestamps import for_people, iso_milliseconds

#: A sign for every condition, so that nobody depends on its colour; all of them are in the oldest fonts.
ICONS: Mapping[MachineState, str] = {
    MachineState.RUNNING: "●",
    MachineState.WARNED: "▲",
    MachineState.FROZEN: "‖",
    MachineState.REBOOTING: "↻",
    MachineState.MOVING: "→",
    MachineState.EVICTING: "◇",
    MachineState.TERMINATING: "✕",
    MachineState.STOPPED: "○",
}

KINDS: Mapping[ScopeKind, str] = {
    ScopeKind.STANDALONE: "VM",
    ScopeKind.AVAILABILITY_SET: "availability set",
    ScopeKind.SCALE_SET: "scale set",
    ScopeKind.FLEXIBLE_SET: "flexible scale set",
    ScopeKind.CLOUD_SERVICE: "cloud service",
}


def instant(when: datetime | None, otherwise: str = "never") -> Markup:
    """Return an instant in UTC; a script adds what that is in local time."""
    return escape(otherwise) if when is None else _time(when)


def ago(when: datetime | None, otherwise: str = "never") -> Markup:
    """Return an instant gone by; a script says how long ago that is, by the server's clock."""
    return escape(otherwise) if when is None else _time(when, "ago")


def countdown(until: datetime) -> Markup:
    """Return an instant to come; a script adds how long that is from now, by the server's clock."""
    return _time(until, "countdown")


def count(number: int, noun: str, many: str = "") -> str:
    """Return how many there are of something."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def span(duration: timedelta | None, otherwise: str = "off") -> str:
    """Return a duration as people write it."""
    return otherwise if duration is None else durations.for_people(duration)


def called(scope: Scope) -> str:
    """Return what sort of scope it is."""
    spot = "Spot " if all_spot(scope) else ""
    zone = f", zone {scope.facts.zone}" if scope.facts.zone else ""
    return f"{spot}{KINDS[scope.facts.kind]}{zone}"


def all_spot(scope: Scope) -> bool:
    """Whether a scope has machines and all of them are Spot machines; a flexible set may mix (T-05)."""
    return bool(scope.machines) and all(machine.spot for machine in scope.machines.values())


def machine_path(machine: Machine) -> str:
    """Return the address of a machine's page."""
    return path_to(machine.scope, machine.name)


def path_to(scope: ScopeId, name: VmName) -> str:
    """Return the address of the page of a scope's machine."""
    return f"/machines/{quote(MachineRef(scope, name).full)}"


def scope_path(scope: str) -> str:
    """Return the address of a scope's page."""
    return f"/scopes/{quote(scope)}"


def time_of_day(when: datetime) -> str:
    """Return the time of an instant, in UTC."""
    return f"{when.astimezone(UTC):%H:%M:%S}"


def _time(when: datetime, sort: str = "") -> Markup:
    """Return an instant as scripts find it and people without scripts read it."""
    name = Markup(' class="{}"').format(sort) if sort else ""
    return Markup('<time{} datetime="{}">{}</time>').format(name, iso_milliseconds(when), for_people(when))
