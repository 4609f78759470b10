"""The commands that talk to a running server about its machines, events and time."""

import json
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar
from urllib.parse import quote

import click

from fairwarning.cli import watch
from fairwarning.cli.client import (
    ClockInfo,
    EventInfo,
    EventList,
    HistoryLine,
    HistoryPart,
    MachineInfo,
    MachineList,
    OperatorClient,
    connect,
    decode,
)
from fairwarning.cli.options import EVENT, LENGTH, SPEED
from fairwarning.cli.output import FailureError, as_json, as_line, instant, member, names, note, table
from fairwarning.core.causes import CAUSES
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType

F = TypeVar("F", bound=Callable[..., None])

_CAUSE_LIST = "\n".join(f"  {name:<22} {cause.summary}" for name, cause in CAUSES.items())


def json_option(command: F) -> F:
    """Give a command the switch that makes its output readable for programs."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON instead of a table.")(command)


@click.command()
@json_option
def vms(json_: bool) -> None:
    """List the machines, how they are and where they find their metadata service.

    \b
    Example:
      fairwarning vms
      fairwarning vms --json | jq -r '.[] | .name + " " + .metadata'
    """
    body = connect().get("/machines")
    if json_:
        as_json(member(body, "machines"))
        return
    headings = ("NAME", "SCOPE", "STATE", "DOMAIN", "HOST", "SCOPE POLLED", "METADATA")
    table(headings, map(_machine_row, decode(body, MachineList).machines))


def _machine_row(machine: MachineInfo) -> tuple[str, ...]:
    polled = instant(machine.polled_at) if machine.enabled else "nobody polls"
    return (
        machine.name,
        machine.scope,
        machine.state,
        f"{machine.update_domain}/{machine.fault_domain}",
        machine.host,
        polled,
        machine.metadata or "-",
    )


@click.command()
@click.option("--watch", "watching", is_flag=True, help="Go on and tell what happens, until Ctrl-C.")
@json_option
def events(watching: bool, json_: bool) -> None:
    """List the events that are pending.

    With --watch, tell everything that happens from now on as well; with --json that is one object a line, and
    what is pending comes first, as objects whose kind is "pending".

    \b
    Example:
      fairwarning events
      fairwarning events --watch
    """
    client = connect()
    after = client.position() if watching else 0
    body = client.get("/events")
    if not watching:
        _print_events(body, json_)
        return
    if json_:
        watch.print_pending(body)
    else:
        _print_events(body, json_)
    note(f"watching {client.url}; Ctrl-C ends")
    began = client.now()
    try:
        for text in watch.HistoryWatch(client, after):
            as_line(text) if json_ else click.echo(watch.timed(decode(text, HistoryLine), began))
    except KeyboardInterrupt:
        return


def _print_events(body: bytes, json_: bool) -> None:
    if json_:
        as_json(member(body, "events"))
        return
    pending = decode(body, EventList).events
    if not pending:
        note("no events are pending")
        return
    table(watch.EVENT_HEADINGS, map(watch.event_row, pending))


@click.command(epilog="\b\nWhat can be caused:\n" + _CAUSE_LIST)
@click.argument("what", metavar="CAUSE", type=click.Choice(list(CAUSES)))
@click.argument("machines", metavar="[VM]...", nargs=-1)
@click.option("--host", help="All machines on this host, instead of naming them.")
@click.option("--notice", type=LENGTH, help="How long before it starts the guests are told.")
@click.option(
    "--kind", type=click.Choice(list(map(str, EventType))), help="The event type, where a cause has a choice."
)
@click.option("--force", is_flag=True, help="Delete without a warning.")
@json_option
def cause(
    what: str,
    machines: tuple[str, ...],
    host: str | None,
    notice: str | None,
    kind: str | None,
    force: bool,
    json_: bool,
) -> None:
    """Let something happen to machines, with the warning that is due.

    Returns once the guests can see it. Machines are named as guests see them; scope/name where a name is
    ambiguous.

    \b
    Example:
      fairwarning cause restart web_0
      fairwarning cause freeze --host host-web-0-0 --notice 30s
      fairwarning cause hardware-failure db --kind Reboot
    """
    if not machines and host is None:
        raise click.UsageError("name a machine, or --host")
    asked: dict[str, Json] = {"cause": what, "machines": [*machines], "force": force}
    asked |= {key: value for key, value in (("host", host), ("notice", notice), ("kind", kind)) if value}
    body = connect().call("POST", "/events", asked)
    _print_events(body, json_)
    if (hint := decode(body, EventList).hint) is not None:
        note(hint)


@click.command()
@click.argument("event_ids", metavar="EVENT...", type=EVENT, nargs=-1, required=True)
@json_option
def approve(event_ids: tuple[str, ...], json_: bool) -> None:
    """Approve events in the place of the guests, so that they start at once.

    \b
    Example:
      fairwarning approve C7061BAC-AFDC-4513-B24B-AA5F13A16123
    """
    _act("approve", event_ids, json_)


@click.command()
@click.argument("event_ids", metavar="EVENT...", type=EVENT, nargs=-1, required=True)
@json_option
def cancel(event_ids: tuple[str, ...], json_: bool) -> None:
    """Withdraw events that have not started.

    \b
    Example:
      fairwarning cancel C7061BAC-AFDC-4513-B24B-AA5F13A16123
    """
    _act("cancel", event_ids, json_)


def _act(verb: str, event_ids: Iterable[str], json_: bool) -> None:
    client = connect()
    bodies = [client.call("POST", f"/events/{quote(event_id, safe='')}/{verb}", {}) for event_id in event_ids]
    if json_:
        as_json([json.loads(body) for body in bodies])
    else:
        table(watch.EVENT_HEADINGS, (watch.event_row(decode(body, EventInfo)) for body in bodies))


@click.command()
@click.argument("event", type=EVENT, required=False)
@json_option
def history(event: str | None, json_: bool) -> None:
    """Tell what has happened and who approved it, oldest first; of one event or of all.

    \b
    Example:
      fairwarning history
      fairwarning history --json | jq '.[] | select(.kind == "approved")'
    """
    pages = _told(connect().history(event))
    if json_:
        lines: list[Json] = []
        for page in pages:
            found = member(page, "history")
            lines += found if isinstance(found, list) else []
        _must_exist(event, lines)
        as_json(lines)
        return
    rows = [
        (
            instant(line.at),
            line.kind,
            line.type,
            names(line.resources),
            line.by,
            line.event or "-",
            line.reason,
        )
        for page in pages
        for line in decode(page, HistoryPart).history
    ]
    _must_exist(event, rows)
    table(("AT", "WHAT", "TYPE", "MACHINES", "BY", "EVENT", "REASON"), rows)


def _told(pages: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pages of the history, and say where it begins if that is not where it began."""
    first = True
    for page in pages:
        begins = decode(page, HistoryPart).begins
        if first and begins is not None:
            note(f"history begins at {instant(begins.at)} (older lines were pruned)")
        first = False
        yield page


