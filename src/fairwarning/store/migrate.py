"""Brings a database to the schema of this version.

Migrations are the SQL files in ``migrations/``, numbered without gaps and never undone. Each runs in
its own transaction, which also adds a row to the table ``migration`` and sets ``user_version`` to its
number. The row names the release that ran the migration: a release that is too old for the database can then
say which release to install.

A released migration must never be edited, not even its comments: the row has the checksum of the file, and
a database that ran another text is refused (``ChangedMigrationError``). A database with a higher number
than the last file was written by a newer version and is refused, too (``NewerDatabaseError``).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

from fairwarning import __version__
from fairwarning.core.errors import FairWarningError
from fairwarning.engine.ports import IncompatibleStoreError
from fairwarning.store.errors import UnreadableRowError

TABLE = "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT) STRICT"
HAS_RELEASES = "SELECT 1 FROM pragma_table_info('migration') WHERE name = 'release'"


class NewerDatabaseError(IncompatibleStoreError):
    """The database was written by a newer version of this program."""

    def __init__(self, found: int, known: int, release: str) -> None:
        """Take the release that brought the database to its schema; empty if that is not recorded."""
        super().__init__(
            f"the database has schema {found}, this version ({__version__}) knows schemas up to {known}; "
            f"install {f'version {release} or newer' if release else 'the version that wrote the database'}, "
            "or restore a backup from before the upgrade"
        )
        self.found = found
        self.known = known
        self.release = release


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


def check_not_newer(database: Database, known: int) -> int:
    """Return the schema of a database.

    Raises:
        NewerDatabaseError: this version knows only ``known`` schemas, and the database has a newer one.
        UnreadableRowError: the table of migrations contradicts the schema number.
    """
    version = schema(database)
    if version > known:
        _check_last(version, [int(number) for (number,) in database.execute("SELECT number FROM migration")])
        raise NewerDatabaseError(version, known, _release_of(database, version))
    return version


def migrate(database: Database, steps: Sequence[Migration]) -> None:
    """Run the migrations that ``database`` lacks.

    Raises:
        NewerDatabaseError: the database has run migrations that this version does not have.
        ChangedMigrationError: the database ran another text of a migration.
        UnreadableRowError: the table of migrations contradicts the schema number.
    """
    database.execute(TABLE)
    check_migrations(database, steps)
    missing = steps[schema(database) :]
    if missing and not any(database.execute(HAS_RELEASES)):
        database.execute("ALTER TABLE migration ADD COLUMN release TEXT")
    for step in missing:
        _run(database, step)


def check_migrations(database: Database, steps: Sequence[Migration]) -> None:
    """Check that a database has run the first of these migrations; the errors are those of ``migrate``."""
    version = check_not_newer(database, len(steps))
    rows = database.execute("SELECT number, CAST(checksum AS BLOB) FROM migration")
    ran = {int(number): checksum for number, checksum in rows}
    _check_last(version, ran)
    for step in steps[:version]:
        if ran.get(step.number) != step.checksum.encode():
            raise ChangedMigrationError(step.name)


def _check_last(version: int, ran: Iterable[int]) -> None:
    last = max(ran, default=0)
    if last != version:
        raise UnreadableRowError(f"it has schema {version}, but its last migration is {last}")


def _run(database: Database, step: Migration) -> None:
    # The caller closes the database after an error, which rolls the transaction back.
    record = (
        f"INSERT INTO migration VALUES ({step.number}, '{step.name}', '{step.checksum}', '{__version__}')"
    )
    script = f"BEGIN IMMEDIATE;\n{step.sql}\n;{record};\nPRAGMA user_version = {step.number};\nCOMMIT;"
    database.executescript(script)


def _release_of(database: Database, number: int) -> str:
    """Return the release that ran a migration; empty if that is not recorded."""
    if not any(database.execute(HAS_RELEASES)):
        return ""
    rows = database.execute(f"SELECT CAST(release AS BLOB) FROM migration WHERE number = {number}")
    return next((release.decode() for (release,) in rows if isinstance(release, bytes)), "")
