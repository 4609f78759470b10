"""The file of a backup: all rows of a database at one moment, in a form that fits every store.

The file is a gzip stream of JSON lines: a header, an array for each row (its table, its columns and its
checksum), and a trailer with the number of rows of each table and the SHA-256 of everything before it. Rows
come table by table, in the order of ``tables.ORDER``. ``docs/reference/backup-format.md`` describes it.

A file is written under another name, synced and renamed: a file of the right name is a complete backup.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec

from fairwarning.core.stored.releases import DataRelease
from fairwarning.database.columns import TABLES, ValueColumns, read_columns
from fairwarning.database.errors import (
    BackupExistsError,
    DatabaseNotSoundError,
    NewerBackupError,
    UnusableBackupError,
)
from fairwarning.database.findings import DatabaseFinding
from fairwarning.database.restores import RESTORES, read_restores
from fairwarning.database.tables import (
    ORDER,
    Progress,
    StoredRow,
    Tables,
    counted,
    matches_checksum,
    row_name,
)

FORMAT = "fairwarning-backup"

#: The version of the format by the oldest release that can read the rows, and the newest that is known here.
VERSIONS: Mapping[DataRelease, int] = {DataRelease.V0_2: 1, DataRelease.V0_3: 2}
VERSION = max(VERSIONS.values())

#: How the keys of values begin that no backup holds: what clients sent with a running deployment, and the key
#: of user data. A restored server fails the deployment, and knows no user data.
PRIVATE = ("deployment:", "user-data-key")

#: A little slower than the fastest level, and a third smaller.
_LEVEL = 3

#: The longest line: a text of a management client has at most 8 MiB, and JSON may make it longer.
_LONGEST = 64 * 1024 * 1024


class BackupFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the first line that every format has: earlier releases read it."""

    format: str
    version: int
    release: str


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a backup."""

    format: str
    version: int
    #: Read from the clock before the database was read; earlier by the delay of a standby.
    taken_at: datetime
    release: str
    last_line: int


class BackupTrailer(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a backup."""

    rows: dict[str, int]
    sha256: str


_read_format = msgspec.json.Decoder(BackupFormat).decode
_read_header = msgspec.json.Decoder(BackupHeader).decode
_read_trailer = msgspec.json.Decoder(BackupTrailer).decode
_read_row = msgspec.json.Decoder(list[str | int | None]).decode
_encode = msgspec.json.Encoder().encode


def write_backup(
    path: Path, tables: Tables, taken_at: datetime, release: str, *, overwrite: bool, progress: Progress
) -> BackupTrailer:
    """Write all rows of a database to a new file.

    Raises:
        BackupExistsError: the file exists, and may not be overwritten.
        DatabaseNotSoundError: the database is damaged.
    """
    for finding in tables.problems():
        raise DatabaseNotSoundError(f"{finding.where}: {finding.problem}")
    header = BackupHeader(
        format=FORMAT,
        version=VERSIONS[tables.oldest_reader],
        taken_at=taken_at - tables.behind,
        release=release,
        last_line=tables.last_line,
    )
    with (
        _new_file(path, overwrite=overwrite) as file,
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as stream,
    ):
        return _write(stream.write, header, tables, progress)


def _write(
    write: Callable[[bytes], int], header: BackupHeader, tables: Tables, progress: Progress
) -> BackupTrailer:
    digest, rows = hashlib.sha256(), dict.fromkeys(ORDER, 0)

    def put(value: BackupHeader | list[str | int | None]) -> None:
        line = _encode(value) + b"\n"
        digest.update(line)
        write(line)

    put(header)
    for table in ORDER:
        for row in counted(table, tables.rows(table), progress):
            if not matches_checksum(row):
                raise DatabaseNotSoundError(f"{row_name(table, row)} does not match its checksum")
            if table == "note" and _is_private(row):
                continue
            put([table, *(value.decode() if isinstance(value, bytes) else value for value in row)])
            rows[table] += 1
    trailer = BackupTrailer(rows=rows, sha256=digest.hexdigest())
    write(_encode(trailer) + b"\n")
    return trailer


