"""The settings of a server, and the environment variables that commands read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import InvalidError
from fairwarning.core.policy import (
    DEFAULT_OVERDUE,
    PROFILES,
    STALE_AFTER,
    OverdueLimits,
    Profile,
    Retention,
)
from fairwarning.formats.counts import format_count

if TYPE_CHECKING:
    from fairwarning.core.document.recording import MachineRecording
    from fairwarning.core.inventory import InventoryScope, InventoryVersion
    from fairwarning.core.maintenance.values import HostLabels, MaintenanceBudget
    from fairwarning.core.model import MachineRef
    from fairwarning.service_manager import ServiceManager

DEFAULT_URL = "http://127.0.0.1:8080"
OPERATOR_PORT, METADATA_PORT, ARM_PORT, STATUS_PORT = 8080, 8100, 8443, 9464
#: The management API listens this far above the port base, beyond the ports of machines.
ARM_OFFSET = 443
#: The minimum length of a server's token; a shorter token could be guessed.
SHORTEST_TOKEN = 16
#: Where a generated authority is kept, below the directory of the data.
AUTHORITY = "arm"
#: What can act on machines.
DRIVERS = "simulated", "external"
#: The variables that replace the options --log-level and --log-format of ``up``.
LOG_LEVEL_VARIABLE, LOG_FORMAT_VARIABLE = "FAIRWARNING_LOG_LEVEL", "FAIRWARNING_LOG_FORMAT"
#: The variable that replaces the option --machine-host of ``up``; the container image sets it.
MACHINE_HOST_VARIABLE = "FAIRWARNING_MACHINE_HOST"
#: The variable that is used if no option of ``db`` names a database.
DSN_FILE_VARIABLE = "FAIRWARNING_DSN_FILE"
#: What a supervisor tells a worker.
WORKER_VARIABLE = "FAIRWARNING_WORKER"
#: How the user calls the commands: ``./dev`` sets the variable in a checkout.
PROGRAM = os.environ.get("FAIRWARNING_PROGRAM") or "fairwarning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Limits of the operator and the management API: connections, time and bytes.

    A process with few file descriptors gets fewer connections. Times are real time.
    """

    connections: int = 1000
    #: Connections from one address (IPv6: one /64), and at most half of all; loopback has no such limit.
    per_address: int = 100
    #: From the connection, or from the previous response, to the complete head of a request.
    head: timedelta = timedelta(seconds=10)
    #: From the head to the complete body.
    body: timedelta = timedelta(seconds=60)
    #: How long a response waits for a client that does not read.
    unread: timedelta = timedelta(seconds=30)
    #: The largest head of a request.
    head_bytes: int = 64 * 1024
    #: How much a client may send from the start of a request to the end of its response.
    request_bytes: int = 8 * 1024 * 1024
    #: Requests that may wait behind the request that is being answered on the same connection.
    pipelined: int = 16
    #: Live feeds and console pages; each holds a connection.
    streams: int = 250
    #: How long requests under way may take when the server closes.
    grace: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The certificates of the operator and the management API: files, or a generated authority."""

    certificate: Path | None = None
    key: Path | None = None
    #: Where the generated authority is kept, if there are no files.
    directory: Path | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings that only ``fairwarning serve`` has."""

    node: str
    inventory_version: "InventoryVersion"
    budgets: "tuple[MaintenanceBudget, ...]"
    labels: "HostLabels"
    #: The PostgreSQL database; None if the data is in a directory.
    dsn: str | None = field(default=None, repr=False)
    migrate: bool = False
    inventory: "tuple[InventoryScope, ...]" = ()
    #: The version of a newer inventory that this one replaces on purpose.
    replaces: str = ""
    #: Whether an inventory that lacks most of the machines removes them.
    remove_most: bool = False
    #: The machine at each source address that a guest may call from.
    guests: "Mapping[str, MachineRef]" = field(default_factory=lambda: MappingProxyType({}))
    #: The secret of clients of the management API.
    management_token: str | None = field(default=None, repr=False)
    tls: TlsSettings | None = None
    operator_tls: bool = False
    #: Where the supervisor of several workers answers.
    status: tuple[str, int] = ("127.0.0.1", STATUS_PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server."""

    blueprints: tuple[Blueprint, ...] = ()
    #: Created as well if nothing was ever stored.
    default_blueprints: tuple[Blueprint, ...] = ()
    profile: Profile = PROFILES["azure"]
    manual_clock: bool = False
    azure_timings: bool = False
    driver: str = "simulated"
    #: The time zone in which operators write instants.
    zone: tzinfo = UTC
    #: When impacts of the external driver are overdue.
    overdue: OverdueLimits = DEFAULT_OVERDUE
    data: Path | None = None
    #: How long guests are answered without news from a database that several nodes share.
    stale_after: timedelta = STALE_AFTER
    port_base: int | None = None
    #: The address of the ports of machines.
    machine_host: str = "127.0.0.1"
    operator: tuple[str, int] | None = None
    #: The address of the management API; None leaves it out.
    arm: tuple[str, int] | None = None
    #: More names that the certificate of the management API is valid for.
    arm_names: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    listen: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None
    limits: ListenerLimits = ListenerLimits()
    #: How long idle connections of guests have for one more request when the server closes.
    linger: timedelta = timedelta()
    #: How much history is kept; None keeps all of it.
    retention: Retention | None = None
    #: Recordings to replay, by the name of the machine that sees them.
    replays: Mapping[str, "MachineRecording"] = field(default_factory=lambda: MappingProxyType({}))
    #: None for the emulator.
    serve: ServeSettings | None = None

    @property
    def management_token(self) -> str | None:
        """The secret that clients of the management API send to get tokens."""
        return self.token if self.serve is None else self.serve.management_token

    @property
    def metadata_port(self) -> int:
        """The port below the first machine's port; 0 takes free ports."""
        return METADATA_PORT if self.port_base is None else self.port_base

    @property
    def operator_address(self) -> tuple[str, int]:
        """The address at which the operator API listens."""
        if self.operator is not None:
            return self.operator
        return "127.0.0.1", OPERATOR_PORT if self.port_base is None else self.port_base


def arm_address(port_base: int | None) -> tuple[str, int]:
    """Return the default address of the management API."""
    if port_base is None:
        return "127.0.0.1", ARM_PORT
    return "127.0.0.1", port_base and port_base + ARM_OFFSET


def loopback(host: str) -> bool:
    """Whether ``host`` is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def default_dsn_file() -> Path | None:
    """Return the file with the address of the database that the environment names."""
    text = os.environ.get(DSN_FILE_VARIABLE)
    return Path(text) if text else None


def server_url() -> str:
    """Return the URL of the server that commands call."""
    return os.environ.get("FAIRWARNING_URL", DEFAULT_URL).rstrip("/")


def state_directory() -> Path:
    """Return the directory in which commands of this user keep their state."""
    path = os.environ.get("XDG_STATE_HOME", "")
    state = Path(path) if path.startswith("/") else Path.home() / ".local" / "state"
    return state / "fairwarning"


def service_manager() -> "ServiceManager":
    """Return the service manager that has started this process."""
    from fairwarning.service_manager import ServiceManager

    return ServiceManager(os.environ)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process: this process's, plus ``more``."""
    # Without compiled modules, every az call takes seconds longer.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **more}


def worker_assignment() -> str | None:
    """Return what the supervisor has assigned to this process; None if this process is not a worker."""
    return os.environ.get(WORKER_VARIABLE)


def variables() -> Mapping[str, str]:
    """Return the environment of this process."""
    return MappingProxyType(os.environ)


def holds(variables: Mapping[str, str]) -> bool:
    """Whether the environment has all of these variables with these values."""
    return all(os.environ.get(name) == value for name, value in variables.items())


def is_token(text: str) -> bool:
    """Whether a text can be sent as a bearer token."""
    return bool(text) and text.isascii() and text.isprintable()


def server_ca() -> str | None:
    """Return the file with the certificates that commands trust; None to trust those of the system."""
    return os.environ.get("FAIRWARNING_CA", "").strip() or None


def server_token() -> str | None:
    """Return the token that commands send to the server.

    Raises:
        UnusableFileError: the file with the token cannot be used.
    """
    if token := os.environ.get("FAIRWARNING_TOKEN", "").strip():
        return token
    if path := os.environ.get("FAIRWARNING_TOKEN_FILE", "").strip():
        from fairwarning.config.secret_file import read_secret

        return read_secret(Path(path))
    return None


def check_token(api: str, address: tuple[str, int] | None, token: str | None) -> None:
    """Raise ``InvalidError`` unless a token is long enough, and given where strangers reach the address."""
    if address is not None and not loopback(address[0]) and token is None:
        raise InvalidError("token", f"a token is required to serve {api} on {address[0]}")
    if token is not None and len(token) < SHORTEST_TOKEN:
        length = format_count(len(token), "character")
        raise InvalidError("token", f"has {length}; it needs at least {SHORTEST_TOKEN}")
