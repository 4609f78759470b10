"""The command line.

It may import ``server``, ``config`` and ``core``; it talks to a running server only through the operator API.
Heavy libraries are imported where they are used, so that ``--help`` is quick. Start reading at ``fleet.py``,
then ``up.py``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from fairwarning import __version__
from fairwarning.cli.output import print_note
from fairwarning.config import PROGRAM
from fairwarning.formats.suggestions import did_you_mean

#: Every command and its module, in the order in which a newcomer needs them.
MODULES: Mapping[str, str] = {
    "up": "up",
    "serve": "serve",
    "demo": "demo",
    "vms": "fleet",
    "events": "fleet",
    "cause": "fleet",
    "approve": "fleet",
    "cancel": "fleet",
    "complete": "fleet",
    "fail": "fleet",
    "move": "fleet",
    "host": "host",
    "postpone": "host",
    "hold": "host",
    "unhold": "host",
    "rollout": "rollout",
    "history": "fleet",
    "clock": "fleet",
    "nodes": "fleet",
    "fault": "fault",
    "exec": "exec",
    "check": "check",
    "record": "record",
    "az-env": "az",
    "az-login": "az",
    "agent": "exec",
    "db": "db",
    "doctor": "doctor",
    "completion": "completion",
}

#: Names that are accepted for one more release, with the new names.
RENAMED: Mapping[str, str] = {"walk": "rollout"}


class Commands(click.Group):
    """Imports the module of a command when the command is used."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Name the program as the user calls it, so that usage lines can be pasted."""
        return super().make_context(PROGRAM, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in their order."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name."""
        name = RENAMED.get(cmd_name, cmd_name)
        if name not in MODULES:
            return None
        values = vars(import_module(f"{__name__}.{MODULES[name]}")).values()
        return next(value for value in values if isinstance(value, click.Command) and value.name == name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line; suggest close names for an unknown command."""
        name = args[0]
        if not ctx.resilient_parsing:
            if name in RENAMED:
                print_note(f"note: the command {name} is now called {RENAMED[name]}")
            elif name not in MODULES and not name.startswith("-"):
                ctx.fail(f"no such command {name!r}{did_you_mean(name, MODULES)}")
        _, command, rest = resolved = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_repetitions(command, name, rest, ctx)
        return resolved


def _refuse_repetitions(
    command: click.Command, name: str, args: Sequence[str], parent: click.Context
) -> None:
    """Refuse an option that takes one value and is given twice: click would silently use the last value."""
    context = click.Context(command, parent, name, **command.context_settings)
    _, rest, given = command.make_parser(context).parse_args(list(args))
    options = Counter(parameter for parameter in given if isinstance(parameter, click.Option))
    for option, times in options.items():
        if times > 1 and not (option.multiple or option.is_flag):
            context.fail(f"{option.opts[-1]} is given twice, and takes one value")
    if isinstance(command, click.Group) and rest:
        child = command.get_command(context, rest[0])
        if child is not None:
            _refuse_repetitions(child, rest[0], rest[1:], context)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="fairwarning %(version)s")
def cli() -> None:
    """Azure Scheduled Events on your machine, to test how your software reacts.

    \b
    Example:
      fairwarning demo                    a tour in 30 seconds
      fairwarning up                      a fleet on this machine; prints commands to paste
      fairwarning cause restart web_0     in a second terminal

    \b
    Environment:
      FAIRWARNING_URL         address of the server  [default: http://127.0.0.1:8080]
      FAIRWARNING_TOKEN       token of the server, if it requires one
      FAIRWARNING_TOKEN_FILE  file with the token, instead of FAIRWARNING_TOKEN
      FAIRWARNING_CA          file with the authority that signed the server's certificate

    \b
    Exit codes:
      0  success
      1  refused or failed
      2  usage error
      3  no server answers
    """