def _is_private(note: StoredRow) -> bool:
    return isinstance(note[0], bytes) and note[0].decode().startswith(PRIVATE)


@contextmanager
def _new_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a file that gets its name once it is complete and synced; only its owner can read it."""

    def check() -> None:
        if path.exists() and not overwrite:
            raise BackupExistsError(path)

    check()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        check()
        new.rename(path)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class BackupTables:
    """The tables in a backup; they are read once, in ``ORDER``, and then ``finish`` is called."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._lines = gzip.GzipFile(fileobj=file, mode="rb")
        self._digest = hashlib.sha256()
        self._counts = dict.fromkeys(ORDER, 0)
        self._next: list[str | int | None] | None = None
        self.behind = timedelta(0)
        with self._reading():
            line = self._line()
            found = _read_format(line)
            if found.format != FORMAT:
                raise UnusableBackupError(path, "it is not a backup of fairwarning")
            if found.version > VERSION:
                raise NewerBackupError(path, found.version, VERSION, found.release)
            self.header = _read_header(line)
            self.oldest_reader = max(
                release for release, version in VERSIONS.items() if version <= found.version
            )
            self._trailer = self._advance()
        self.last_line = self.header.last_line

    def rows(self, table: str) -> Iterator[StoredRow]:
        """Yield the rows of a table in order of creation."""
        with self._reading():
            while self._next is not None and self._next[0] == table:
                row = tuple(value.encode() if isinstance(value, str) else value for value in self._next[1:])
                self._check(table, row)
                self._counts[table] += 1
                self._trailer = self._advance()
                yield row

    def problems(self) -> Iterator[DatabaseFinding]:
        """Yield nothing: a file is read or refused."""
        return iter(())

    def finish(self) -> BackupTrailer:
        """Check that the file is complete and unchanged, and return its trailer."""
        with self._reading():
            if self._next is not None:
                raise UnusableBackupError(self._path, f"a row of table {self._next[0]} is out of place")
            trailer = BackupTrailer(rows=self._counts, sha256=self._digest.hexdigest())
            if self._trailer != trailer:
                raise UnusableBackupError(self._path, "its content does not match its trailer")
            if self._lines.read(1):
                raise UnusableBackupError(self._path, "something follows its trailer")
        return trailer

    def _advance(self) -> BackupTrailer | None:
        """Read the next row, or the trailer."""
        before = self._digest.copy()
        line = self._line()
        if line.startswith(b"{"):
            self._next, self._digest = None, before
            return _read_trailer(line)
        self._next = _read_row(line)
        return None

    def _line(self) -> bytes:
        line = self._lines.readline(_LONGEST)
        if not line.endswith(b"\n"):
            raise EOFError("it ends too early")
        self._digest.update(line)
        return line

    def _check(self, table: str, row: StoredRow) -> None:
        if not matches_checksum(row):
            raise UnusableBackupError(self._path, f"{row_name(table, row)} does not match its checksum")
        columns = read_columns(row, TABLES[table])
        if isinstance(columns, ValueColumns) and columns.key == RESTORES:
            read_restores(columns.value)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, zlib.error, ValueError) as problem:
            raise UnusableBackupError(self._path, str(problem)) from problem


@contextmanager
def open_backup(path: Path) -> Iterator[BinaryIO]:
    """Yield the file of a backup, to be read with ``BackupTables`` from its start as often as needed."""
    try:
        file = path.open("rb")
    except OSError as problem:
        raise UnusableBackupError(path, problem.strerror or str(problem)) from problem
    with file:
        yield file


def read_backup(path: Path, file: BinaryIO) -> BackupTables:
    """Return the tables of an open backup, from its start."""
    file.seek(0)
    return BackupTables(path, file)


def verify_backup(path: Path, file: BinaryIO, progress: Progress) -> tuple[BackupHeader, BackupTrailer]:
    """Read a whole backup, and return its header and its trailer.

    Raises:
        UnusableBackupError: the file is not a complete, unchanged backup.
    """
    tables = read_backup(path, file)
    for table in ORDER:
        for _ in counted(table, tables.rows(table), progress):
            pass
    return tables.header, tables.finish()
