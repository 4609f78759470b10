"""The command line: thin, and honest about what went wrong.

May import ``serve``, ``config`` and ``core``; talks to a running server only through its operator API. Heavy
libraries are imported where they are used, so that ``--help`` answers at once. Start reading at ``fleet.py``,
then ``up.py``.
"""

import click

from fairwarning import __version__
from fairwarning.cli.agent import agent
from fairwarning.cli.az import az_env, az_login
from fairwarning.cli.check import check
from fairwarning.cli.demo import demo
from fairwarning.cli.doctor import doctor
from fairwarning.cli.exec import exec_
from fairwarning.cli.fault import fault
from fairwarning.cli.fleet import approve, cancel, cause, clock, events, history, vms
from fairwarning.cli.record import record
from fairwarning.cli.up import up
from fairwarning.cli.walk import walk


class Ordered(click.Group):
    """Lists the commands in the order in which a newcomer meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands as they were added."""
        return list(self.commands)


@click.group(cls=Ordered, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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


for _command in (
    up,
    demo,
    vms,
    events,
    cause,
    approve,
    cancel,
    walk,
    history,
    clock,
    fault,
    exec_,
    check,
    record,
    az_env,
    az_login,
    agent,
    doctor,
):
    cli.add_command(_command)
