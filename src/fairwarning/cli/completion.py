"""Shell completion: the command that prints the script, and the values that it offers.

The shell runs ``fairwarning`` with every press of the Tab key, so each function here is silent and quick:
without an answer from the server within a fraction of a second, nothing is offered.
"""

from collections.abc import Iterable
from typing import TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from fairwarning.cli.client import EventList, MachineInfo, MachineList, decode, open_client
from fairwarning.cli.lookup import describe_event, machine_names
from fairwarning.formats.counts import format_count

T = TypeVar("T")
Items = list[CompletionItem[str]]

#: How many seconds the server may take to accept a connection, and as many to answer.
TIMEOUT = 0.2

#: The key in ``Context.meta`` that says that a ``--`` precedes the word to complete.
AFTER_DASHES = "fairwarning.after_dashes"

PROGRAM_NAME, VARIABLE = "fairwarning", "_FAIRWARNING_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands in your shell.

    The script completes commands, options, the machines, events and scopes of the running server, and the
    scenarios of check. Completion needs fairwarning on the PATH.

    \b
    Example:
      fairwarning completion bash > ~/.local/share/bash-completion/completions/fairwarning
      fairwarning completion zsh > ~/.zfunc/_fairwarning
      fairwarning completion fish > ~/.config/fish/completions/fairwarning.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(click.get_current_context().find_root().command, {}, PROGRAM_NAME, VARIABLE).source())


def complete_machines(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the machines, with their scope and state."""
    machines = _machines()
    names = zip(machine_names(machines), machines, strict=True)
    return _matching(incomplete, ((name, f"{machine.scope}, {machine.state}") for name, machine in names))


def complete_hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the hosts, with the number of their machines."""
    return _grouped(incomplete, [machine.host for machine in _machines()])


def complete_scopes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the scopes, with the number of their machines."""
    return _grouped(incomplete, [machine.scope for machine in _machines()])


def complete_events(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the pending events."""
    answer = _get("/events", EventList)
    events = () if answer is None else answer.events
    items = ((event.id, f"{describe_event(event)}, {event.status}") for event in events)
    return _matching(incomplete, items)


def complete_scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the standard scenarios; after ``--``, the files of the handler's command line."""
    if ctx.meta.get(AFTER_DASHES):
        return [CompletionItem(incomplete, type="file")]
    from fairwarning.check.scenario import standard

    return _matching(incomplete, ((name, "") for name in standard()))


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the rules that scenarios test, with their sentences."""
    from fairwarning.check.rules import sentences

    return _matching(incomplete, sentences().items())


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Leave the completion of file names to the shell."""
    return [CompletionItem(incomplete, type="file")]


def _machines() -> tuple[MachineInfo, ...]:
    answer = _get("/machines", MachineList)
    return () if answer is None else answer.machines


def _grouped(incomplete: str, values: list[str]) -> Items:
    numbers = {value: format_count(values.count(value), "machine") for value in values}
    return _matching(incomplete, numbers.items())


def _matching(incomplete: str, items: Iterable[tuple[str, str]]) -> Items:
    start = incomplete.lower()
    return [
        CompletionItem(value, help=text or None) for value, text in items if value.lower().startswith(start)
    ]


def _get(path: str, shape: type[T]) -> T | None:
    try:
        client = open_client(TIMEOUT)
    except click.ClickException:
        return None
    try:
        return decode(client.get(path), shape)
    except click.ClickException:
        return None
    finally:
        client.close()
