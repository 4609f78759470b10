"""The operations on a whole database, whichever store it is: check, back up, restore."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from fairwarning import __version__
from fairwarning.database.backup import BackupTrailer, open_backup, read_backup, verify_backup, write_backup
from fairwarning.database.check import CheckReport, check_tables
from fairwarning.database.errors import UnusableBackupError
from fairwarning.database.findings import FindingKind
from fairwarning.database.restore import RestoredTables, restored_tables
from fairwarning.database.restores import Restore, jump_since
from fairwarning.database.tables import Progress, Tables, quiet
from fairwarning.engine.clock import Clock, SystemClock, new_stamp
from fairwarning.store.errors import DatabaseDamagedError, WrongDatabaseError

WALL_CLOCK = SystemClock()


class FleetDatabase(Protocol):
    """A database as a whole."""

    #: How messages name it; never a password.
    name: str

    def read(self) -> AbstractContextManager[Tables]:
        """Yield all tables as they are now; servers may go on writing."""
        ...

    def check_empty(self) -> None:
        """Check that nothing is stored."""
        ...

    def fill(self, tables: RestoredTables, last_line: int) -> None:
        """Write all rows into the empty database, in one transaction."""
        ...

    def migrate(self) -> tuple[int, int]:
        """Bring the database to the schema of this version; return its schema before and after."""
        ...

    def finish(self) -> int:
        """Lock out earlier releases; return the oldest schema that a node has to know from now on."""
        ...


class Restored(NamedTuple):
    """What a restore has written."""

    restore: Restore
    scopes: int
    machines: int
    events: int


def check_database(database: FleetDatabase, progress: Progress = quiet) -> CheckReport:
    """Check everything in a database; a database that cannot be read at all is a finding, too."""
    try:
        with database.read() as tables:
            return check_tables(tables, progress)
    except WrongDatabaseError as problem:
        return _unreadable(FindingKind.MARKER, problem)
    except DatabaseDamagedError as problem:
        return _unreadable(FindingKind.STRUCTURE, problem)


def check_backup(path: Path, progress: Progress = quiet) -> CheckReport:
    """Check everything in a backup.

    Raises:
        UnusableBackupError: the file is not a complete, unchanged backup.
    """
    with open_backup(path) as file:
        tables = read_backup(path, file)
        report = check_tables(tables, progress)
        tables.finish()
        return report


def back_up(
    database: FleetDatabase,
    path: Path,
    *,
    overwrite: bool = False,
    progress: Progress = quiet,
    clock: Clock = WALL_CLOCK,
) -> BackupTrailer:
    """Write a backup.

    Raises:
        BackupExistsError: the file exists, and may not be overwritten.
        DatabaseNotSoundError: the database is damaged.
    """
    taken_at = clock.now()  # before the database is read: whatever changes later counts as a change since
    with database.read() as tables:
        return write_backup(path, tables, taken_at, __version__, overwrite=overwrite, progress=progress)


def restore(
    database: FleetDatabase,
    path: Path,
    *,
    jump: int | None = None,
    hold: bool = True,
    progress: Progress = quiet,
    clock: Clock = WALL_CLOCK,
) -> Restored:
    """Restore a backup into an empty database; ``hold`` leaves the fleet on hold (M-08).

    The whole file is verified before anything is written, and again while it is written: a file that changes
    meanwhile leaves nothing behind.

    Raises:
        DatabaseNotEmptyError: something is stored in the database.
        UnusableBackupError: the file is not a complete, unchanged backup.
        ClockBehindError: the jump cannot be computed.
        IncarnationsUsedUpError: the jump is too large.
    """
    database.check_empty()
    with open_backup(path) as file:
        header, trailer = verify_backup(path, file, progress)
        now, stamp = clock.now(), new_stamp()
        plan = Restore(
            line=header.last_line + 1,
            jump=jump_since(header.taken_at, now) if jump is None else jump,
            taken_at=header.taken_at,
            restored_at=now,
            hold=hold,
        )

        def tables() -> RestoredTables:
            backup = read_backup(path, file)
            yield from restored_tables(backup, plan, stamp, progress)
            if backup.finish() != trailer:
                raise UnusableBackupError(path, "it has changed while it was read")

        database.fill(tables(), plan.last_line)
    return Restored(plan, trailer.rows["scope"], trailer.rows["machine"], trailer.rows["event"])


def _unreadable(kind: FindingKind, problem: DatabaseDamagedError) -> CheckReport:
    report = CheckReport()
    report.findings.add(kind, str(problem.database), problem.problem)
    return report
