"""Texts and addresses that pages show: times, counts, kinds of scopes, links, az commands."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from urllib.parse import quote

from markupsafe import Markup, escape

from fairwarning.control.hosts import HostState
from fairwarning.core.fleet import MachineState
from fairwarning.core.model import HOME_GROUP, Machine, MachineRef, Scope, ScopeId, ScopeKind, VmName
from fairwarning.formats import durations, instants
from fairwarning.formats.timestamps import for_people, iso_milliseconds

#: A symbol for every state, so that a state is never shown by colour alone; even old fonts have them all.
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

#: A symbol and the words for every state of a host.
HOST_STATES: Mapping[HostState, tuple[str, str]] = {
    HostState.IN_SERVICE: ("●", "in service"),
    HostState.ANNOUNCED: ("▲", "to be maintained"),
    HostState.IN_MAINTENANCE: ("▶", "in maintenance"),
}

KINDS: Mapping[ScopeKind, str] = {
    ScopeKind.STANDALONE: "VM",
    ScopeKind.AVAILABILITY_SET: "availability set",
    ScopeKind.SCALE_SET: "scale set",
    ScopeKind.FLEXIBLE_SET: "flexible scale set",
    ScopeKind.CLOUD_SERVICE: "cloud service",
}


def instant(when: datetime | None, otherwise: str = "never") -> Markup:
    """Return an instant in UTC; a script adds the local time."""
    return escape(otherwise) if when is None else _time(when)


def in_zone(when: datetime, zone: tzinfo) -> Markup:
    """Return an instant in a time zone, with weekday and offset; a script adds the local time."""
    return _time(when, "zoned", instants.for_people(when, zone))


def window(opens: datetime | None, closes: datetime | None, zone: tzinfo) -> Markup:
    """Return when a window opens and closes, in a time zone; what both instants share is there once."""
    if opens is None or closes is None:
        begin = Markup("") if opens is None else Markup("opens {}").format(in_zone(opens, zone))
        return begin if closes is None else Markup("closes {}").format(in_zone(closes, zone))
    first, last = instants.for_people(opens, zone), instants.for_people(closes, zone)
    day, offset = first.rpartition(" ")[0][: len("Thu 2026-11-19 ")], first[-len(" +01:00") :]
    if last.startswith(day) and last.endswith(offset):
        first, last = first.removesuffix(offset), last.removeprefix(day)
    return Markup("{} – {}").format(_time(opens, "zoned", first), _time(closes, "zoned", last))


def ago(when: datetime | None, otherwise: str = "never") -> Markup:
    """Return a past instant; a script replaces it with its age by the server's clock."""
    return escape(otherwise) if when is None else _time(when, "ago")


def countdown(until: datetime) -> Markup:
    """Return a future instant; a script replaces it with a countdown by the server's clock."""
    return _time(until, "countdown")


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun in the singular or plural: ``1 machine``, ``2 machines``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def span(duration: timedelta | None, otherwise: str = "off") -> str:
    """Return a duration as ``1h30m``."""
    return otherwise if duration is None else durations.for_people(duration)


def scope_kind(scope: Scope) -> str:
    """Return the kind of a scope, as ``Spot scale set, zone 1``."""
    spot = "Spot " if all_spot(scope) else ""
    zone = f", zone {scope.facts.zone}" if scope.facts.zone else ""
    return f"{spot}{KINDS[scope.facts.kind]}{zone}"


def all_spot(scope: Scope) -> bool:
    """Whether a scope has machines and all of them are Spot machines; a flexible set may mix (T-05)."""
    return bool(scope.machines) and all(machine.spot for machine in scope.machines.values())


def machine_path(machine: Machine | MachineRef) -> str:
    """Return the path of a machine's page."""
    return path_to(machine.scope, machine.name)


def path_to(scope: ScopeId, name: VmName) -> str:
    """Return the path of the page of the machine ``name`` in a scope."""
    return f"/machines/{quote(MachineRef(scope, name).full)}"


def scope_path(scope: str) -> str:
    """Return the path of a scope's page."""
    return f"/scopes/{quote(scope)}"


def host_path(host: str) -> str:
    """Return the path of a host's page."""
    return f"/hosts/{quote(host)}"


def time_of_day(when: datetime) -> str:
    """Return the time of an instant, in UTC."""
    return f"{when.astimezone(UTC):%H:%M:%S}"


def _time(when: datetime, css_class: str = "", text: str = "") -> Markup:
    """Return an instant as a ``time`` element: readable text, and a value for scripts."""
    attribute = Markup(' class="{}"').format(css_class) if css_class else ""
    return Markup('<time{} datetime="{}">{}</time>').format(
        attribute, iso_milliseconds(when), text or for_people(when)
    )


# -- termination notification: the console cannot turn it on for a set that exists, az can


def lacks_notification(scope: Scope) -> bool:
    """Whether a scope belongs to a set that could have the termination notification and does not."""
    # T-05: Spot instances never get a notice of their deletion.
    return scope.facts.kind.scales and scope.facts.model.terminate_notice is None and not all_spot(scope)


def enable_notification_command(set_name: str, group: str = "") -> str:
    """Return the az command that turns on the termination notification of a set."""
    return (
        f"az vmss update --resource-group {shlex.quote(group or HOME_GROUP)} --name {set_name}"
        " --enable-terminate-notification true --terminate-notification-time 10"
    )
