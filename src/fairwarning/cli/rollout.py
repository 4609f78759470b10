"""The command that takes maintenance through a scope, domain by domain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import click

from fairwarning.cli.client import HistoryLine, HistoryPart, MachineList, OperatorClient, connect, decode
from fairwarning.cli.fleet import json_option
from fairwarning.cli.options import LENGTH
from fairwarning.cli.output import as_json, as_line, note
from fairwarning.cli.watch import HistoryWatch, timed
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.document.render import Json

_ENDS = ("finished", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutInfo:
    """A walk, with the events of the domain it is at; of one just begun, whether nobody is told."""

    scope: str
    events: tuple[str, ...]
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeInfo:
    """A scope, as far as its walk goes."""

    update_domains: int
    walk: RolloutInfo | None


@click.command("walk")
@click.argument("what", metavar="CAUSE", type=click.Choice(list(MAINTENANCE)), default="host-update")
@click.option("--scope", required=True, help="The scope to walk through.")
@click.option("--notice", type=LENGTH, help="How long before each domain starts its guests are told.")
@click.option("--follow", is_flag=True, help="Stay and tell how it goes, until the last domain is done.")
@click.option(
    "--stop", is_flag=True, help="End the walk that is under way; what has not started is withdrawn."
)
@json_option
def rollout(what: str, scope: str, notice: str | None, follow: bool, stop: bool, json_: bool) -> None:
    """Take maintenance through a scope, one domain at a time.

    The next domain is announced only once the previous one is done.

    \b
    Example:
      fairwarning walk host-update --scope web --follow
      fairwarning walk --scope web --stop
    """
    client = connect()
    if stop:
        client.call("DELETE", f"/walks/{quote(scope, safe='')}")
        note(f"the walk through {scope} has ended")
        return
    asked: dict[str, Json] = {"scope": scope, "cause": what}
    if notice is not None:
        asked["notice"] = notice
    answer = client.call("POST", "/walks", asked)
    begun = decode(answer, RolloutInfo)
    if json_:
        as_json(json.loads(answer))
    if begun.hint is not None:
        note(begun.hint)
    if follow:
        _follow(client, begun, json_)
    elif not json_:
        note(f"a {what} walks through {scope}; fairwarning events --watch tells how it goes")


def _follow(client: OperatorClient, begun: RolloutInfo, json_: bool) -> None:
    scope = begun.scope
    machines = [one for one in decode(client.get("/machines"), MachineList).machines if one.scope == scope]
    # S-04: where there are no update domains, fault domains are respected.
    by_update = _scope(client, scope).update_domains > 0
    domains = {one.name: one.update_domain if by_update else one.fault_domain for one in machines}
    began, last = client.now(), None
    try:
        for text in HistoryWatch(client, _beginning(client, begun)):
            line = decode(text, HistoryLine)
            if line.scope == scope:
                as_line(text) if json_ else click.echo(f"{_progress(line, domains)}  {timed(line, began)}")
            if last is None and line.kind in _ENDS and _scope(client, scope).walk is None:
                last = client.position()
            if last is not None and line.seq >= last:
                note(f"the walk through {scope} is done")
                return
    except KeyboardInterrupt:
        note("the walk goes on without being watched")


def _progress(line: HistoryLine, domains: Mapping[str, int]) -> str:
    known = sorted(set(domains.values()))
    own = {domains[name] for name in line.resources if name in domains}
    if not own:
        return "domain -"
    return f"domain {min(own)} ({known.index(min(own)) + 1} of {len(known)})"


def _beginning(client: OperatorClient, begun: RolloutInfo) -> int:
    """Return the place in the history just before the walk's first event."""
    lines = decode(client.get("/history", event=begun.events[0]), HistoryPart).history
    return lines[0].seq - 1


def _scope(client: OperatorClient, scope: str) -> ScopeInfo:
    return decode(client.get(f"/scopes/{quote(scope, safe='')}"), ScopeInfo)
