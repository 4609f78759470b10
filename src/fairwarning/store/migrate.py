"""Brings a database to the shape this version works with.

Migrations are numbered SQL files that only ever go forward. Each runs in a transaction of its own, is noted
with a checksum, and must never be edited afterwards: databases out there have run it as it was.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

from fairwarning.core.errors import FairWarningError
from fairwarning.store.errors import UnreadableRowError

NOTES = "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT) STRICT"


class NewerDatabaseError(FairWarningError):
    """The database was written by a later version of this program."""

    status_hint = 500

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema {found}, this version knows schemas up to {known}; use a newer version"
        )
        self.found = found
        self.known = known


class ChangedMigrationError(FairWarningError):
    """The database has run a migration that reads differently today."""

    status_hint = 500

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration {name} has changed since this database ran it, or the database is damaged"
        )
        self.name = name


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from a schema to the next."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells an edited migration from the one that was run."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


class Database(Protocol):
    """As much of a connection as a migration needs."""

    def execute(self, sql: str, /) -> Iterable[tuple[str | bytes | int, ...]]:
        """Run one statement."""
        ...

    def executescript(self, sql_script: str, /) -> object:
        """Run several statements."""
        ...


def migrations() -> tuple[Migration, ...]:
    """Return the migrations that come with this version, in order."""
    folder = files("fairwarning.store").joinpath("migrations")
    found = [one for one in folder.iterdir() if one.name.endswith(".sql")]
    steps = sorted((one.name.removesuffix(".sql"), one.read_text(encoding="utf-8")) for one in found)
    return tuple(Migration(int(name.partition("-")[0]), name, sql) for name, sql in steps)


def schema(database: Database) -> int:
    """Return the number of the last migration that a database has run."""
    ((version,),) = database.execute("PRAGMA user_version")
    return int(version)


def migrate(database: Database, steps: Sequence[Migration]) -> None:
    """Run the migrations that ``database`` lacks.

    Raises:
        NewerDatabase: it has run migrations nobody here knows.
        ChangedMigration: it has run a migration that reads differently today.
        Unreadable: what it says about its schema cannot be.
    """
    version = schema(database)
    database.execute(NOTES)
    notes = database.execute("SELECT number, CAST(checksum AS BLOB) FROM migration")
    ran = {int(number): checksum for number, checksum in notes}
    if max(ran, default=0) != version:
        raise UnreadableRowError(f"it has schema {version}, yet its last migration is {max(ran, default=0)}")
    if version > len(steps):
        raise NewerDatabaseError(version, len(steps))
    for step in steps[:version]:
        if ran.get(step.number) != step.checksum.encode():
            raise ChangedMigrationError(step.name)
    for step in steps[version:]:
        _run(database, step)


def _run(database: Database, step: Migration) -> None:
    # Whoever opened the database closes it on any error, and with that what was begun is undone.
    note = f"INSERT INTO migration VALUES ({step.number}, '{step.name}', '{step.checksum}')"
    script = f"BEGIN IMMEDIATE;\n{step.sql}\n;{note};\nPRAGMA user_version = {step.number};\nCOMMIT;"
    database.executescript(script)
