"""Turns the file of ``fairwarning serve`` into the settings of a server.

Everything is checked before anything is opened, and all problems are reported at once. Secrets come from
files of their own that no other user can read; a file whose mode allows that is refused.
"""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, timedelta, tzinfo
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from fairwarning.config import (
    AUTHORITY,
    SHORTEST_TOKEN,
    ListenerLimits,
    ServeSettings,
    Settings,
    TlsSettings,
    is_token,
    loopback,
)
from fairwarning.config.inventory import MachineInventory, read_inventory
from fairwarning.config.operator_file import UnusableFileError
from fairwarning.config.read_file import ConfigError, place, read_file
from fairwarning.config.secret_file import check_readable, read_secret
from fairwarning.config.serve_file import OverdueTable, PostgresTable, ServeFile, SqliteTable
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.policy import (
    DEFAULT_OVERDUE,
    PROFILES,
    STALE_AFTER,
    OverdueLimits,
    Profile,
    Retention,
    check_stale_after,
)
from fairwarning.formats import durations, sizes
from fairwarning.formats.counts import format_count
from fairwarning.formats.suggestions import did_you_mean
from fairwarning.private_directory import UnsafeDirectoryError, open_private_directory

T = TypeVar("T")

#: How long idle connections of guests have for one more request when the server ends; most poll every second.
LINGER = timedelta(seconds=2)

#: The keys that a server generates in the directory of [tls].
GENERATED_KEYS = ("ca-key.pem", "server-key.pem")

_TLS_HINT = "add the table [tls], or plain_http = true if another program terminates TLS"

