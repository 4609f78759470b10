"""The errors of a store on disk.

FairWarningError
├── DataDirectoryInUseError     another server uses the data directory
├── DataDirectoryUnusableError  the data directory cannot be created or written
├── DatabaseNotEmptyError       a backup can be restored only into an empty database
├── DatabaseDamagedError        the database is not what was written
│   └── WrongDatabaseError      the database is missing, a different one or an older copy
└── StorageError                (core) a change could not be stored
    └── StoreFailedError        the disk is full, the file is gone, …; nothing was stored
        └── UnknownOutcomeError the commit failed so late that the change may be stored
"""

from pathlib import Path

from fairwarning.core.errors import FairWarningError, StorageError


class UnreadableRowError(Exception):
    """The database contains something that was never written; the caller adds the path."""


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

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} {self.state}: {problem}")
        self.path = path
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
