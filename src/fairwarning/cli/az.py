"""The commands that point ``az`` at a running server, with a configuration directory of its own."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from fairwarning import config
from fairwarning.cli.client import OperatorRefusalError, connect, decode, server_token
from fairwarning.cli.output import FailureError, print_note
from fairwarning.config import PROGRAM

CLOUD = "fairwarning"
CA = "ca.pem"
#: Wildcard addresses: a server listens on them, but a client cannot connect to them.
WILDCARDS = frozenset({"0.0.0.0", "::"})
#: The name of the service principal, and its secret where the server has no token. Earlier releases of az
#: take a secret that is the name of a file for a certificate, and a checkout of this project has a file dev.
CLIENT, ANY_SECRET = "dev", "any-secret"
#: What a program reaches without the proxy: this machine, and the addresses of the metadata API.
_NO_PROXY = "127.0.0.1,localhost,::1,169.254.169.254,168.63.129.16"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementInfo:
    """The address of the management API, and what az needs to trust it."""

    arm: str
    certificate: str
    tenant: str
    subscription: str


@click.command("az-env")
def az_env() -> None:
    """Print shell variables that point az at the server.

    They name a private configuration directory for az: your own configuration and logins are not touched.

    \b
    Example:
      fairwarning az-env
      eval "$(fairwarning az-env)"
    """
    for name, value in environment(management()).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@click.command("az-login")
def az_login() -> None:
    """Log az in to the server.

    The login is stored in the configuration directory that az-env names. It stays valid for a server that is
    started again at the same address with the same --data. Needs az on the PATH.

    \b
    Example:
      fairwarning az-login
      eval "$(fairwarning az-env)"
      az group list
    """
    az = shutil.which("az")
    if az is None:
        raise FailureError("az is not on the PATH", "install azure-cli, or put its folder on the PATH")
    server = management()
    variables = environment(server)
    known = _run([az, "cloud", "show", "--name", CLOUD], variables).returncode == 0
    _must([az, "cloud", "update" if known else "register", "--name", CLOUD, *_endpoints(server)], variables)
    _must([az, "cloud", "set", "--name", CLOUD], variables)
    login = [
        "login",
        "--service-principal",
        "--username",
        CLIENT,
        "--tenant",
        server.tenant,
        "--output",
        "none",
    ]
    # All users can read the command line of a process; only its owner can read this file.
    with tempfile.NamedTemporaryFile("w", dir=variables["AZURE_CONFIG_DIR"]) as secret:
        secret.write(server_token() or ANY_SECRET)
        secret.flush()
        _must([az, *login, f"--password=@{secret.name}"], variables)
    print_note(f"az is logged in to {server.arm}")
    if not config.holds(variables):
        print_note(f'to use it in this shell: eval "$({PROGRAM} az-env)"')


def environment(server: ManagementInfo) -> dict[str, str]:
    """Return the variables that point az at a server; stores the certificate that az has to trust."""
    folder = config.state_directory() / "az" / re.sub(r"[^\w.]+", "-", urlsplit(server.arm).netloc).strip("-")
    ca = folder / CA
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not ca.exists() or ca.read_text() != server.certificate:
            _trust(folder, server.certificate)
    except OSError as problem:
        raise FailureError(
            f"{folder} cannot be written: {problem.strerror}", "set XDG_STATE_HOME"
        ) from problem
    return {
        "AZURE_CONFIG_DIR": str(folder),
        # The first two replace the certificates that az and Python come with, so that neither can reach Azure
        # by mistake; Node has no such variable, only one that adds to its own.
        "REQUESTS_CA_BUNDLE": str(ca),
        "SSL_CERT_FILE": str(ca),
        "NODE_EXTRA_CA_CERTS": str(ca),
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_DISPLAY_REGION_IDENTIFIED": "false",
        "AZURE_CORE_NO_COLOR": "true",
        "FAIRWARNING_ARM_URL": server.arm,
    }


def proxied_environment(server: ManagementInfo, proxy: str) -> dict[str, str]:
    """Return the variables of a program that has Azure's names built in: proxy, certificates and login."""
    variables = environment(server)
    secret = server_token() or ANY_SECRET
    return {
        **variables,
        "CURL_CA_BUNDLE": variables["SSL_CERT_FILE"],
        "HTTPS_PROXY": proxy,
        "https_proxy": proxy,
        "NO_PROXY": _NO_PROXY,
        "no_proxy": _NO_PROXY,
        "NODE_USE_ENV_PROXY": "1",
        # The SDKs, cloud-custodian; Ansible has names of its own for two of them.
        "AZURE_SUBSCRIPTION_ID": server.subscription,
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_TENANT_ID": server.tenant,
        "AZURE_TENANT": server.tenant,
        "AZURE_CLIENT_SECRET": secret,
        "AZURE_SECRET": secret,
    }


def management() -> ManagementInfo:
    """Return the management API of the running server."""
    client = connect()
    try:
        server = decode(client.get("/arm"), ManagementInfo)
    except OperatorRefusalError as refusal:
        if refusal.status != 404:
            raise
        raise FailureError(refusal.message, "start the server without --no-arm") from refusal
    return replace(server, arm=_reachable(server.arm, client.url))


def _reachable(url: str, server: str) -> str:
    """Return the address of the management API; a wildcard is replaced by the host of the operator API."""
    parts = urlsplit(url)
    if parts.hostname not in WILDCARDS:
        return url
    host = urlsplit(server).hostname or "127.0.0.1"
    return f"https://[{host}]:{parts.port}" if ":" in host else f"https://{host}:{parts.port}"


def _trust(folder: Path, certificate: str) -> None:
    """Store the certificate that az has to trust, and delete the tokens of the previous server."""
    # Few commands of az fetch a new token when theirs is refused; without a token all of them do.
    for tokens in folder.glob("msal_token_cache.*"):
        tokens.unlink()
    half = folder / ".ca.pem.new"
    half.write_text(certificate)
    half.replace(folder / CA)


def _endpoints(server: ManagementInfo) -> Sequence[str]:
    # Older versions of az do not discover the aliases.
    aliases = f"{server.arm}/aliases.json"
    return "--endpoint-resource-manager", server.arm, "--endpoint-vm-image-alias-doc", aliases


def _run(command: Sequence[str], variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=config.environment(variables), capture_output=True, text=True)


def _must(command: Sequence[str], variables: Mapping[str, str]) -> None:
    done = _run(command, variables)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise FailureError(f"az {' '.join(command[1:3])} failed: {lines[-1]}", *lines[:-1][-3:])
