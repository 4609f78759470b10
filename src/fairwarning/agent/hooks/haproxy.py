"""The haproxy hook: drains this machine's server and makes it ready again, through the runtime socket."""

import csv
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, Self

from fairwarning.agent.hooks.hook import UNREPORTED, HookContext, HookOutcome, Now, dry_run_outcome, time_left
from fairwarning.agent.hooks.options import Options, SettingsError
from fairwarning.formats.durations import for_people

Verb = Literal["drain", "ready"]

DEFAULT_SOCKET: Final = "/run/haproxy/admin.sock"
OURS: Final = "drained by us"
FOUND: Final = "found drained"

#: Bits of srv_admin_state: maintenance, which this hook never sets, and drain, which it may have set.
MAINTENANCE: Final = 0x01
DRAINED: Final = 0x08
POLL_INTERVAL: Final = timedelta(milliseconds=200)
#: An answer is read in chunks of this size, at most this many.
CHUNK: Final = 65_536
MAX_CHUNKS: Final = 1_000


class HAProxyError(Exception):
    """HAProxy rejected a command; the text is the message of the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HAProxy:
    """One server of one backend, and the socket of its HAProxy."""

    verb: Verb
    server: str
    socket: str
    wait: timedelta

    @classmethod
    def parse(cls, given: object, environment: Mapping[str, str]) -> Self:
        """Return the hook for ``{drain = "BACKEND/SERVER"}`` or ``{ready = …}``."""
        options = Options("haproxy", given, ("drain", "ready", "socket", "wait"))
        verb: Verb = "drain" if options.one_of("drain", "ready") == "drain" else "ready"
        server = options.needed(verb)
        backend, slash, name = server.partition("/")
        if not (backend and slash and name) or any(sign in " ;\n\\" for sign in server):
            raise SettingsError(options.field(verb), f"{server!r} is not BACKEND/SERVER")
        address = options.text("socket") or DEFAULT_SOCKET
        if not address.startswith("/") and not address.rpartition(":")[2].isdecimal():
            raise SettingsError(options.field("socket"), f"{address!r} is neither a path nor HOST:PORT")
        return cls(verb=verb, server=server, socket=address, wait=options.duration("wait", timedelta(0)))

    @property
    def name(self) -> str:
        """The server and the socket."""
        return f"haproxy {self.server} {self.socket}"

    def describe(self) -> str:
        """Return what the hook does to the server."""
        if self.verb == "ready":
            return f"make {self.server} ready at {self.socket} if the agent drained it"
        wait = f" and wait up to {for_people(self.wait)} for its sessions" if self.wait else ""
        return f"drain {self.server} at {self.socket}{wait}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return None

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Drain the server unless it is out of rotation; make it ready only if the agent drained it."""
        if context.dry_run:
            return dry_run_outcome(self)
        runtime = _RuntimeSocket(self.socket, time_left(context, now))
        try:
            if self.verb == "ready":
                return self._ready(runtime, remembered)
            return self._drain(runtime, remembered, min(self.wait, time_left(context, now)))
        except (HAProxyError, OSError) as problem:
            return HookOutcome(False, f"haproxy at {self.socket}: {problem}", remembered)

    def _drain(self, runtime: "_RuntimeSocket", remembered: str | None, wait: timedelta) -> HookOutcome:
        state = self._state(runtime)
        if state & MAINTENANCE or (state & DRAINED and remembered not in (OURS, UNREPORTED)):
            return HookOutcome(True, f"{self.server} was out of rotation already", FOUND)
        runtime.execute(f"set server {self.server} state drain")
        try:
            left = self._sessions_after(runtime, wait)
        except (HAProxyError, OSError) as problem:
            # The server is drained, so the token must say that the agent drained it.
            return HookOutcome(False, f"{self.server} is drained, its sessions are unknown: {problem}", OURS)
        return HookOutcome(
            True, f"{self.server} is drained" + (f"; sessions left: {left}" if left else ""), OURS
        )

    def _ready(self, runtime: "_RuntimeSocket", remembered: str | None) -> HookOutcome:
        if remembered not in (OURS, UNREPORTED):
            return HookOutcome(True, f"{self.server} was not drained by the agent; left as it is")
        if self._state(runtime) & MAINTENANCE:
            return HookOutcome(True, f"{self.server} is in maintenance by now; left as it is")
        runtime.execute(f"set server {self.server} state ready")
        return HookOutcome(True, f"{self.server} is ready")

    def _state(self, runtime: "_RuntimeSocket") -> int:
        return admin_state(runtime.query(f"show servers state {self._backend}"), self.server)

    def _sessions_after(self, runtime: "_RuntimeSocket", wait: timedelta) -> int:
        """Wait until the server has no sessions, at most for ``wait``; return how many are left."""
        pause = threading.Event()
        for _ in range(wait // POLL_INTERVAL):
            if not sessions(runtime.query(f"show stat {self._backend} 4 -1"), self.server):
                return 0
            pause.wait(POLL_INTERVAL.total_seconds())
        return sessions(runtime.query(f"show stat {self._backend} 4 -1"), self.server)

    @property
    def _backend(self) -> str:
        return self.server.partition("/")[0]


class _RuntimeSocket:
    """The runtime socket; HAProxy answers one command per connection."""

    def __init__(self, address: str, timeout: timedelta) -> None:
        self._address = address
        self._seconds = min(timeout, timedelta(seconds=10)).total_seconds()

    def query(self, command: str) -> str:
        """Send a command and return the answer."""
        with self._connect() as connection:
            connection.sendall(f"{command}\n".encode())
            answer = b""
            for _ in range(MAX_CHUNKS):
                chunk = connection.recv(CHUNK)
                if not chunk:
                    break
                answer += chunk
        return answer.decode(errors="replace").strip()

    def execute(self, command: str) -> None:
        """Send a command that succeeds with an empty answer.

        Raises:
            HAProxyError: the answer is not empty.
        """
        if answer := self.query(command):
            raise HAProxyError(f"{command!r} was answered with {answer[:200]!r}")

    def _connect(self) -> socket.socket:
        if not self._address.startswith("/"):
            host, _, port = self._address.rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), self._seconds)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._seconds)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection


def admin_state(answer: str, server: str) -> int:
    """Return the administrative state of a server from the answer to ``show servers state``.

    Raises:
        HAProxyError: the server is not in the answer.
    """
    head, rows = _table(answer, " ")
    for row in rows:
        columns = dict(zip(head, row, strict=False))
        if f"{columns.get('be_name')}/{columns.get('srv_name')}" == server:
            return int(columns.get("srv_admin_state", "0"))
    raise HAProxyError(f"server {server} not found: {answer[:200]!r}")


def sessions(answer: str, server: str) -> int:
    """Return the number of a server's sessions from the answer to ``show stat``."""
    head, rows = _table(answer, ",")
    for row in rows:
        columns = dict(zip(head, row, strict=False))
        if f"{columns.get('pxname')}/{columns.get('svname')}" == server:
            return int(columns.get("scur") or 0) + int(columns.get("qcur") or 0)
    raise HAProxyError(f"server {server} not found: {answer[:200]!r}")


def _table(answer: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """Return the column names, which follow ``# ``, and the rows below them."""
    _, _, table = answer.partition("# ")
    head, *rows = csv.reader(table.splitlines() or [""], delimiter=delimiter)
    return head, rows
