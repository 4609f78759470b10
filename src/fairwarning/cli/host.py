"""The commands about hosts and their maintenance."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import click

from fairwarning.cli import watch
from fairwarning.cli.client import EventInfo, EventList, OperatorClient, OperatorRefusalError, connect, decode
from fairwarning.cli.completion import complete_hosts
from fairwarning.cli.lookup import pending_events
from fairwarning.cli.options import EVENT, MOVED, json_option
from fairwarning.cli.output import join_names, json_member, print_json, print_note, print_table
from fairwarning.core.document.render import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceInfo:
    """A maintenance of a host or of machines."""

    id: str
    host: str | None
    cause: str
    phase: str
    reason: str
    when: str
    machines: tuple[str, ...]
    events: tuple[EventInfo, ...]
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantInfo:
    """A scope with machines on a host."""

    scope: str
    machines: tuple[str, ...]
    polls: bool
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldInfo:
    """Whether nothing of the platform may start."""

    held: bool
    reason: str = ""
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """A host, as its machines report it."""

    name: str
    labels: Mapping[str, str]
    state: str
    machines: int
    tenants: tuple[TenantInfo, ...]
    hold: HoldInfo
    maintenances: tuple[MaintenanceInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostList:
    """All hosts."""

    hosts: tuple[HostInfo, ...]


_HOST = click.argument("name", metavar="HOST", shell_complete=complete_hosts)


@click.group()
def host() -> None:
    """Show hosts, and report on their maintenance.

    \b
    Example:
      fairwarning host list
      fairwarning host show kvm-17
    """


@host.command("list")
@click.option("--label", metavar="NAME=VALUE", help="Only hosts with this label in the inventory.")
@json_option
def host_list(label: str | None, json_: bool) -> None:
    """List the hosts, as their machines report them.

    \b
    Example:
      fairwarning host list
      fairwarning host list --label rack=B
    """
    body = connect().get("/hosts", **({} if label is None else {"label": label}))
    if json_:
        print_json(json_member(body, "hosts"))
        return
    headings = ("HOST", "STATE", "MACHINES", "SCOPES", "SILENT", "LABELS", "MAINTENANCE")
    print_table(headings, map(_host_row, decode(body, HostList).hosts))


def _host_row(host: HostInfo) -> tuple[str, ...]:
    silent = [tenant.scope for tenant in host.tenants if not tenant.polls]
    maintenances = [f"{maintenance.cause}, {maintenance.when}" for maintenance in host.maintenances]
    return (
        host.name,
        f"{host.state}, on hold" if host.hold.held else host.state,
        str(host.machines),
        str(len(host.tenants)),
        join_names(silent) if silent else "-",
        join_names([f"{name}={value}" for name, value in host.labels.items()]),
        "; ".join(maintenances) or "-",
    )


@host.command("show")
@_HOST
@json_option
def host_show(name: str, json_: bool) -> None:
    """Show a host, its maintenance and what is in the way.

    \b
    Example:
      fairwarning host show kvm-17
    """
    body = connect().get(_path(name))
    if json_:
        print_json(json.loads(body))
        return
    shown = decode(body, HostInfo)
    click.echo(f"{shown.name} is {shown.state} (as its machines report)")
    if shown.hold.held:
        click.echo(f"on hold by {shown.hold.by}: {shown.hold.reason or 'no reason given'}")
    for maintenance in shown.maintenances:
        click.echo(f"{maintenance.cause} is {maintenance.phase}, {maintenance.when}: {maintenance.id}")
        waits = dict.fromkeys(event.waits_for for event in maintenance.events if event.waits_for)
        for reason in waits:
            click.echo(f"  waits for {reason}")
    rows = ((tenant.scope, join_names(tenant.machines), tenant.answer) for tenant in shown.tenants)
    print_table(("SCOPE", "MACHINES", "ANSWER"), rows)


@host.command("complete")
@_HOST
@click.option(
    "--moved", type=MOVED, multiple=True, metavar="VM=HOST", help="A machine that is on another host now."
)
@json_option
def host_complete(name: str, moved: tuple[tuple[str, str], ...], json_: bool) -> None:
    """Report that all that has started on a host is done.

    Needs a server whose machines you act on yourself: fairwarning serve, or up --driver external.

    \b
    Example:
      fairwarning host complete kvm-17
      fairwarning host complete kvm-17 --moved web_0=kvm-20
    """
    _act(f"{_path(name)}/complete", {"moved": dict(moved)}, json_)


@host.command("cancel")
@_HOST
@json_option
def host_cancel(name: str, json_: bool) -> None:
    """Cancel what is scheduled for a host.

    What has started goes on.

    \b
    Example:
      fairwarning host cancel kvm-17
    """
    _act(f"{_path(name)}/cancel", {}, json_)


@click.command()
@click.argument("name", metavar="HOST|EVENT", shell_complete=complete_hosts)
@click.option("--until", required=True, help="The later instant, such as 'Thu 02:00' or +5h.")
@json_option
def postpone(name: str, until: str, json_: bool) -> None:
    """Give what is scheduled for a host a later NotBefore.

    Approvals stay, and guests see the new NotBefore. Instead of HOST, an event can be named by its id or the
    beginning of its id; the events that start with this event are postponed, too.

    \b
    Example:
      fairwarning postpone kvm-17 --until 'Thu 04:00'
      fairwarning postpone c7061 --until +2h
    """
    client = connect()
    try:
        body = client.call("POST", f"{_path(name)}/postpone", {"until": until})
    except OperatorRefusalError as refusal:
        if refusal.status != 404 or not _is_event(name):
            raise
        (event_id,) = pending_events(client, (name,))
        body = client.call("POST", f"/events/{quote(event_id, safe='')}/postpone", {"until": until})
    _print_events(body, json_)


@click.command()
@click.option("--host", shell_complete=complete_hosts, help="Hold this host alone.")
@click.option("--reason", default="", help="Why; events that wait say it.")
@json_option
def hold(host: str | None, reason: str, json_: bool) -> None:
    """Let no scheduled event of the platform start, until unhold.

    Announcing, approving, cancelling and what users ask for go on, and what has started goes on.

    \b
    Example:
      fairwarning hold --reason "storage is rebuilding"
      fairwarning hold --host kvm-17
    """
    body = connect().call("PUT", _hold_path(host), {"reason": reason})
    if json_:
        print_json(json.loads(body))
    else:
        print_note(f"{host or 'the fleet'} is on hold; fairwarning unhold ends it")


@click.command()
@click.option("--host", shell_complete=complete_hosts, help="End the hold of this host.")
@json_option
def unhold(host: str | None, json_: bool) -> None:
    """End a hold; what is ready starts.

    \b
    Example:
      fairwarning unhold
      fairwarning unhold --host kvm-17
    """
    connect().call("DELETE", _hold_path(host))
    if json_:
        print_json({"held": False})
    else:
        print_note(f"{host or 'the fleet'} is no longer on hold")


def announce_maintenances(
    client: OperatorClient, request: Mapping[str, Json], hosts: Sequence[str], json_: bool
) -> None:
    """Announce a maintenance of each host, or of the machines in the request; a refusal undoes no other."""
    bodies: list[bytes] = []
    refused = False
    try:
        for name in hosts or ("",):
            own = {**request, "host": name} if name else request
            try:
                bodies.append(client.call("POST", "/maintenances", own))
            except OperatorRefusalError as refusal:
                if len(hosts) < 2:
                    raise
                refused = True
                message = f"{name}: {refusal.message}"
                OperatorRefusalError(message, *refusal.hints, status=refusal.status, kind=refusal.kind).show()
    finally:
        if bodies:
            _print_maintenances(bodies, json_, dry_run=bool(request.get("dry_run")))
    if refused:
        click.get_current_context().exit(1)


def _print_maintenances(bodies: Sequence[bytes], json_: bool, *, dry_run: bool) -> None:
    if json_:
        print_json([json.loads(body) for body in bodies])
        return
    maintenances = [decode(body, MaintenanceInfo) for body in bodies]
    for maintenance in maintenances:
        subject = f"{len(maintenance.machines)} machines" if maintenance.host is None else maintenance.host
        why = f" ({maintenance.reason})" if maintenance.reason else ""
        would = "would be " if dry_run else ""
        click.echo(f"{maintenance.cause} of {subject}: {would}{maintenance.phase}{why}, {maintenance.when}")
    events = [event for maintenance in maintenances for event in maintenance.events]
    if events:
        watch.print_events(events)
    for maintenance in maintenances:
        if maintenance.hint is not None:
            print_note(maintenance.hint)


def _act(path: str, request: Mapping[str, Json], json_: bool) -> None:
    _print_events(connect().call("POST", path, request), json_)


def _print_events(body: bytes, json_: bool) -> None:
    if json_:
        print_json(json_member(body, "events"))
    else:
        watch.print_events(decode(body, EventList).events)


def _path(name: str) -> str:
    return f"/hosts/{quote(name, safe='')}"


def _hold_path(host: str | None) -> str:
    return "/hold" if host is None else f"{_path(host)}/hold"


def _is_event(name: str) -> bool:
    try:
        EVENT.convert(name, None, None)
    except click.BadParameter:
        return False
    return True
