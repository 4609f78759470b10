"""The marker: a file that says which database belongs to a data directory, and how often it was written.

The marker reveals a database that is missing, replaced by another one, or older than it was. Without it
such a loss goes unnoticed: SQLite, for example, silently ignores the end of its log if it cannot read it.

The number of commits is written to the marker right after each commit, and is not synced to the disk. It is
therefore never ahead of the database. After a killed server it is exact; after a power failure it may be too
low, which only means that a loss of the last commits may go unnoticed.

The text has a fixed length, so one write replaces it, and it has a checksum of its own.
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
_HINT = "remove it to use the database as it is"


@dataclass(frozen=True, slots=True)
class Marker:
    """The id of the database that belongs here, and the least number of commits it has."""

    database: str
    commits: int

    def encode(self) -> bytes:
        """Return the text of the file; its length is always the same."""
        checksum = row_checksum(self.database, self.commits)
        return (_FORM % (self.database, self.commits, checksum)).encode()


def read_marker(directory: Path) -> Marker | None:
    """Return the marker of a directory; None if it has none.

    Raises:
        UnreadableRowError: the file is not what was written.
    """
    try:
        text = (directory / MARKER).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(text)
        marker = Marker(str(fields["database"]), int(fields["commits"]))
    except (ValueError, TypeError, LookupError) as problem:
        raise UnreadableRowError(f"{MARKER} beside it cannot be read; {_HINT}") from problem
    if marker.encode() != text:
        raise UnreadableRowError(f"{MARKER} beside it does not match its checksum; {_HINT}")
    return marker


class MarkerFile:
    """The open marker file, whose number of commits can be changed."""

    def __init__(self, directory: Path, marker: Marker) -> None:
        """Create the file atomically if it does not exist, once the rest of the directory is synced."""
        path = directory / MARKER
        if not path.exists():
            _sync(directory)
            _write_new(path.with_suffix(".new"), marker)
            path.with_suffix(".new").rename(path)
            _sync(directory)
        self._database = marker.database
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def put(self, commits: int) -> None:
        """Write the number of commits."""
        # The commit is stored whatever happens here; a number that is too low is harmless.
        with suppress(OSError):
            os.pwrite(self._file, Marker(self._database, commits).encode(), 0)

    def close(self) -> None:
        """Sync the number to the disk and close the file."""
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
