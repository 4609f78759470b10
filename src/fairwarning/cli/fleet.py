"""The commands about the machines, the events, the history and the clock of a running server."""

import json
from collections.abc import Iterator, Mapping, Sequence, Sized
from urllib.parse import quote

import click

from fairwarning.cli import watch
from fairwarning.cli.client import (
    WRONG_CLOCK,
    ClockInfo,
    EventInfo,
    EventList,
    HistoryLine,
    HistoryPart,
    MachineInfo,
    MachineList,
    NodeInfo,
    NodeList,
    OperatorClient,
    OperatorRefusalError,
    connect,
    decode,
)
from fairwarning.cli.completion import complete_events, complete_hosts, complete_machines
from fairwarning.cli.host import announce_maintenances
from fairwarning.cli.lookup import pending_events, recorded_event, suggest_machines
from fairwarning.cli.options import DURATION_TEXT, EVENT, SPEED, CauseChoice, json_option
from fairwarning.cli.output import (
    FailureError,
    format_instant,
    join_names,
    json_member,
    print_json,
    print_json_line,
    print_note,
    print_table,
)
from fairwarning.config import PROGRAM
from fairwarning.core.causes import CAUSES
from fairwarning.core.document.render import Json
from fairwarning.core.maintenance.values import OnSilence
from fairwarning.core.model import EventType

_MACHINE_HEADINGS = ("NAME", "SCOPE", "STATE", "DOMAIN", "HOST", "SCOPE POLLED", "METADATA")
_CAUSE_LIST = "\n".join(f"  {name:<22} {cause.summary}" for name, cause in CAUSES.items())


@click.command()
@json_option
def vms(json_: bool) -> None:
    """List the machines, their state and their endpoints.

    \b
    Example:
      fairwarning vms
      fairwarning vms --json | jq -r '.[] | .name + " " + .metadata'
    """
    body = connect().get("/machines")
    if json_:
        print_json(json_member(body, "machines"))
        return
    print_table(_MACHINE_HEADINGS, map(_machine_row, decode(body, MachineList).machines))


def _machine_row(machine: MachineInfo) -> tuple[str, ...]:
    return (
        machine.name,
        machine.scope,
        machine.state,
        f"{machine.update_domain}/{machine.fault_domain}",
        machine.host,
        format_instant(machine.polled_at) if machine.enabled else "not polled",
        machine.metadata or "-",
    )


@click.command()
@click.argument("event_ids", metavar="[EVENT]...", type=EVENT, nargs=-1, shell_complete=complete_events)
@click.option("--watch", "watching", is_flag=True, help="Also print what happens from now on, until Ctrl-C.")
@json_option
def events(event_ids: tuple[str, ...], watching: bool, json_: bool) -> None:
    """List the pending events.

    EVENT is an id or the beginning of one; without any, all pending events are listed. READ is when every
    machine of the event had read the event, or how many machines have. With --watch and --json each line
    is an object. The pending events come first; their kind is "pending".

    \b
    Example:
      fairwarning events
      fairwarning events --watch
      fairwarning events C7061
    """
    client = connect()
    wanted = {event_id.upper() for event_id in pending_events(client, event_ids)}
    after = client.position() if watching else 0
    body = _only(client.get("/events"), wanted)
    if not watching:
        _print_events(body, json_)
        return
    if json_:
        watch.print_pending(body)
    else:
        _print_events(body, json_)
    print_note(f"watching {client.url}; Ctrl-C ends")
    began = client.now()
    try:
        for text in watch.HistoryWatch(client, after):
            line = decode(text, HistoryLine)
            if not wanted or line.event in wanted:
                print_json_line(text) if json_ else click.echo(watch.timed_sentence(line, began))
    except KeyboardInterrupt:
        return


def _only(body: bytes, wanted: set[str]) -> bytes:
    """Return an answer with events, reduced to the wanted ones; no id wants all of them."""
    if not wanted:
        return body
    events = json_member(body, "events")
    listed = events if isinstance(events, list) else []
    kept = [event for event in listed if isinstance(event, dict) and event["id"] in wanted]
    if len(kept) < len(wanted):
        missing = wanted - {str(event["id"]) for event in kept}
        raise FailureError(
            f"no pending event has the id {min(missing)}", f"{PROGRAM} history lists all events"
        )
    return json.dumps({"events": kept}).encode()


def _print_events(body: bytes, json_: bool) -> None:
    if json_:
        print_json(json_member(body, "events"))
        return
    pending = decode(body, EventList).events
    if not pending:
        print_note("no events are pending")
        return
    watch.print_events(pending)


