"""Settings, read once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.policy import PROFILES, Profile, Retention

if TYPE_CHECKING:
    from fairwarning.core.document.recording import MachineRecording

DEFAULT_URL = "http://127.0.0.1:8080"
OPERATOR_PORT, METADATA_PORT, ARM_PORT = 8080, 8100, 8443
#: How far above the port base the management face listens: beyond the ports that machines have of their own.
ARM_OFFSET = 443
#: How many characters a server's token has at least; fewer could be guessed.
SHORTEST_TOKEN = 16
#: How the user calls the commands: ``./dev`` sets the variable in a checkout.
PROGRAM = os.environ.get("FAIRWARNING_PROGRAM") or "fairwarning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """How many clients operators and tools may have, how long those may take and how much they may send.

    Connections are fewer where descriptors are few. Times are real.
    """

    connections: int = 1000
    #: From the connection, or from the answer before, until the head of a request is complete.
    head: timedelta = timedelta(seconds=10)
    #: From the head until the body is complete.
    body: timedelta = timedelta(seconds=60)
    #: How long an answer waits for a client that does not read.
    unread: timedelta = timedelta(seconds=30)
    #: How much of an incomplete head is kept.
    head_bytes: int = 64 * 1024
    #: How much a client may send from the beginning of a request to the end of its answer.
    request_bytes: int = 8 * 1024 * 1024
    #: Live feeds and pages, each of which takes a connection.
    streams: int = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a server is told before it starts."""

    blueprints: tuple[Blueprint, ...] = ()
    #: What is made where nothing was asked for and nothing was ever kept.
    default_blueprints: tuple[Blueprint, ...] = ()
    profile: Profile = PROFILES["azure"]
    manual_clock: bool = False
    azure_timings: bool = False
    data: Path | None = None
    port_base: int | None = None
    operator: tuple[str, int] | None = None
    #: Where the management face is to listen; None leaves it out.
    arm: tuple[str, int] | None = None
    token: str | None = None
    listen: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None
    limits: ListenerLimits = ListenerLimits()
    #: How much history is kept; None keeps it all.
    retention: Retention | None = None
    #: What is played back to machines, by their names.
    replays: Mapping[str, "MachineRecording"] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def metadata_port(self) -> int:
        """The port before the first machine's; 0 takes any free port."""
        return METADATA_PORT if self.port_base is None else self.port_base

    @property
    def operator_address(self) -> tuple[str, int]:
        """Where the operator API is to listen."""
        if self.operator is not None:
            return self.operator
        return "127.0.0.1", OPERATOR_PORT if self.port_base is None else self.port_base


def arm_address(port_base: int | None) -> tuple[str, int]:
    """Return where the management face listens unless told otherwise."""
    if port_base is None:
        return "127.0.0.1", ARM_PORT
    return "127.0.0.1", port_base and port_base + ARM_OFFSET


def loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def server_url() -> str:
    """Return where the commands find their server."""
    return os.environ.get("FAIRWARNING_URL", DEFAULT_URL).rstrip("/")


def state_directory() -> Path:
    """Return where commands of this user keep what is to outlast them."""
    told = os.environ.get("XDG_STATE_HOME", "")
    state = Path(told) if told.startswith("/") else Path.home() / ".local" / "state"
    return state / "fairwarning"


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that we run, with ``more`` in it."""
    # Without its compiled modules every az call takes seconds longer.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **more}


def holds(variables: Mapping[str, str]) -> bool:
    """Whether the environment has all of these."""
    return all(os.environ.get(name) == value for name, value in variables.items())


def is_token(text: str) -> bool:
    """Whether a text can be sent as a token."""
    return bool(text) and text.isascii() and text.isprintable()


def server_token() -> str | None:
    """Return the token the commands show to a server that is not on this machine."""
    return os.environ.get("FAIRWARNING_TOKEN") or None
