"""The commands that point the real ``az`` at a running server, in a configuration of its own."""

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
from fairwarning.cli.client import connect, decode
from fairwarning.cli.output import FailureError, note

CLOUD = "fairwarning"
CA = "ca.pem"
#: What a server listens on that listens everywhere; nobody can call it by that.
EVERYWHERE = frozenset({"0.0.0.0", "::"})
#: What a service principal shows to a server that asks for nothing.
ANY_SECRET = "dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementInfo:
    """Where the management API is."""

    arm: str
    certificate: str
    tenant: str


@click.command("az-env")
def az_env() -> None:
    """Print what makes az in this shell talk to the server, and to nothing else.

    The configuration of az that it names is private: your own, with your own logins, is never touched.

    \b
    Example:
      fairwarning az-env
      eval "$(fairwarning az-env)"
    """
    for name, value in environment(_management()).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@click.command("az-login")
def az_login() -> None:
    """Log az in to the server, in the configuration that az-env names.

    Needs az on the PATH. Once is enough: a server that is started again at the same address with the same
    --data knows az by itself.

    \b
    Example:
      fairwarning az-login
      eval "$(fairwarning az-env)"
      az group list
    """
    az = shutil.which("az")
    if az is None:
        raise FailureError("az is not on the PATH", "install azure-cli, or put its folder on the PATH")
    face = _management()
    variables = environment(face)
    known = _run([az, "cloud", "show", "--name", CLOUD], variables).returncode == 0
    _must([az, "cloud", "update" if known else "register", "--name", CLOUD, *_places(face)], variables)
    _must([az, "cloud", "set", "--name", CLOUD], variables)
    words = ["login", "--service-principal", "--username", "dev", "--tenant", face.tenant, "--output", "none"]
    # Everybody can read the command line of a program; only its owner can read this file.
    with tempfile.NamedTemporaryFile("w", dir=variables["AZURE_CONFIG_DIR"]) as secret:
        secret.write(config.server_token() or ANY_SECRET)
        secret.flush()
        _must([az, *words, f"--password=@{secret.name}"], variables)
    note(f"az is logged in to {face.arm}")
    if not config.holds(variables):
        note('in this shell it is not used yet: eval "$(fairwarning az-env)"')


def environment(face: ManagementInfo) -> dict[str, str]:
    """Return the variables that point az at a server; writes down whom it is to trust there."""
    folder = config.state_directory() / "az" / re.sub(r"[^\w.]+", "-", urlsplit(face.arm).netloc).strip("-")
    ca = folder / CA
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not ca.exists() or ca.read_text() != face.certificate:
            _settle(folder, face.certificate)
    except OSError as problem:
        raise FailureError(
            f"{folder} cannot be written: {problem.strerror}", "set XDG_STATE_HOME"
        ) from problem
    return {
        "AZURE_CONFIG_DIR": str(folder),
        # This replaces the list az comes with, so that it cannot reach Azure itself by mistake.
        "REQUESTS_CA_BUNDLE": str(ca),
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_DISPLAY_REGION_IDENTIFIED": "false",
        "AZURE_CORE_NO_COLOR": "true",
        "FAIRWARNING_ARM_URL": face.arm,
    }


def _management() -> ManagementInfo:
    client = connect()
    face = decode(client.get("/arm"), ManagementInfo)
    return replace(face, arm=_reachable(face.arm, client.url))


def _reachable(url: str, server: str) -> str:
    """Return the address of the management API; if that is everywhere, where the operator API was found."""
    parts = urlsplit(url)
    if parts.hostname not in EVERYWHERE:
        return url
    host = urlsplit(server).hostname or "127.0.0.1"
    return f"https://[{host}]:{parts.port}" if ":" in host else f"https://{host}:{parts.port}"


def _settle(folder: Path, certificate: str) -> None:
    """Write down whom az is to trust from now on, and forget the tokens of whom it trusted before."""
    # Few commands of az fetch a new token when theirs is refused; without one all of them do.
    for tokens in folder.glob("msal_token_cache.*"):
        tokens.unlink()
    half = folder / ".ca.pem.new"
    half.write_text(certificate)
    half.replace(folder / CA)


def _places(face: ManagementInfo) -> Sequence[str]:
    # Older versions of az do not learn the place of the aliases by themselves.
    aliases = f"{face.arm}/aliases.json"
    return "--endpoint-resource-manager", face.arm, "--endpoint-vm-image-alias-doc", aliases


def _run(words: Sequence[str], variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, env=config.environment(variables), capture_output=True, text=True)


def _must(words: Sequence[str], variables: Mapping[str, str]) -> None:
    done = _run(words, variables)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise FailureError(f"az {' '.join(words[1:3])} failed: {said[-1]}", *said[:-1][-3:])