@click.command(epilog="\b\nCauses:\n" + _CAUSE_LIST)
@click.argument("what", metavar="CAUSE", type=CauseChoice(CAUSES))
@click.argument("machines", metavar="[VM]...", nargs=-1, shell_complete=complete_machines)
@click.option(
    "--host",
    multiple=True,
    shell_complete=complete_hosts,
    help="All machines on this host, instead of VM; can be repeated.",
)
@click.option("--notice", type=DURATION_TEXT, help="Notice before the event starts.  [default: as on Azure]")
@click.option(
    "--kind", type=click.Choice(list(map(str, EventType))), help="Event type, if the cause allows several."
)
@click.option("--force", is_flag=True, help="Delete without notice.")
@click.option("--at", help="Maintenance: start at this instant at the earliest, such as 'Thu 02:00' or +5h.")
@click.option("--until", help="Maintenance: withdraw what has not started at this instant.")
@click.option("--key", help="Maintenance: a repetition with the same key changes nothing.")
@click.option(
    "--on-silence",
    type=click.Choice(list(map(str, OnSilence))),
    help="Maintenance: what to do at NotBefore if a machine has not approved.  [default: proceed]",
)
@click.option("--over-budget", is_flag=True, help="Maintenance: start although a budget is too small for it.")
@click.option("--dry-run", is_flag=True, help="Maintenance: show what would be announced.")
@json_option
def cause(
    what: str,
    machines: tuple[str, ...],
    host: tuple[str, ...],
    notice: str | None,
    kind: str | None,
    force: bool,
    json_: bool,
    **of_maintenance: str | bool | None,
) -> None:
    """Trigger an event on one or more machines.

    The command returns when the guests can see the event. The notice is that of Azure for the event type;
    --notice changes it. If no guest of the scope has polled in the last 24 hours, the action happens at
    once, as on Azure. A name that several scopes have is written as scope/name. With several hosts, each is
    a request of its own: a host that is refused does not undo the others, and the exit code is 1.

    The options of maintenance are for planned causes of the platform: with --at, approvals before the
    instant mean that a machine is ready, and nothing starts before it.

    \b
    Example:
      fairwarning cause restart web_0
      fairwarning cause freeze --host host-web-0-0 --notice 30s
      fairwarning cause hardware-failure db --kind Reboot
      fairwarning cause host-reboot --host kvm-17 --at 'Thu 02:00' --until 'Thu 06:00' --key CHG-1234
    """
    if not machines and not host:
        raise click.UsageError("name a machine, or a host with --host")
    if len(set(host)) < len(host):
        raise click.UsageError("a host is named twice")
    request: dict[str, Json] = {"cause": what, "machines": [*machines], "force": force}
    request |= {key: value for key, value in (("notice", notice), ("kind", kind)) if value}
    client = connect()
    if any(of_maintenance.values()):
        if kind or force:
            raise click.UsageError("--kind and --force are not for maintenance")
        del request["force"]
        request |= {name: value for name, value in of_maintenance.items() if value}
        with suggest_machines(client, machines):
            announce_maintenances(client, request, host, json_)
        return
    if len(host) > 1:
        _cause_on_hosts(client, request, host, json_)
        return
    if host:
        request["host"] = host[0]
    with suggest_machines(client, machines):
        body = client.call("POST", "/events", request)
    _print_announced([body], json_)


def _cause_on_hosts(
    client: OperatorClient, request: dict[str, Json], hosts: Sequence[str], json_: bool
) -> None:
    bodies: list[bytes] = []
    refused = False
    try:
        for host in hosts:
            try:
                bodies.append(client.call("POST", "/events", request | {"host": host}))
            except OperatorRefusalError as refusal:
                refused = True
                OperatorRefusalError(
                    f"{host}: {refusal.message}", *refusal.hints, status=refusal.status, kind=refusal.kind
                ).show()
    finally:
        # A refusal does not undo what was done before it.
        if bodies:
            _print_announced(bodies, json_)
    if refused:
        click.get_current_context().exit(1)


def _print_announced(bodies: Sequence[bytes], json_: bool) -> None:
    """Print the events of several answers as one list, and what the answers say about guests."""
    events: list[Json] = []
    for body in bodies:
        part = json_member(body, "events")
        events += part if isinstance(part, list) else []
    _print_events(json.dumps({"events": events}).encode(), json_)
    for body in bodies:
        if (hint := decode(body, EventList).hint) is not None:
            print_note(hint)


_EVENT_ARGUMENT = click.argument(
    "event_ids", metavar="EVENT...", type=EVENT, nargs=-1, required=True, shell_complete=complete_events
)


