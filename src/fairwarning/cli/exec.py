"""The commands that run a program: as if it ran on one of the machines, and the agent."""

import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click

from fairwarning import config
from fairwarning.cli.az import ManagementInfo, management, proxied_environment
from fairwarning.cli.client import MachineInfo, connect, decode
from fairwarning.cli.completion import complete_files, complete_machines
from fairwarning.cli.lookup import suggest_machines
from fairwarning.cli.output import FailureError, print_note
from fairwarning.core.azure.hosts import BUILT_IN_HOSTS
from fairwarning.core.document import snippets

if TYPE_CHECKING:
    from fairwarning.sandbox.addresses import Endpoint
    from fairwarning.sandbox.supervise import SandboxMode

#: How many seconds the management API may take to show its certificate.
_HANDSHAKE_TIMEOUT = 10.0

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
    metavar="MACHINE",
    shell_complete=complete_machines,
    help="The machine to run the program on.",
)
@click.option("--isolate", is_flag=True, help="Use a network with these addresses only.")
@click.option("--azure", is_flag=True, help="Connect Azure's names to the management API (up --arm-names).")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files)
def exec_(name: str | None, isolate: bool, azure: bool, command: tuple[str, ...]) -> None:
    """Run a program with this server in Azure's place.

    With --vm, the program finds the machine's endpoint at 169.254.169.254 and has its host name. With
    --azure, it finds the management API at management.azure.com, is logged in by its environment, and reaches
    no other name through HTTPS. It needs no change and no root (Linux).
    Signals and the exit code are passed on; processes that the program leaves behind are ended with it.

    \b
    Example:
      fairwarning exec --vm web_0 -- python my_handler.py
      fairwarning exec --vm web_0 --isolate -- bash
      fairwarning exec --azure -- ansible-playbook scale-set.yml

    \b
    Exit codes, besides those of the program:
      126  the program cannot be run
      127  the program was not found
    """
    if name is None and not azure:
        raise click.UsageError("name a machine with --vm, or use --azure")
    if isolate and (name is None or azure):
        raise click.UsageError("--isolate needs --vm, and cannot be combined with --azure")
    machine = None if name is None else _find_machine(name)
    if sys.platform != "linux":
        hints = [] if machine is None else [_BY_PORT.format(url=machine.url)]
        raise FailureError("exec works on Linux only", *hints)
    if azure:
        sys.exit(_run_with_names(command, machine))
    if machine is not None:
        sys.exit(_run_on(machine, command, isolate))


@dataclass(frozen=True, slots=True)
class _Machine:
    """A machine with an endpoint of its own."""

    name: str
    host_name: str
    url: str

    @property
    def endpoint(self) -> "Endpoint":
        """The address of the endpoint."""
        from fairwarning.sandbox.addresses import Endpoint

        host, port = _address(self.url, 80)
        try:
            return Endpoint(IPv4Address(socket.gethostbyname(host)), port)
        except (OSError, ValueError) as error:
            raise FailureError(f"the endpoint of {self.name} has no IPv4 address: {self.url}") from error


def _find_machine(name: str) -> _Machine:
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
    return _Machine(machine.name, machine.computer_name or machine.name, machine.metadata)


def _run_on(machine: _Machine, command: tuple[str, ...], isolate: bool) -> int:
    from fairwarning.sandbox.errors import ModeForbiddenError
    from fairwarning.sandbox.isolate import Isolate
    from fairwarning.sandbox.redirect import Redirect

    if isolate:
        try:
            return _run(command, Isolate(machine.endpoint, machine.host_name))
        except ModeForbiddenError as reason:
            print_note(f"{reason}; continuing without --isolate, in the network of this machine")
    try:
        return _run(command, Redirect(machine.endpoint, machine.host_name))
    except ModeForbiddenError as reason:
        hints = [] if isolate else ["--isolate may work: it needs user namespaces instead"]
        raise FailureError(str(reason), *hints, _BY_PORT.format(url=machine.url)) from reason


def _run_with_names(command: tuple[str, ...], machine: _Machine | None) -> int:
    """Run a program with a proxy that connects Azure's names to the management API."""
    from fairwarning.sandbox.errors import ModeForbiddenError
    from fairwarning.sandbox.proxy import ConnectProxy, Proxied
    from fairwarning.sandbox.redirect import Redirect

    server = management()
    _check_certificate(server)
    proxy = ConnectProxy(_address(server.arm, 443), BUILT_IN_HOSTS)
    variables = config.environment(proxied_environment(server, proxy.url))
    mode = None if machine is None else Redirect(machine.endpoint, machine.host_name)
    try:
        return _run(command, Proxied(proxy, mode), variables)
    except ModeForbiddenError as reason:
        raise FailureError(str(reason), "run the program without --vm") from reason
    finally:
        proxy.stop()


def _run(command: tuple[str, ...], mode: "SandboxMode", environment: Mapping[str, str] | None = None) -> int:
    from fairwarning.sandbox.errors import NotStartedError
    from fairwarning.sandbox.supervise import run

    try:
        return run(command, mode, environment)
    except NotStartedError as reason:
        print_note(f"error: {reason}")
        return reason.exit_code


def _check_certificate(server: ManagementInfo) -> None:
    """Fail unless the certificate of the management API is valid for Azure's names."""
    context = ssl.create_default_context(cadata=server.certificate)
    try:
        with socket.create_connection(_address(server.arm, 443), timeout=_HANDSHAKE_TIMEOUT) as connection:
            context.wrap_socket(connection, server_hostname=BUILT_IN_HOSTS[0]).close()
    except ssl.SSLCertVerificationError as problem:
        raise FailureError(
            f"the certificate of the management API is not valid for {BUILT_IN_HOSTS[0]}",
            "start the server with --arm-names",
        ) from problem
    except OSError as problem:
        raise FailureError(f"the management API does not answer at {server.arm}: {problem}") from problem


def _address(url: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or default_port