_PASSWORD = re.compile(r"(?:^|\s)password\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A file that is free of problems, and the settings that follow from it."""

    path: Path
    file: ServeFile
    settings: Settings


def load(path: Path, variables: Mapping[str, str]) -> LoadedFile:
    """Return the settings that a file asks for, without opening a store or a listener.

    Raises:
        ConfigError: the file cannot be used; names every problem.
    """
    file = read_file(path, variables)
    reader = _SettingsReader(file, path.parent)
    settings = reader.settings()
    if reader.problems:
        raise ConfigError(path, reader.problems)
    return LoadedFile(path=path, file=file, settings=settings)


def find_zone(name: str) -> tzinfo:
    """Return a time zone; UTC needs no time zone data.

    Raises:
        ValueError: there is no such zone, or this machine has no time zone data.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    known = available_timezones()
    if not known:
        raise ValueError(f"{name!r} cannot be looked up: install tzdata, the time zone data")
    if name not in known:
        raise ValueError(f"unknown time zone {name!r}{did_you_mean(name, known)}")
    return ZoneInfo(name)


class _SettingsReader:
    """Reads the tables one by one, and collects the problems."""

    def __init__(self, file: ServeFile, folder: Path) -> None:
        self._file = file
        self._folder = folder
        self.problems: list[str] = []

    def settings(self) -> Settings:
        """Return the settings; they are incomplete if there are problems."""
        file = self._file
        store = file.store
        operator = self._address("operator", "listen", file.operator.listen)
        token = self._token("operator", file.operator.token_file)
        self._check_access("operator", operator, token)
        management = None
        if file.management is not None:
            management = self._address("management", "listen", file.management.listen)
        inventory = read_inventory(file, self._folder)
        self.problems += inventory.problems
        return Settings(
            profile=self._profile(),
            driver=file.driver,
            zone=self._parsed(find_zone, "", "zone", file.zone) or UTC,
            overdue=self._overdue(),
            data=self._path(store.path) if isinstance(store, SqliteTable) else None,
            stale_after=self._stale_after(store) if isinstance(store, PostgresTable) else STALE_AFTER,
            operator=operator,
            arm=management,
            token=token,
            listen=tuple(self._metadata_listeners(inventory)),
            sockets=self._path(file.metadata.sockets) if file.metadata and file.metadata.sockets else None,
            limits=self._limits(),
            linger=LINGER,
            retention=self._retention(),
            serve=self._serve_settings(inventory, operator, management, self._status(token)),
        )

    def _status(self, token: str | None) -> tuple[str, int]:
        table = self._file.workers
        status = self._address("workers", "status", table.status)
        if not loopback(status[0]) and (token is None or not table.plain_http):
            needed = "plain_http = true, and a token in [operator]"
            self._complain("workers", "status", f"{status[0]} is not loopback: this needs {needed}")
        return status

    def _serve_settings(
        self,
        inventory: MachineInventory,
        operator: tuple[str, int],
        management: tuple[str, int] | None,
        status: tuple[str, int],
    ) -> ServeSettings:
        file = self._file
        store = file.store
        tls = self._tls()
        operator_tls = tls is not None and not file.operator.plain_http
        if not loopback(operator[0]) and not operator_tls and not file.operator.plain_http:
            self._complain("operator", "listen", f"{operator[0]} is not loopback and has no TLS: {_TLS_HINT}")
        secret = None
        if file.management is not None and management is not None:
            secret = self._token("management", file.management.token_file)
            self._check_access("management", management, secret)
            if tls is None and isinstance(store, SqliteTable):
                self._check_keys("store", "path", self._path(store.path) / AUTHORITY)
            elif tls is None:
                self._complain("management", "", "needs the table [tls]")
        return ServeSettings(
            node=file.node.name or socket.gethostname(),
            dsn=self._dsn(store) if isinstance(store, PostgresTable) else None,
            migrate=isinstance(store, PostgresTable) and store.migrate,
            inventory=inventory.scopes,
            inventory_version=inventory.version,
            budgets=inventory.budgets,
            labels=inventory.labels,
            replaces=file.inventory.replaces,
            remove_most=file.inventory.remove_most,
            guests=inventory.addresses,
            management_token=secret,
            tls=tls,
            operator_tls=operator_tls,
            status=status,
        )

    def _profile(self) -> Profile:
        metadata = self._file.metadata
        azure = PROFILES["azure"]
        azure = replace(azure, policy=replace(azure.policy, emulator=False))
        if metadata is None:
            return azure
        if metadata.identity_tokens and self._file.management is None:
            self._complain("metadata", "identity_tokens", "needs the table [management]")
        return replace(
            azure,
            requests_per_second=metadata.requests_per_second,
            burst=metadata.burst,
            identity_tokens=metadata.identity_tokens,
        )

    def _metadata_listeners(self, inventory: MachineInventory) -> Iterator[tuple[str, int]]:
        metadata = self._file.metadata
        if metadata is None:
            return
        if not metadata.listen and not metadata.sockets:
            self._complain("metadata", "", "has neither listen nor sockets")
        if metadata.listen and not inventory.addresses:
            self._complain("metadata", "listen", "no machine has an address, so no guest is known")
        for text in metadata.listen:
            yield self._address("metadata", "listen", text)

    def _retention(self) -> Retention | None:
        table = self._file.retention
        age = self._duration("retention", "age", table.age) if table.age else None
        size = self._size("retention", "size", table.size) if table.size else None
        return None if age is None and size is None else Retention(age=age, size=size)

    def _overdue(self) -> OverdueLimits:
        table = self._file.overdue
        if table != OverdueTable() and self._file.driver != "external":
            self._complain("overdue", "", 'needs driver = "external": simulated impacts end by themselves')
        texts: dict[str, str] = msgspec.to_builtins(table)
        limits: dict[str, timedelta] = {}
        for key, text in texts.items():
            limit = self._parsed(durations.parse, "overdue", key, text) if text or key == "default" else None
            if limit is not None:
                limits[key] = limit
                if not limit:
                    self._complain("overdue", key, "must be longer than zero")
        default = limits.pop("default", DEFAULT_OVERDUE.default)
        return OverdueLimits(default=default, by_cause=limits)

    def _limits(self) -> ListenerLimits:
        table = self._file.limits
        return ListenerLimits(
            connections=table.connections,
            streams=table.streams,
            request_bytes=self._size("limits", "request_size", table.request_size),
            head=self._duration("limits", "head_timeout", table.head_timeout),
            body=self._duration("limits", "body_timeout", table.body_timeout),
            unread=self._duration("limits", "unread_timeout", table.unread_timeout),
            grace=self._duration("limits", "stop_timeout", table.stop_timeout),
        )

    def _tls(self) -> TlsSettings | None:
        table = self._file.tls
        if table is None:
            return None
        if bool(table.certificate) != bool(table.key):
            self._complain("tls", "", "certificate and key belong together")
        if bool(table.certificate) == bool(table.directory):
            self._complain("tls", "", "needs either certificate and key, or directory")
        for key, text in (("certificate", table.certificate), ("key", table.key)):
            if text:
                with self._complaints("tls", key):
                    check_readable(self._path(text), secret=key == "key")
        if table.directory:
            self._check_keys("tls", "directory", self._path(table.directory))
        return TlsSettings(
            certificate=self._path(table.certificate) if table.certificate else None,
            key=self._path(table.key) if table.key else None,
            directory=self._path(table.directory) if table.directory else None,
            names=tuple(table.names),
        )

    def _check_keys(self, table: str, key: str, directory: Path) -> None:
        """Check the directory of a generated authority, if it exists."""
        if not os.path.lexists(directory):
            return
        with self._complaints(table, key), open_private_directory(directory):
            for path in (directory / name for name in GENERATED_KEYS):
                with self._complaints(table, key):
                    if os.path.exists(path):
                        check_readable(path, secret=True)

    def _dsn(self, table: PostgresTable) -> str:
        if bool(table.dsn) == bool(table.dsn_file):
            self._complain("store", "", "needs either dsn or dsn_file")
        if table.dsn_file:
            return self._secret("store", "dsn_file", self._path(table.dsn_file))
        if _has_password(table.dsn):
            self._complain(
                "store", "dsn", "contains a password: put the DSN into a file, and name it in dsn_file"
            )
        return table.dsn

    def _stale_after(self, table: PostgresTable) -> timedelta:
        try:
            return check_stale_after(parse_duration(table.stale_after, "stale_after"))
        except InvalidError as problem:
            self._complain("store", "stale_after", problem.problem)
            return STALE_AFTER

    def _token(self, table: str, text: str) -> str | None:
        """Return the token in a file; None if no file is named."""
        if not text:
            return None
        path = self._path(text)
        token = self._secret(table, "token_file", path)
        if token and not is_token(token):
            self._complain(
                table, "token_file", f"{path} does not contain one line of printable ASCII characters"
            )
        elif token and len(token) < SHORTEST_TOKEN:
            length = format_count(len(token), "character")
            self._complain(
                table, "token_file", f"the token in {path} has {length}; it needs at least {SHORTEST_TOKEN}"
            )
        return token

    def _check_access(self, table: str, address: tuple[str, int], token: str | None) -> None:
        if token is None and not loopback(address[0]):
            self._complain(table, "token_file", f"is required, because {address[0]} is not loopback")

    def _secret(self, table: str, key: str, path: Path) -> str:
        """Return the secret in a file that only its owner may read."""
        with self._complaints(table, key):
            return read_secret(path)
        return ""

    @contextmanager
    def _complaints(self, table: str, key: str) -> Iterator[None]:
        """Collect what is wrong with a file that the block reads."""
        try:
            yield
        except (UnusableFileError, UnsafeDirectoryError) as problem:
            self._complain(table, key, str(problem))

    def _address(self, table: str, key: str, text: str) -> tuple[str, int]:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            self._complain(table, key, f"invalid address {text!r} (expected e.g. 127.0.0.1:8080)")
            return "127.0.0.1", 0
        return host.strip("[]"), int(port)

    def _duration(self, table: str, key: str, text: str) -> timedelta:
        return self._parsed(durations.parse, table, key, text) or timedelta(0)

    def _size(self, table: str, key: str, text: str) -> int:
        return self._parsed(sizes.parse, table, key, text) or 0

    def _parsed(self, parse: Callable[[str], T], table: str, key: str, text: str) -> T | None:
        try:
            return parse(text)
        except ValueError as problem:
            self._complain(table, key, str(problem))
            return None

    def _complain(self, table: str, key: str, problem: str) -> None:
        self.problems.append(f"{place(table, key)}: {problem}")

    def _path(self, text: str) -> Path:
        return self._folder / text


def _has_password(dsn: str) -> bool:
    if "://" in dsn:
        parts = urlsplit(dsn)
        return parts.password is not None or "password=" in parts.query
    return _PASSWORD.search(dsn) is not None
