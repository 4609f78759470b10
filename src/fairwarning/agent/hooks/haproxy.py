"""Takes this machine's server out of HAProxy's rotation and puts it back, through the runtime socket."""

import csv
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, Self

from fairwarning.agent.hooks.hook import UNREPORTED, HookContext, HookOutcome, Now, rehearsal, time_left
from fairwarning.agent.hooks.options import Options, SettingsError
from fairwarning.formats.durations import for_people

Verb = Literal["drain", "ready"]

SOCKET: Final = "/run/haproxy/admin.sock"
OURS: Final = "drained by us"
FOUND: Final = "found drained"

#: Bits of srv_admin_state that stand for an order: maintenance, which is never ours, and drain, which may be.
MAINTENANCE: Final = 0x01
DRAINED: Final = 0x08
PAUSE: Final = timedelta(milliseconds=200)
#: An answer of the socket is read in pieces of this size, and never more than a thousand of them.
PIECE: Final = 65_536
PIECES: Final = 1_000


class HAProxyError(Exception):
    """HAProxy did not do what it was told; the text is the message of the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HAProxy:
    """One server of one backend, and the socket of the HAProxy that knows it."""

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
        place = options.text("socket") or SOCKET
        if not place.startswith("/") and not place.rpartition(":")[2].isdecimal():
            raise SettingsError(options.field("socket"), f"{place!r} is neither a path nor HOST:PORT")
        return cls(verb=verb, server=server, socket=place, wait=options.duration("wait", timedelta(0)))

    @property
    def name(self) -> str:
        """The server and where it is known."""
        return f"haproxy {self.server} {self.socket}"

    def describe(self) -> str:
        """Return what becomes of the server."""
        if self.verb == "ready":
            return f"make {self.server} ready at {self.socket} if we drained it"
        wait = f" and wait up to {for_people(self.wait)} for its sessions" if self.wait else ""
        return f"drain {self.server} at {self.socket}{wait}"

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""
        return None

    def run(self, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Drain the server unless it is out of rotation already; make it ready only if we drained it."""
        if occasion.dry_run:
            return rehearsal(self)
        line = _Line(self.socket, time_left(occasion, now))
        try:
            if self.verb == "ready":
                return self._ready(line, remembered)
            return self._drain(line, remembered, min(self.wait, time_left(occasion, now)))
        except (HAProxyError, OSError) as problem:
            return HookOutcome(False, f"haproxy at {self.socket}: {problem}", remembered)

    def _drain(self, line: "_Line", remembered: str | None, wait: timedelta) -> HookOutcome:
        state = self._state(line)
        if state & MAINTENANCE or (state & DRAINED and remembered not in (OURS, UNREPORTED)):
            return HookOutcome(True, f"{self.server} was out of rotation already", FOUND)
        line.tell(f"set server {self.server} state drain")
        try:
            left = self._sessions_after(line, wait)
        except (HAProxyError, OSError) as problem:
            # The drain stands, and must be remembered as ours.
            return HookOutcome(False, f"{self.server} is drained, its sessions are unknown: {problem}", OURS)
        return HookOutcome(
            True, f"{self.server} is drained" + (f"; sessions left: {left}" if left else ""), OURS
        )

    def _ready(self, line: "_Line", remembered: str | None) -> HookOutcome:
        if remembered not in (OURS, UNREPORTED):
            return HookOutcome(True, f"{self.server} was not drained by us; left as it is")
        if self._state(line) & MAINTENANCE:
            return HookOutcome(True, f"{self.server} is in maintenance by now; left as it is")
        line.tell(f"set server {self.server} state ready")
        return HookOutcome(True, f"{self.server} is ready")

    def _state(self, line: "_Line") -> int:
        return admin_state(line.ask(f"show servers state {self._backend}"), self.server)

    def _sessions_after(self, line: "_Line", wait: timedelta) -> int:
        """Return how many sessions are left once none is, or once the wait is over."""
        pause = threading.Event()
        for _ in range(wait // PAUSE):
            if not sessions(line.ask(f"show stat {self._backend} 4 -1"), self.server):
                return 0
            pause.wait(PAUSE.total_seconds())
        return sessions(line.ask(f"show stat {self._backend} 4 -1"), self.server)

    @property
    def _backend(self) -> str:
        return self.server.partition("/")[0]


class _Line:
    """A way to talk to the socket: HAProxy answers one command and hangs up."""

    def __init__(self, place: str, within: timedelta) -> None:
        self._place = place
        self._seconds = min(within, timedelta(seconds=10)).total_seconds()

    def ask(self, command: str) -> str:
        """Return what HAProxy answers."""
        with self._connect() as connection:
            connection.sendall(f"{command}\n".encode())
            answer = b""
            for _ in range(PIECES):
                piece = connection.recv(PIECE)
                if not piece:
                    break
                answer += piece
        return answer.decode(errors="replace").strip()

    def tell(self, command: str) -> None:
        """Give an order; it is obeyed when nothing is answered."""
        if answer := self.ask(command):
            raise HAProxyError(f"{command!r} is answered {answer[:200]!r}")

    def _connect(self) -> socket.socket:
        if not self._place.startswith("/"):
            host, _, port = self._place.rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), self._seconds)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._seconds)
        try:
            connection.connect(self._place)
        except OSError:
            connection.close()
            raise
        return connection


def admin_state(answer: str, server: str) -> int:
    """Return the administrative state of a server from what ``show servers state`` answers.

    Raises:
        Refused: the server is not in it.
    """
    head, rows = _table(answer, " ")
    for row in rows:
        known = dict(zip(head, row, strict=False))
        if f"{known.get('be_name')}/{known.get('srv_name')}" == server:
            return int(known.get("srv_admin_state", "0"))
    raise HAProxyError(f"there is no server {server}: {answer[:200]!r}")


def sessions(answer: str, server: str) -> int:
    """Return how many sessions a server has, from the CSV that ``show stat`` answers."""
    head, rows = _table(answer, ",")
    for row in rows:
        known = dict(zip(head, row, strict=False))
        if f"{known.get('pxname')}/{known.get('svname')}" == server:
            return int(known.get("scur") or 0) + int(known.get("qcur") or 0)
    raise HAProxyError(f"there is no server {server}: {answer[:200]!r}")


def _table(answer: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """Return the columns, which stand after ``# ``, and the rows below them."""
    _, _, table = answer.partition("# ")
    head, *rows = csv.reader(table.splitlines() or [""], delimiter=delimiter)
    return head, rows
