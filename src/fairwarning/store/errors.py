"""The errors of the stores.

FairWarningError
├── DataDirectoryInUseError     another server uses the data directory
├── DataDirectoryUnusableError  the data directory cannot be created or written
├── DatabaseNotEmptyError       a backup can be restored only into an empty database
├── DatabaseDamagedError        the database is not what was written
│   └── WrongDatabaseError      the database is missing, a different one or an older copy
├── DatabaseUnsuitableError     the address cannot be read, PostgreSQL is too old, a library is missing, …
├── OlderDatabaseError          the database has to be migrated first
├── IncompatibleStoreError      (engine) only a newer version can use the database
│   └── NewerDataError          the database contains what only a newer version understands
└── StorageError                (core) a change could not be stored
    ├── StoreFailedError        the disk is full, the file is gone, …; nothing was stored
    │   └── UnknownOutcomeError the commit failed so late that the change may be stored
    ├── DatabaseAwayError       the database does not answer; nothing was stored
    │   └── AnswerLostError     the answer to a commit was lost: the change may be stored
    ├── DatabaseBusyError       other transactions were in the way, again and again
    ├── DatabaseReadOnlyError   the database is a standby, or set to read only
    ├── DatabaseRefusedError    the database refused a statement, its disk is full, …
    └── ClockAheadError         the clock of this node is ahead of the database's
"""

from datetime import timedelta
from pathlib import Path

from fairwarning.core.errors import FairWarningError, StorageError
from fairwarning.engine.ports import IncompatibleStoreError


class UnreadableRowError(Exception):
    """The database contains something that was never written; the caller adds the path."""


class NewerContentError(UnreadableRowError):
    """The database contains something that this version does not know, as it was written (U-03)."""

    def __init__(self, where: str, unknown: str) -> None:
        self.problem = f"has what this version does not know ({unknown}): a newer version wrote this"
        super().__init__(f"{where} {self.problem}")


class NewerDataError(IncompatibleStoreError):
    """The database contains what only a newer version understands."""

    def __init__(self, database: Path | str, problem: NewerContentError) -> None:
        super().__init__(f"database {database}: {problem}; install that version")


class DataDirectoryInUseError(FairWarningError):
    """Another server uses the data directory."""

    status_hint = 500

    def __init__(self, directory: Path) -> None:
        super().__init__(f"data directory {directory} is in use by another server")
        self.directory = directory


class DataDirectoryUnusableError(FairWarningError):
    """The data directory cannot be created or written."""

    status_hint = 500

    def __init__(self, directory: Path, problem: str) -> None:
        super().__init__(f"data directory {directory} cannot be used: {problem}")
        self.directory = directory
        self.problem = problem


class DatabaseNotEmptyError(FairWarningError):
    """A backup can be restored only into an empty database."""

    status_hint = 409

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is not empty; a backup is restored only into an empty database")


class DatabaseDamagedError(FairWarningError):
    """The database does not contain what was written to it."""

    status_hint = 500
    state = "is damaged"

    def __init__(self, database: Path | str, problem: str) -> None:
        super().__init__(f"database {database} {self.state}: {problem}")
        self.database = database
        self.problem = problem


class WrongDatabaseError(DatabaseDamagedError):
    """The database is not the one that belongs to the data directory."""

    state = "does not belong to this data directory"


class StoreFailedError(StorageError):
    """The database failed; nothing was stored."""

    outcome = ""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} failed: {problem}{self.outcome}", problem)
        self.path = path


class UnknownOutcomeError(StoreFailedError):
    """The database failed during a commit; it is unknown whether the change was stored."""

    outcome_unknown = True
    outcome = "; it is unknown whether the change was stored until the database can be read again"


class DatabaseUnsuitableError(FairWarningError):
    """A PostgreSQL database cannot be used as it is."""

    status_hint = 500


class OlderDatabaseError(FairWarningError):
    """The database lacks migrations of this version."""

    status_hint = 500

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema {found}, this version needs schema {known}; migrate the database"
        )
        self.found = found
        self.known = known


class DatabaseAwayError(StorageError):
    """The database does not answer; nothing was stored."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database does not answer: {problem}", "the database does not answer")


class AnswerLostError(DatabaseAwayError):
    """The answer of the database to a commit was lost; it is unknown whether the change was stored."""

    outcome_unknown = True

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; it is unknown whether the change was stored")


class DatabaseBusyError(StorageError):
    """Other transactions were in the way of a statement; nothing was stored."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database is busy: {problem}", "the database is busy")


class DatabaseReadOnlyError(StorageError):
    """The database refuses writes; nothing was stored."""

    def __init__(self) -> None:
        super().__init__("the database is read-only", "the database is read-only")


class DatabaseRefusedError(StorageError):
    """The database refused a statement; nothing was stored."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database refused a statement: {problem}", "the database reports an error")


class ClockAheadError(StorageError):
    """A change was decided at a time that the database has not reached; nothing was stored."""

    def __init__(self, ahead: timedelta) -> None:
        problem = f"the clock of this node is {ahead.total_seconds():.1f} s ahead of the database's"
        super().__init__(problem, problem)
        self.ahead = ahead
