"""The command that runs a program as if it were on one of the machines."""

import socket
import sys
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click

from fairwarning.cli.client import MachineInfo, connect, decode
from fairwarning.cli.output import FailureError, note
from fairwarning.core.document import snippets

if TYPE_CHECKING:
    from fairwarning.sandbox.addresses import Endpoint

_BY_PORT = "let the program connect to {url} instead of http://169.254.169.254"


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--vm", "name", required=True, metavar="MACHINE", help="The machine the program shall be on.")
@click.option("--isolate", is_flag=True, help="A network with these addresses alone, and the host name too.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(name: str, isolate: bool, command: tuple[str, ...]) -> None:
    """Run a program that finds its machine's endpoint at 169.254.169.254.

    The program needs no change, and nobody needs root (Linux). Its signals and its exit code are handed
    through; what it leaves running is ended with it.

    \b
    Example:
      fairwarning exec --vm web_0 -- python my_handler.py
      fairwarning exec --vm web_0 --isolate -- bash

    \b
    Exit codes, beside the program's own:
      126  the program cannot be run
      127  there is no such program
    """
    client = connect()
    machine = decode(client.get(f"/machines/{quote(name, safe='/')}"), MachineInfo)
    client.close()
    if machine.metadata is None:
        raise FailureError(f"machine {machine.name} has no endpoint of its own", "is it stopped, or gone?")
    if (address := snippets.source_address(machine.alternatives)) is not None:
        raise FailureError(
            f"machine {machine.name} has no port of its own: it is known by its address {address}",
            "the first machines of a data directory have ports; a new --data directory begins anew",
        )
    if sys.platform != "linux":
        raise FailureError("exec works on Linux only", _BY_PORT.format(url=machine.metadata))
    sys.exit(_run(command, machine.name, machine.metadata, isolate))


def _run(command: tuple[str, ...], name: str, url: str, isolate: bool) -> int:
    from fairwarning.sandbox.errors import ForbiddenError, NotStartedError
    from fairwarning.sandbox.isolate import Isolate
    from fairwarning.sandbox.redirect import Redirect
    from fairwarning.sandbox.supervise import run

    endpoint = _endpoint(name, url)
    try:
        if isolate:
            try:
                return run(command, Isolate(endpoint, name))
            except ForbiddenError as reason:
                note(f"{reason}; going on without --isolate: the network is this machine's")
        return run(command, Redirect(endpoint))
    except NotStartedError as reason:
        note(f"error: {reason}")
        return reason.exit_code
    except ForbiddenError as reason:
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
