"""Brings a database to the schema of this version.

Migrations are the SQL files in ``migrations/``, numbered without gaps and never undone. Each runs in
its own transaction, which also adds a row to the table ``migration`` and sets ``user_version`` to its
number.

A released migration must never be edited, not even its comments: the row has the checksum of the file, and
a database that ran another text is refused (``ChangedMigrationError``). A database with a higher number
than the last file was written by a newer version and is refused, too (``NewerDatabaseError``).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

from fairwarning.core.errors import FairWarningError
from fairwarning.engine.ports import IncompatibleStoreError
from fairwarning.store.errors import UnreadableRowError

TABLE = "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT) STRICT"


class NewerDatabaseError(IncompatibleStoreError):
    """The database was written by a newer version of this program."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema {found}, this version knows schemas up to {known}; use a newer version"
        )
        self.found = found
        self.known = known


class ChangedMigrationError(FairWarningError):
    """The database ran another text of a migration."""

    status_hint = 500

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration {name} has changed since this database ran it, or the database is damaged"
        )
        self.name = name


@dataclass(frozen=True, slots=True)
class Migration:
    """A step from one schema to the next."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """The checksum of the SQL text, to detect an edited migration."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


class Database(Protocol):
    """The part of a connection that a migration needs."""

    def execute(self, sql: str, /) -> Iterable[tuple[str | bytes | int, ...]]:
        """Run one statement."""
        ...

    def executescript(self, sql_script: str, /) -> object:
        """Run several statements."""
        ...


def migrations(*below: str) -> tuple[Migration, ...]:
    """Return the migrations of this version, in order: those of SQLite, or of a folder below."""
    folder = files("fairwarning.store").joinpath("migrations", *below)
    scripts = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    steps = sorted((file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")) for file in scripts)
    return tuple(Migration(int(name.partition("-")[0]), name, sql) for name, sql in steps)


def schema(database: Database) -> int:
    """Return the number of the last migration that a database has run."""
    ((version,),) = database.execute("PRAGMA user_version")
    return int(version)


def migrate(database: Database, steps: Sequence[Migration]) -> None:
    """Run the migrations that ``database`` lacks.

    Raises:
        NewerDatabaseError: the database has run migrations that this version does not have.
        ChangedMigrationError: the database ran another text of a migration.
        UnreadableRowError: the table of migrations contradicts the schema number.
    """
    database.execute(TABLE)
    check_migrations(database, steps)
    for step in steps[schema(database) :]:
        _run(database, step)


def check_migrations(database: Database, steps: Sequence[Migration]) -> None:
    """Check that a database has run the first of these migrations; the errors are those of ``migrate``."""
    version = schema(database)
    rows = database.execute("SELECT number, CAST(checksum AS BLOB) FROM migration")
    ran = {int(number): checksum for number, checksum in rows}
    if max(ran, default=0) != version:
        raise UnreadableRowError(f"it has schema {version}, but its last migration is {max(ran, default=0)}")
    if version > len(steps):
        raise NewerDatabaseError(version, len(steps))
    for step in steps[:version]:
        if ran.get(step.number) != step.checksum.encode():
            raise ChangedMigrationError(step.name)


def _run(database: Database, step: Migration) -> None:
    # The caller closes the database after an error, which rolls the transaction back.
    record = f"INSERT INTO migration VALUES ({step.number}, '{step.name}', '{step.checksum}')"
    script = f"BEGIN IMMEDIATE;\n{step.sql}\n;{record};\nPRAGMA user_version = {step.number};\nCOMMIT;"
    database.executescript(script)