def _must_exist(event: str | None, told: Sized) -> None:
    if event is not None and not told:
        raise FailureError(f"no event has the id {event}", "fairwarning history tells of all there have been")


@click.group()
def clock() -> None:
    """Show the fleet's time, and move it.

    Only a manual clock (fairwarning up --clock manual) can be advanced.

    \b
    Example:
      fairwarning clock show
      fairwarning clock advance 15m
    """


def _print_clock(client: OperatorClient, json_: bool) -> None:
    body = client.get("/clock")
    if json_:
        as_json(json.loads(body))
        return
    now = decode(body, ClockInfo)
    row = now.mode, instant(now.now), f"{now.speed:g}", instant(now.next_deadline)
    table(("CLOCK", "NOW", "SPEED", "NEXT DEADLINE"), [row])


@clock.command("show")
@json_option
def clock_show(json_: bool) -> None:
    """Show what time it is for the fleet, and when something falls due.

    \b
    Example:
      fairwarning clock show
    """
    _print_clock(connect(), json_)


@clock.command("advance")
@click.argument("by", type=LENGTH)
@json_option
def clock_advance(by: str, json_: bool) -> None:
    """Move a manual clock forward; everything that falls due on the way happens.

    \b
    Example:
      fairwarning clock advance 15m
    """
    client = connect()
    client.call("POST", "/clock/advance", {"by": by})
    _print_clock(client, json_)


@clock.command("next")
@json_option
def clock_next(json_: bool) -> None:
    """Move a manual clock to the next moment at which something falls due.

    \b
    Example:
      fairwarning clock next
    """
    client = connect()
    client.call("POST", "/clock/next", {})
    _print_clock(client, json_)


@clock.command("speed")
@click.argument("speed", type=SPEED)
@json_option
def clock_speed(speed: float, json_: bool) -> None:
    """Divide every duration from now on: at speed 60 a notice of 15 minutes is one of 15 seconds.

    \b
    Example:
      fairwarning clock speed 60
    """
    client = connect()
    client.call("PUT", "/clock/speed", {"speed": speed})
    _print_clock(client, json_)
