"""What the agent remembers, on disk: it survives the very reboot it prepared for (C-11).

One line of JSON per step, each with the whole record of its event: the last line of an event tells all. A
line is on the disk before what it announces is begun. What a crash may tear is the last line, and what that
one announced was not begun.
"""

import fcntl
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from fairwarning.agent.plan import EventStep, Record
from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId

#: After this many lines the journal is written afresh, with what is still of interest.
MOST_LINES = 1000

TRIES, BETWEEN_TRIES = 4, timedelta(milliseconds=50)


class StateInUseError(FairWarningError):
    """Another agent works with this state directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another agent works with {folder}")
        self.folder = folder


class Journal:
    """The records of one machine; only one agent at a time may write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "journal.jsonl"
        self._records: dict[EventId, Record] = {}
        self._lines = 0
        self._lock = -1
        self._file = -1
        self._turn = threading.Lock()

    @property
    def records(self) -> Mapping[EventId, Record]:
        """What is remembered now, oldest first."""
        with self._turn:
            return MappingProxyType(dict(self._records))

    def __enter__(self) -> Self:
        """Take the state directory for this process, and read what was remembered.

        Raises:
            StateInUse: another agent has it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if not _taken(self._lock):
            os.close(self._lock)
            raise StateInUseError(self._folder)
        self._records = recall(self._folder)
        self._rewrite()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the next agent have it."""
        os.close(self._file)
        os.close(self._lock)

    def keep(self, record: Record) -> None:
        """Remember a record in place of the one its event had; it is on the disk when this returns."""
        with self._turn:
            self._keep(record)

    def amend(self, key: EventId, change: Callable[[Record], Record]) -> None:
        """Change what is remembered of an event, if it is."""
        with self._turn:
            record = self._records.get(key)
            if record is not None and (changed := change(record)) != record:
                self._keep(changed)

    def forget(self, key: EventId) -> None:
        """Remember that an event is over and done with."""
        with self._turn:
            self._append(key, None)
            self._records.pop(key, None)

    def _keep(self, record: Record) -> None:
        self._append(record.event.key, _spell(record))
        self._records[record.event.key] = record

    def _append(self, key: EventId, record: Json) -> None:
        if self._lines >= MOST_LINES:
            self._rewrite()
        _write_all(self._file, _line(key, record))
        os.fsync(self._file)
        self._lines += 1

    def _rewrite(self) -> None:
        """Write afresh what is still of interest, beside the old file, and put it in its place whole."""
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            _write_all(file, b"".join(_line(key, _spell(record)) for key, record in self._records.items()))
            os.fsync(file)
            fresh.replace(self._path)
            _sync_folder(self._folder)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._lines = len(self._records)


def recall(folder: Path) -> dict[EventId, Record]:
    """Return what the journal in a folder tells; a line that cannot be read tells nothing."""
    records: dict[EventId, Record] = {}
    try:
        text = (folder / "journal.jsonl").read_bytes()
    except FileNotFoundError:
        return records
    for line in text.split(b"\n"):
        with suppress(ValueError, KeyError, TypeError):
            entry: dict[str, Json] = json.loads(line)
            key, spelled = EventId(str(entry["key"])), entry["record"]
            record = _read(spelled) if isinstance(spelled, dict) else None
            records.pop(key, None)
            if record is not None:
                records[key] = record
    return records


def in_use(folder: Path) -> bool:
    """Whether an agent works with a state directory at this moment."""
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


def _taken(lock: int) -> bool:
    # Whoever asks ``in_use`` holds the lock for an instant, and must not keep an agent from starting.
    for _ in range(TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            threading.Event().wait(BETWEEN_TRIES.total_seconds())
        else:
            return True
    return False


def _line(key: EventId, record: Json) -> bytes:
    return json.dumps({"key": key, "record": record}, separators=(",", ":")).encode() + b"\n"


def _write_all(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]


def _sync_folder(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _spell(record: Record) -> dict[str, Json]:
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


def _read(spelled: dict[str, Json]) -> Record:
    def text(name: str) -> str:
        value = spelled[name]
        if not isinstance(value, str):
            raise TypeError(name)
        return value

    def number(name: str) -> int:
        value = spelled[name]
        if not isinstance(value, int):
            raise TypeError(name)
        return value

    resources, tokens = spelled["resources"], spelled["tokens"]
    if not isinstance(resources, list) or not isinstance(tokens, dict):
        raise TypeError("record")
    event = ObservedEvent(
        id=EventId(text("id")),
        status=text("status"),
        kind=text("kind"),
        resources=tuple(str(name) for name in resources),
        not_before=None if spelled["not_before"] is None else datetime.fromisoformat(text("not_before")),
        source=text("source"),
        description=text("description"),
        duration=None if spelled["duration"] is None else number("duration"),
    )
    return Record(
        event=event,
        rule=text("rule"),
        step=EventStep(text("step")),
        at=datetime.fromisoformat(text("at")),
        drains=bool(spelled["drains"]),
        attempts=number("attempts"),
        approved=bool(spelled["approved"]),
        refused=text("refused"),
        problem=text("problem"),
        tokens={name: str(token) for name, token in tokens.items()},
    )
