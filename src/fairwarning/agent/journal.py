"""The agent's journal: records on disk that survive the reboot the agent prepared for (C-11).

The file holds one line of JSON per step. A line carries the whole record of its event, so the last line of
an event is all that counts, and a line ``"record": null`` ends the event. The first line has the number of
the format and the release that wrote it: an earlier release refuses records that it does not understand.

Crash safety rests on three rules. A line is synced to disk before the work that it announces starts, so
work that has started is always in the journal. A crash can tear only the last line; a torn line is skipped,
and its work has not started. The file is compacted by writing a new file, syncing it, and renaming it over
the old one, so a reader finds the old content or the new content, never a mixture.

A lock file makes sure that only one agent writes; it is held as long as the journal is open.
"""

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from fairwarning import __version__
from fairwarning.agent.plan import EventStep, Record
from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId

#: Raised when a release writes records that the releases before it would misread or skip.
FORMAT = 1

#: After this many lines the journal is compacted.
MAX_LINES = 1000

LOCK_ATTEMPTS, LOCK_RETRY_INTERVAL = 4, timedelta(milliseconds=50)


class StateInUseError(FairWarningError):
    """Another agent uses this state directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another agent uses {folder}")
        self.folder = folder


class NewerStateError(FairWarningError):
    """A newer agent wrote the journal."""

    def __init__(self, path: Path, found: int, release: str) -> None:
        super().__init__(
            f"{path} has format {found}, this version ({__version__}) reads formats up to {FORMAT}; install "
            f"fairwarning-agent {release} or newer, or undo its drain by hand and remove the file"
        )
        self.path = path
        self.found = found
        self.release = release


class JournalError(FairWarningError):
    """The journal cannot be read or written."""

    def __init__(self, folder: Path, problem: OSError) -> None:
        super().__init__(f"the journal in {folder} cannot be used: {problem.strerror or problem}")
        self.folder = folder


class Journal:
    """The records of one machine; one agent at a time may write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "journal.jsonl"
        self._records: dict[EventId, Record] = {}
        self._lines = 0
        self._lock = -1
        self._file = -1
        self._mutex = threading.Lock()

    @property
    def records(self) -> Mapping[EventId, Record]:
        """The records as they are now, oldest first."""
        with self._mutex:
            return MappingProxyType(dict(self._records))

    def __enter__(self) -> Self:
        """Lock the state directory for this process, and read the records.

        Raises:
            StateInUseError: another agent holds the lock.
            NewerStateError: a newer agent wrote the records.
            JournalError: the directory cannot be used.
        """
        with _reporting(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if not _acquire(self._lock):
            os.close(self._lock)
            raise StateInUseError(self._folder)
        try:
            self._records = read_records(self._folder)
            with _reporting(self._folder):
                self._compact()
        except FairWarningError:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the journal and release the lock."""
        os.close(self._file)
        os.close(self._lock)

    def write(self, record: Record) -> None:
        """Write the record of an event; it is on disk when this returns."""
        with self._mutex:
            self._write(record)

    def amend(self, key: EventId, change: Callable[[Record], Record]) -> None:
        """Change the record of an event, if there is one."""
        with self._mutex:
            record = self._records.get(key)
            if record is not None and (changed := change(record)) != record:
                self._write(changed)

    def forget(self, key: EventId) -> None:
        """Delete the record of an event."""
        with self._mutex:
            self._append(key, None)
            self._records.pop(key, None)

    def _write(self, record: Record) -> None:
        self._append(record.event.key, _encode(record))
        self._records[record.event.key] = record

    def _append(self, key: EventId, record: Json) -> None:
        with _reporting(self._folder):
            if self._lines >= MAX_LINES:
                self._compact()
            _write_all(self._file, _line(key, record))
            os.fsync(self._file)
        self._lines += 1

    def _compact(self) -> None:
        """Replace the file with one that holds only the current records."""
        new_path = self._path.with_suffix(".new")
        file = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            lines = (_line(key, _encode(record)) for key, record in self._records.items())
            _write_all(file, b"".join((_first_line(), *lines)))
            os.fsync(file)
            new_path.replace(self._path)
            _sync_directory(self._folder)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._lines = len(self._records)


def read_records(folder: Path) -> dict[EventId, Record]:
    """Return the records in the journal of a folder; unreadable lines are skipped.

    Raises:
        NewerStateError: a newer agent wrote the records.
        JournalError: the journal cannot be read.
    """
    records: dict[EventId, Record] = {}
    path = folder / "journal.jsonl"
    with _reporting(folder):
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return records
    _check_format(path, lines[0])
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            entry: dict[str, Json] = json.loads(line)
            key, members = EventId(str(entry["key"])), entry["record"]
            record = _decode(members) if isinstance(members, dict) else None
            records.pop(key, None)
            if record is not None:
                records[key] = record
    return records


def in_use(folder: Path) -> bool:
    """Whether an agent is using a state directory.

    Raises:
        JournalError: the directory cannot be read.
    """
    with _reporting(folder):
        try:
            lock = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def _reporting(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise JournalError(folder, problem) from problem


def _acquire(lock: int) -> bool:
    # ``in_use`` holds the lock for an instant, which must not keep an agent from starting.
    for _ in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            threading.Event().wait(LOCK_RETRY_INTERVAL.total_seconds())
        else:
            return True
    return False


def _check_format(path: Path, first_line: bytes) -> None:
    with suppress(ValueError, KeyError, TypeError):  # release 0.1.0 wrote no such line
        first: dict[str, Json] = json.loads(first_line)
        found = first["format"]
        if isinstance(found, int) and found > FORMAT:
            raise NewerStateError(path, found, str(first["release"]))


def _first_line() -> bytes:
    return json.dumps({"format": FORMAT, "release": __version__}, separators=(",", ":")).encode() + b"\n"


def _line(key: EventId, record: Json) -> bytes:
    return json.dumps({"key": key, "record": record}, separators=(",", ":")).encode() + b"\n"


def _write_all(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]


def _sync_directory(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _encode(record: Record) -> dict[str, Json]:
    event = record.event
    return {
        "id": event.id,
        "status": event.status,
        "kind": event.kind,
        "resources": list(event.resources),
        "not_before": None if event.not_before is None else event.not_before.isoformat(),
        "source": event.source,
        "description": event.description,
        "duration": event.duration,
        "rule": record.rule,
        "step": record.step.value,
        "at": record.at.isoformat(),
        "drains": record.drains,
        "attempts": record.attempts,
        "approved": record.approved,
        "refused": record.refused,
        "problem": record.problem,
        "tokens": dict(record.tokens),
    }


def _decode(members: dict[str, Json]) -> Record:
    def text(name: str) -> str:
        value = members[name]
        if not isinstance(value, str):
            raise TypeError(name)
        return value

    def number(name: str) -> int:
        value = members[name]
        if not isinstance(value, int):
            raise TypeError(name)
        return value

    resources, tokens = members["resources"], members["tokens"]
    if not isinstance(resources, list) or not isinstance(tokens, dict):
        raise TypeError("record")
    event = ObservedEvent(
        id=EventId(text("id")),
        status=text("status"),
        kind=text("kind"),
        resources=tuple(str(name) for name in resources),
        not_before=None if members["not_before"] is None else datetime.fromisoformat(text("not_before")),
        source=text("source"),
        description=text("description"),
        duration=None if members["duration"] is None else number("duration"),
    )
    return Record(
        event=event,
        rule=text("rule"),
        step=EventStep(text("step")),
        at=datetime.fromisoformat(text("at")),
        drains=bool(members["drains"]),
        attempts=number("attempts"),
        approved=bool(members["approved"]),
        refused=text("refused"),
        problem=text("problem"),
        tokens={name: str(token) for name, token in tokens.items()},
    )
