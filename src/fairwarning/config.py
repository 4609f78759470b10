"""Settings, read once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType

from fairwarning.core.policy import PROFILES, Profile
from fairwarning.core.scope import Blueprint

DEFAULT_URL = "http://127.0.0.1:8080"
OPERATOR_PORT, METADATA_PORT = 8080, 8100


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a server is told before it starts."""

    blueprints: tuple[Blueprint, ...] = ()
    profile: Profile = PROFILES["azure"]
    manual_clock: bool = False
    azure_timings: bool = False
    data: Path | None = None
    port_base: int | None = None
    operator: tuple[str, int] | None = None
    token: str | None = None
    listen: tuple[tuple[str, int], ...] = ()
    addresses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sockets: Path | None = None

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


def server_token() -> str | None:
    """Return the token the commands show to a server that is not on this machine."""
    return os.environ.get("FAIRWARNING_TOKEN") or None
