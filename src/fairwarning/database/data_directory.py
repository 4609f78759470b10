"""The SQLite database of a data directory, read while a server may run."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from fairwarning.core.stored.releases import NEWEST
from fairwarning.database.errors import NoDatabaseError, NothingToFinishError
from fairwarning.database.findings import DatabaseFinding, FindingKind
from fairwarning.database.restore import RestoredTables
from fairwarning.database.tables import ORDERED, StoredRow
from fairwarning.store.checks import check_structure, read_header, select_rows
from fairwarning.store.connection import connect, transaction, translate_errors
from fairwarning.store.errors import (
    DatabaseNotEmptyError,
    OlderDatabaseError,
    UnreadableRowError,
    WrongDatabaseError,
)
from fairwarning.store.marker import MARKER, Marker, read_marker
from fairwarning.store.migrate import (
    ChangedMigrationError,
    check_migrations,
    check_not_newer,
    migrations,
    schema,
)
from fairwarning.store.rows import COLUMNS
from fairwarning.store.sqlite import DATABASE, READING, SqliteStore, check_identity, check_presence
from fairwarning.store.writing import is_empty


class SqliteTables:
    """All tables of a SQLite database at one moment."""

    behind = timedelta(0)
    oldest_reader = NEWEST

    def __init__(self, path: Path, database: sqlite3.Connection, marker: Marker | None) -> None:
        self._path = path
        self._database = database
        self._marker = marker
        self.last_line = read_header(database).last_line

    def rows(self, table: str) -> Iterator[StoredRow]:
        """Yield the rows of a table in order of creation."""
        order = "seq" if table == "journal" else "position" if table in ORDERED else COLUMNS[table][0]
        return iter(self._database.execute(f"{select_rows(table)} ORDER BY {order}"))

    def problems(self) -> Iterator[DatabaseFinding]:
        """Yield what SQLite finds wrong with the file, and whether it belongs to its directory."""
        try:
            check_identity(self._path, self._database, self._marker)
        except WrongDatabaseError as problem:
            yield DatabaseFinding(FindingKind.MARKER, MARKER, problem.problem)
        try:
            check_structure(self._database)
            check_migrations(self._database, migrations())
        except (UnreadableRowError, ChangedMigrationError) as problem:
            yield DatabaseFinding(FindingKind.STRUCTURE, DATABASE, str(problem))


class DataDirectory:
    """The SQLite database of a data directory."""

    def __init__(self, directory: Path) -> None:
        self.name = f"data directory {directory}"
        self._directory = directory
        self._path = directory / DATABASE

    @contextmanager
    def read(self) -> Iterator[SqliteTables]:
        """Yield all tables as they are now; a server may go on writing.

        Raises:
            NoDatabaseError: the directory has no database.
            OlderDatabaseError, NewerDatabaseError: the schema is not the one of this version.
            DatabaseDamagedError: the database cannot be read at all.
        """
        with translate_errors(self._path):
            marker = read_marker(self._directory)  # first: a server writes it after its commits
            check_presence(self._path, marker)
            with self._open() as database:
                known = len(migrations())
                found = check_not_newer(database, known)
                if found < known:
                    raise OlderDatabaseError(found, known)
                with transaction(database, "BEGIN"):
                    yield SqliteTables(self._path, database, marker)

    def check_empty(self) -> None:
        """Check that nothing is stored.

        Raises:
            DatabaseNotEmptyError: something is stored.
        """
        if not self._exists():
            return
        with translate_errors(self._path), self._open() as database:
            version = schema(database)
            if version and (version != len(migrations()) or not is_empty(database)):
                raise DatabaseNotEmptyError(self.name)

    def fill(self, tables: RestoredTables, last_line: int) -> None:
        """Create the database if there is none, and write all rows in one transaction.

        Raises:
            DatabaseNotEmptyError: something is stored.
        """

        async def fill() -> None:
            store = await SqliteStore.open(self._directory)
            try:
                await store.fill(tables, last_line)
            finally:
                await store.close()

        asyncio.run(fill())

    def migrate(self) -> tuple[int, int]:
        """Bring the database to the schema of this version; return its schema before and after.

        Raises:
            NoDatabaseError: the directory has no database.
            NewerDatabaseError: a newer version wrote the database.
            DataDirectoryInUseError: a server uses the directory.
        """

        async def migrate() -> None:
            store = await SqliteStore.open(self._directory)
            await store.close()

        with translate_errors(self._path), self._open() as database:
            known = len(migrations())
            found = check_not_newer(database, known)
        if found < known:
            asyncio.run(migrate())
        return found, known

    def finish(self) -> int:
        """Do nothing: a data directory has one server, and no earlier release to lock out.

        Raises:
            NothingToFinishError: always.
        """
        raise NothingToFinishError(self.name)

    def _exists(self) -> bool:
        return self._path.exists() and self._path.stat().st_size > 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self._exists():
            raise NoDatabaseError(self.name)
        address = f"file:{quote(str(self._path.absolute()))}?mode=ro"
        with closing(connect(address, READING, uri=True)) as database:
            yield database
