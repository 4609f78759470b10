"""The file that says which database belongs to a directory, and how often it has been written.

A database that is gone, another one, or back at an earlier state is noticed by it: SQLite drops what it
cannot read at the end of its log without a word. The number of writes is put into the file right after each
of them and not forced to the disk, so it is never ahead of the database: a killed server leaves the exact
number, a power cut may leave an earlier one.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairwarning.store.errors import UnreadableRowError
from fairwarning.store.rows import row_checksum

MARKER = "fairwarning.json"
_FORM = '{"database": "%s", "commits": %16d, "checksum": %10d}\n'
_REMOVE = "without that file the database is taken as it is"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which database belongs here, and how often it has been written at least."""

    database: str
    commits: int

    def encode(self) -> bytes:
        """Return the text of the file, as long for one number as for another."""
        checksum = row_checksum(self.database, self.commits)
        return (_FORM % (self.database, self.commits, checksum)).encode()


def read_marker(directory: Path) -> Marker | None:
    """Return what the file in a directory says; None if there is none.

    Raises:
        Unreadable: it is not what was written.
    """
    try:
        text = (directory / MARKER).read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        marker = Marker(str(found["database"]), int(found["commits"]))
    except (ValueError, TypeError, LookupError) as problem:
        raise UnreadableRowError(f"{MARKER} beside it cannot be read; {_REMOVE}") from problem
    if marker.encode() != text:
        raise UnreadableRowError(f"{MARKER} beside it does not match its checksum; {_REMOVE}")
    return marker


class MarkerFile:
    """The file, open for the number in it to be changed."""

    def __init__(self, directory: Path, marker: Marker) -> None:
        """Make the file if there is none: whole or not at all, after everything else in the directory."""
        path = directory / MARKER
        if not path.exists():
            _sync(directory)
            _write_new(path.with_suffix(".new"), marker)
            path.with_suffix(".new").rename(path)
            _sync(directory)
        self._database = marker.database
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def put(self, commits: int) -> None:
        """Change the number."""
        # What was kept is kept: a number that stays behind only lets less be noticed.
        with suppress(OSError):
            os.pwrite(self._file, Marker(self._database, commits).encode(), 0)

    def close(self) -> None:
        """Let the number reach the disk, and let go."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)


def _write_new(path: Path, marker: Marker) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, marker.encode())
        os.fsync(file)
    finally:
        os.close(file)


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