@click.command()
@_EVENT_ARGUMENT
@json_option
def approve(event_ids: tuple[str, ...], json_: bool) -> None:
    """Approve events on behalf of the guests.

    An approved event starts as soon as the other events of its host's maintenance, or the other pending
    deletes of its set, are approved too; most events wait for no other and start at once. It starts at its
    NotBefore at the latest. EVENT is an id or the beginning of one.

    \b
    Example:
      fairwarning approve C7061BAC-AFDC-4513-B24B-AA5F13A16123
      fairwarning approve c7061
    """
    _act("approve", event_ids, json_)


@click.command()
@_EVENT_ARGUMENT
@json_option
def cancel(event_ids: tuple[str, ...], json_: bool) -> None:
    """Cancel events that have not started.

    EVENT is an id or the beginning of one.

    \b
    Example:
      fairwarning cancel C7061BAC-AFDC-4513-B24B-AA5F13A16123
      fairwarning cancel c7061
    """
    _act("cancel", event_ids, json_)


_STARTED_EVENT = click.argument("event_id", metavar="EVENT", type=EVENT, shell_complete=complete_events)


@click.command()
@_STARTED_EVENT
@click.argument("machines", metavar="[VM]...", nargs=-1, shell_complete=complete_machines)
@click.option("--moved-to", "host", shell_complete=complete_hosts, help="Host on which the machines are now.")
@json_option
def complete(event_id: str, machines: tuple[str, ...], host: str | None, json_: bool) -> None:
    """Report that the impact of an event is done.

    Needs a server whose machines you act on yourself: fairwarning up --driver external. Without VM, the
    impact is done on all machines of the event. EVENT is an id or the beginning of one.

    \b
    Example:
      fairwarning complete c7061
      fairwarning complete c7061 web_0
      fairwarning complete c7061 web_0 --moved-to kvm-20
    """
    request: dict[str, Json] = {"machines": [*machines]}
    _report("complete", event_id, request if host is None else request | {"moved_to": host}, json_)


@click.command()
@_STARTED_EVENT
@click.argument("machine", metavar="VM", shell_complete=complete_machines)
@click.option("--reason", required=True, help="What went wrong; the history shows it.")
@json_option
def fail(event_id: str, machine: str, reason: str, json_: bool) -> None:
    """Report that the impact of an event has failed on a machine.

    Needs a server whose machines you act on yourself: fairwarning up --driver external. The event stays
    Started and begins its next attempt. EVENT is an id or the beginning of one.

    \b
    Example:
      fairwarning fail c7061 web_0 --reason "the machine did not come back"
    """
    _report("fail", event_id, {"machine": machine, "reason": reason}, json_)


@click.command()
@click.argument("machine", metavar="VM", shell_complete=complete_machines)
@click.argument("host", metavar="HOST", shell_complete=complete_hosts)
@json_option
def move(machine: str, host: str, json_: bool) -> None:
    """Report that a machine is on another host.

    The machine stays there until you report another move, or until its host changes in the inventory of the
    server. Nothing is done to the machine, and no event is announced.

    \b
    Example:
      fairwarning move web_0 kvm-20
    """
    client = connect()
    with suggest_machines(client, (machine,)):
        body = client.call("PATCH", f"/machines/{quote(machine, safe='/')}", {"host": host})
    if json_:
        print_json(json.loads(body))
    else:
        print_table(_MACHINE_HEADINGS, [_machine_row(decode(body, MachineInfo))])


def _report(verb: str, prefix: str, request: Mapping[str, Json], json_: bool) -> None:
    client = connect()
    (event_id,) = pending_events(client, (prefix,))
    body = client.call("POST", f"/events/{quote(event_id, safe='')}/{verb}", request)
    _print_changed([body], json_)


def _act(verb: str, prefixes: tuple[str, ...], json_: bool) -> None:
    client = connect()
    event_ids = pending_events(client, prefixes)
    bodies: list[bytes] = []
    try:
        for event_id in event_ids:
            bodies.append(client.call("POST", f"/events/{quote(event_id, safe='')}/{verb}", {}))
    finally:
        # A refusal does not undo what was done before it.
        if bodies:
            _print_changed(bodies, json_)


def _print_changed(bodies: Sequence[bytes], json_: bool) -> None:
    if json_:
        print_json([json.loads(body) for body in bodies])
    else:
        watch.print_events(decode(body, EventInfo) for body in bodies)


@click.command()
@click.argument("event", type=EVENT, required=False, shell_complete=complete_events)
@json_option
def history(event: str | None, json_: bool) -> None:
    """Print what has happened and who approved it.

    The oldest line comes first. EVENT is an id or the beginning of one; without it, the lines of all events
    are printed.

    \b
    Example:
      fairwarning history
      fairwarning history c7061
      fairwarning history --json | jq '.[] | select(.kind == "approved")'
    """
    client = connect()
    event_id = None if event is None else recorded_event(client, event)
    pages = _note_beginning(client.history(event_id))
    if json_:
        lines: list[Json] = []
        for page in pages:
            part = json_member(page, "history")
            lines += part if isinstance(part, list) else []
        _require_lines(event, lines)
        print_json(lines)
        return
    rows = [
        (
            format_instant(line.at),
            line.kind,
            line.type,
            join_names(line.resources),
            line.by,
            line.event or "-",
            line.reason,
        )
        for page in pages
        for line in decode(page, HistoryPart).history
    ]
    _require_lines(event, rows)
    print_table(("AT", "WHAT", "TYPE", "MACHINES", "BY", "EVENT", "REASON"), rows)


