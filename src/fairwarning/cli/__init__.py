"""The command line: thin, and honest about what went wrong.

May import ``serve``, ``config`` and ``core``; talks to a running server only through its operator API. Heavy
libraries are imported where they are used, so that ``--help`` answers at once. Start reading at ``fleet.py``,
then ``up.py``.
"""

from collections.abc import Mapping
from importlib import import_module

import click

from fairwarning import __version__

#: Every command and the module it is in, in the order in which a newcomer meets them.
MODULES: Mapping[str, str] = {
    "up": "up",
    "demo": "demo",
    "vms": "fleet",
    "events": "fleet",
    "cause": "fleet",
    "approve": "fleet",
    "cancel": "fleet",
    "walk": "rollout",
    "history": "fleet",
    "clock": "fleet",
    "fault": "fault",
    "exec": "exec",
    "check": "check",
    "record": "record",
    "az-env": "az",
    "az-login": "az",
    "agent": "agent",
    "doctor": "doctor",
}


class Commands(click.Group):
    """Loads the module of a command that is called: nobody should wait for what the others need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in their order."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name."""
        if cmd_name not in MODULES:
            return None
        known = vars(import_module(f"{__name__}.{MODULES[cmd_name]}")).values()
        return next(one for one in known if isinstance(one, click.Command) and one.name == cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="fairwarning %(version)s")
def cli() -> None:
    """Fair warning for machines: Scheduled Events, before things happen to them.

    \b
    Example:
      fairwarning demo                    the story in half a minute
      fairwarning up                      a fleet on this machine; says what to paste
      fairwarning cause restart web_0     in a second terminal

    \b
    The commands find their server by:
      FAIRWARNING_URL     http://127.0.0.1:8080 unless set
      FAIRWARNING_TOKEN   for a server that asks for a token

    \b
    Exit codes:
      0  done
      1  refused, or failed
      2  the command line makes no sense
      3  no server answers
    """
