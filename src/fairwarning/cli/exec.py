"""The commands that run a program: as if it ran on one of the machines, and the agent."""

import socket
import sys
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click

from fairwarning.cli.client import MachineInfo, connect, decode
from fairwarning.cli.completion import complete_files, complete_machines
from fairwarning.cli.lookup import suggest_machines
from fairwarning.cli.output import FailureError, print_note
from fairwarning.core.document import snippets

if TYPE_CHECKING:
    from fairwarning.sandbox.addresses import Endpoint

_BY_PORT = "make the program connect to {url} instead of http://169.254.169.254"


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def agent(arguments: tuple[str, ...]) -> None:
    """Run the agent: drain this machine, approve, recover.

    \b
    Example:
      fairwarning agent check --config agent.toml
      fairwarning agent run --config agent.toml
    """
    from fairwarning.agent.main import main

    sys.exit(main(arguments, "fairwarning agent"))


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--vm",
    "name",
    required=True,
    metavar="MACHINE",
    shell_complete=complete_machines,
    help="The machine to run the program on.",
)
@click.option("--isolate", is_flag=True, help="Use a network with these addresses only, and the host name.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files)
def exec_(name: str, isolate: bool, command: tuple[str, ...]) -> None:
    """Run a program as if it ran on a machine of the fleet.

    The program finds the machine's endpoint at 169.254.169.254. It needs no change and no root (Linux).
    Signals and the exit code are passed on; processes that the program leaves behind are ended with it.

    \b
    Example:
      fairwarning exec --vm web_0 -- python my_handler.py
      fairwarning exec --vm web_0 --isolate -- bash

    \b
    Exit codes, besides those of the program:
      126  the program cannot be run
      127  the program was not found
    """
    client = connect()
    with suggest_machines(client, [name]):
        machine = decode(client.get(f"/machines/{quote(name, safe='/')}"), MachineInfo)
    client.close()
    if machine.metadata is None:
        raise FailureError(f"machine {machine.name} has no endpoint", "it may be stopped or deleted")
    if (address := snippets.source_address(machine.alternatives)) is not None:
        raise FailureError(
            f"machine {machine.name} has no port of its own: it is known by its address {address}",
            "only the first machines of a data directory have ports; use a new --data directory",
        )
    if sys.platform != "linux":
        raise FailureError("exec works on Linux only", _BY_PORT.format(url=machine.metadata))
    sys.exit(_run(command, machine.name, machine.metadata, isolate))


def _run(command: tuple[str, ...], name: str, url: str, isolate: bool) -> int:
    from fairwarning.sandbox.errors import ModeForbiddenError, NotStartedError
    from fairwarning.sandbox.isolate import Isolate
    from fairwarning.sandbox.redirect import Redirect
    from fairwarning.sandbox.supervise import run

    endpoint = _endpoint(name, url)
    try:
        if isolate:
            try:
                return run(command, Isolate(endpoint, name))
            except ModeForbiddenError as reason:
                print_note(f"{reason}; continuing without --isolate, in the network of this machine")
        return run(command, Redirect(endpoint))
    except NotStartedError as reason:
        print_note(f"error: {reason}")
        return reason.exit_code
    except ModeForbiddenError as reason:
        hints = [] if isolate else ["--isolate may work: it needs user namespaces instead"]
        raise FailureError(str(reason), *hints, _BY_PORT.format(url=url)) from reason


def _endpoint(name: str, url: str) -> "Endpoint":
    from fairwarning.sandbox.addresses import Endpoint

    parts = urlsplit(url)
    try:
        host = IPv4Address(socket.gethostbyname(parts.hostname or ""))
    except (OSError, ValueError) as error:
        raise FailureError(f"the endpoint of {name} has no IPv4 address: {url}") from error
    return Endpoint(host, parts.port or 80)
