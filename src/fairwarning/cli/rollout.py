"""The command that takes maintenance through a scope, domain by domain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import click

from fairwarning.cli.client import HistoryLine, HistoryPart, MachineList, OperatorClient, connect, decode
from fairwarning.cli.completion import complete_scopes
from fairwarning.cli.lookup import suggest_scopes
from fairwarning.cli.options import DURATION_TEXT, CauseChoice, json_option
from fairwarning.cli.output import print_json, print_json_line, print_note
from fairwarning.cli.watch import HistoryWatch, timed_sentence
from fairwarning.config import PROGRAM
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.document.render import Json

_ENDS = ("finished", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutInfo:
    """A rollout, with the events of its current domain; the hint says that no guest was warned."""

    scope: str
    events: tuple[str, ...]
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeInfo:
    """A scope and its rollout."""

    update_domains: int
    walk: RolloutInfo | None


@click.command()
@click.argument("what", metavar="[CAUSE]", type=CauseChoice(MAINTENANCE), default="host-update")
@click.option("--scope", required=True, shell_complete=complete_scopes, help="The scope to maintain.")
@click.option("--notice", type=DURATION_TEXT, help="Notice for each domain.  [default: as on Azure]")
@click.option("--follow", is_flag=True, help="Print what happens until the last domain is done.")
@click.option("--stop", is_flag=True, help="Stop the rollout; events that have not started are cancelled.")
@json_option
def rollout(what: str, scope: str, notice: str | None, follow: bool, stop: bool, json_: bool) -> None:
    """Take maintenance through a scope, one domain at a time.

    The next domain is announced when the previous one is done. CAUSE is host-update if it is left out.
    With --follow and --json each line is an object.

    \b
    Example:
      fairwarning rollout host-update --scope web --follow
      fairwarning rollout --scope web --stop
    """
    client = connect()
    if stop:
        _stop(client, scope, json_)
        return
    request: dict[str, Json] = {"scope": scope, "cause": what}
    if notice is not None:
        request["notice"] = notice
    with suggest_scopes(client, scope):
        answer = client.call("POST", "/rollouts", request)
    begun = decode(answer, RolloutInfo)
    if json_ and follow:
        print_json_line(answer.decode())
    elif json_:
        print_json(json.loads(answer))
    if begun.hint is not None:
        print_note(begun.hint)
    if follow:
        _follow(client, begun, json_)
    elif not json_:
        print_note(f"the rollout of {what} in {scope} has begun; {PROGRAM} events --watch shows its progress")


def _stop(client: OperatorClient, scope: str, json_: bool) -> None:
    with suggest_scopes(client, scope):
        client.call("DELETE", f"/rollouts/{quote(scope, safe='')}")
    if json_:
        print_json({"scope": scope, "stopped": True})
    else:
        print_note(f"the rollout in {scope} is stopped")


def _follow(client: OperatorClient, begun: RolloutInfo, json_: bool) -> None:
    scope = begun.scope
    listed = decode(client.get("/machines"), MachineList).machines
    machines = [machine for machine in listed if machine.scope == scope]
    # S-04: maintenance goes by fault domains where a scope has no update domains.
    by_update = _scope(client, scope).update_domains > 0
    domains = {
        machine.name: machine.update_domain if by_update else machine.fault_domain for machine in machines
    }
    began, last = client.now(), None
    try:
        for text in HistoryWatch(client, _position_before(client, begun)):
            line = decode(text, HistoryLine)
            if line.scope == scope:
                sentence = f"{_progress(line, domains)}  {timed_sentence(line, began)}"
                print_json_line(text) if json_ else click.echo(sentence)
            if last is None and line.kind in _ENDS and _scope(client, scope).walk is None:
                last = client.position()
            if last is not None and line.seq >= last:
                print_note(f"the rollout in {scope} is done")
                return
    except KeyboardInterrupt:
        print_note("the rollout continues")


def _progress(line: HistoryLine, domains: Mapping[str, int]) -> str:
    numbers = sorted(set(domains.values()))
    affected = {domains[name] for name in line.resources if name in domains}
    if not affected:
        return "domain -"
    return f"domain {min(affected)} ({numbers.index(min(affected)) + 1} of {len(numbers)})"


def _position_before(client: OperatorClient, begun: RolloutInfo) -> int:
    """Return the position in the history just before the rollout's first event."""
    lines = decode(client.get("/history", event=begun.events[0]), HistoryPart).history
    return lines[0].seq - 1


def _scope(client: OperatorClient, scope: str) -> ScopeInfo:
    return decode(client.get(f"/scopes/{quote(scope, safe='')}"), ScopeInfo)