def _note_beginning(pages: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pages of the history; if older lines were pruned, note where it begins."""
    first = True
    for page in pages:
        begins = decode(page, HistoryPart).begins
        if first and begins is not None:
            print_note(f"history begins at {format_instant(begins.at)} (older lines were pruned)")
        first = False
        yield page


def _require_lines(event: str | None, lines: Sized) -> None:
    if event is not None and not lines:
        raise FailureError(f"no event has the id {event}", f"{PROGRAM} history lists all events")


@click.group()
def clock() -> None:
    """Show or move the clock of the fleet.

    Only a manual clock (fairwarning up --clock manual) can be advanced.

    \b
    Example:
      fairwarning clock show
      fairwarning clock advance 15m
    """


def _print_clock(client: OperatorClient, json_: bool) -> None:
    body = client.get("/clock")
    if json_:
        print_json(json.loads(body))
        return
    now = decode(body, ClockInfo)
    row = now.mode, format_instant(now.now), f"{now.speed:g}", format_instant(now.next_deadline)
    print_table(("CLOCK", "NOW", "SPEED", "NEXT DEADLINE"), [row])


@clock.command("show")
@json_option
def clock_show(json_: bool) -> None:
    """Show the fleet's time, speed and next deadline.

    \b
    Example:
      fairwarning clock show
    """
    _print_clock(connect(), json_)


@clock.command("advance")
@click.argument("by", type=DURATION_TEXT)
@json_option
def clock_advance(by: str, json_: bool) -> None:
    """Advance a manual clock.

    All deadlines on the way take effect, in order.

    \b
    Example:
      fairwarning clock advance 15m
    """
    _move_clock("/clock/advance", {"by": by}, json_)


@clock.command("next")
@json_option
def clock_next(json_: bool) -> None:
    """Advance a manual clock to the next deadline.

    \b
    Example:
      fairwarning clock next
    """
    _move_clock("/clock/next", {}, json_)


def _move_clock(path: str, request: Mapping[str, Json], json_: bool) -> None:
    client = connect()
    try:
        client.call("POST", path, request)
    except OperatorRefusalError as refusal:
        if refusal.kind != WRONG_CLOCK:
            raise
        hint = f"start the server with: {PROGRAM} up --clock manual"
        raise FailureError(refusal.message, hint) from refusal
    _print_clock(client, json_)


@clock.command("speed")
@click.argument("speed", type=SPEED)
@json_option
def clock_speed(speed: float, json_: bool) -> None:
    """Set the speed of a real clock.

    Every duration from now on is divided by the speed: at speed 60 a notice of 15 minutes takes 15 seconds.

    \b
    Example:
      fairwarning clock speed 60
    """
    client = connect()
    client.call("PUT", "/clock/speed", {"speed": speed})
    _print_clock(client, json_)


@click.command()
@json_option
def nodes(json_: bool) -> None:
    """List the servers of the fleet that are alive.

    A server on SQLite is the only one. LAG is the number of journal lines that a server has not applied
    yet, CLOCK how far its clock is ahead of the database's, INVENTORY the version of the inventory that it
    has applied. The server that answers has a star. A hint says if an upgrade waits for its last step.

    \b
    Example:
      fairwarning nodes
      fairwarning nodes --json | jq '.[] | select(.lag > 100)'
    """
    body = connect().get("/nodes")
    if json_:
        print_json(json_member(body, "nodes"))
        return
    headings = ("NAME", "ADDRESS", "POSITION", "LAG", "CLOCK", "RELEASE", "INVENTORY", "SEEN")
    servers = decode(body, NodeList)
    print_table(headings, map(_node_row, servers.nodes))
    reads = {node.reads for node in servers.nodes}
    if len(reads) == 1 and servers.writes not in reads:
        print_note(f"hint: fairwarning db migrate --finish lets the servers use what is new in {reads.pop()}")


def _node_row(node: NodeInfo) -> tuple[str, ...]:
    return (
        f"{node.name}{' *' if node.this else ''}",
        node.address or "none",
        str(node.position),
        str(node.lag),
        f"{node.clock_offset:+.3f}s",
        node.release,
        node.inventory or "none",
        format_instant(node.seen_at),
    )
