"""The command that takes maintenance through a scope, domain by domain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import click

from fairwarning.cli.client import Client, Event, Events, History, Line, Machines, connect, decode
from fairwarning.cli.fleet import json_option
from fairwarning.cli.options import LENGTH
from fairwarning.cli.output import as_json, note
from fairwarning.cli.watch import Watch, timed
from fairwarning.core.causes import CAUSES
from fairwarning.core.model import Source
from fairwarning.core.wire import Json

#: S-04: what a platform does to whole hosts; the rest is done to single machines.
MAINTENANCE = [n for n, cause in CAUSES.items() if cause.source is Source.PLATFORM and not cause.spot_only]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A scope, as far as its walk goes."""

    id: str
    walk: Json = None


@click.command()
@click.argument("what", metavar="CAUSE", type=click.Choice(MAINTENANCE), default="host-update")
@click.option("--scope", required=True, help="The scope to walk through.")
@click.option("--notice", type=LENGTH, help="How long before each domain starts its guests are told.")
@click.option("--follow", is_flag=True, help="Stay and tell how it goes, until the last domain is done.")
@click.option(
    "--stop", is_flag=True, help="End the walk that is under way; what has not started is withdrawn."
)
@json_option
def walk(what: str, scope: str, notice: str | None, follow: bool, stop: bool, json_: bool) -> None:
    """Take maintenance through a scope, one domain at a time.

    The next domain is announced only once the previous one is done.

    \b
    Example:
      fairwarning walk host-update --scope web --follow
      fairwarning walk --scope web --stop
    """
    client = connect()
    if stop:
        client.call("DELETE", f"/walks/{scope}")
        note(f"the walk through {scope} has ended")
        return
    asked: dict[str, Json] = {"scope": scope, "cause": what}
    if notice is not None:
        asked["notice"] = notice
    answer = client.call("POST", "/walks", asked)
    if json_:
        as_json(json.loads(answer))
    if follow:
        _follow(client, scope, json_)
    elif not json_:
        note(f"a {what} walks through {scope}; fairwarning events --watch tells how it goes")


def _follow(client: Client, scope: str, json_: bool) -> None:
    machines = [one for one in decode(client.get("/machines"), Machines).machines if one.scope == scope]
    domains = {machine.name: machine.update_domain for machine in machines}
    try:
        for text in Watch(client, _beginning(client, scope)):
            line = decode(text, Line)
            if line.scope != scope:
                continue
            click.echo(text if json_ else f"{_progress(line, domains)}  {timed(line)}")
            if line.kind in ("finished", "cancelled") and _over(client, scope):
                note(f"the walk through {scope} is done")
                return
    except KeyboardInterrupt:
        note("the walk goes on without being watched")


def _progress(line: Line, domains: Mapping[str, int]) -> str:
    known = sorted(set(domains.values()))
    own = {domains[name] for name in line.resources if name in domains}
    if not own:
        return "domain -"
    return f"domain {min(own)} ({known.index(min(own)) + 1} of {len(known)})"


def _beginning(client: Client, scope: str) -> int:
    """Return the place in the history just before the walk's first event."""
    pending = decode(client.get("/events"), Events).events
    walked: list[Event] = [event for event in pending if event.scope == scope and event.walk is not None]
    if not walked:
        return client.position()
    first = decode(client.get("/history", event=walked[0].id), History).history
    return first[0].seq - 1 if first else client.position()


def _over(client: Client, scope: str) -> bool:
    return decode(client.get(f"/scopes/{scope}"), Scope).walk is None
