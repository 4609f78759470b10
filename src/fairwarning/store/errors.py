"""Everything that can be wrong with a store on disk.

FairWarningError
├── DataDirectoryInUse          another server has it
├── DataDirectoryUnusable       it cannot be made or written to
├── DatabaseDamaged             the file is not what was written
│   └── WrongDatabaseError      the file is gone, another or older than what was kept here
└── StorageError                (core) a change could not be kept
    └── StoreFailed             the disk is full, the file is gone, …; nothing was kept
        └── UnknownOutcomeError it failed so late that the change may have been kept
"""

from pathlib import Path

from fairwarning.core.errors import FairWarningError, StorageError


class UnreadableRowError(Exception):
    """The database holds something that was never written to it; whoever knows its path says so."""


class DataDirectoryInUseError(FairWarningError):
    """Another server keeps its fleet here."""

    status_hint = 500

    def __init__(self, directory: Path) -> None:
        super().__init__(f"data directory {directory} is in use by another server")
        self.directory = directory


class DataDirectoryUnusableError(FairWarningError):
    """Nothing can be kept here."""

    status_hint = 500

    def __init__(self, directory: Path, problem: str) -> None:
        super().__init__(f"data directory {directory} cannot be used: {problem}")
        self.directory = directory
        self.problem = problem


class DatabaseDamagedError(FairWarningError):
    """The database does not hold what was written to it."""

    status_hint = 500
    state = "is damaged"

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} {self.state}: {problem}")
        self.path = path
        self.problem = problem


class WrongDatabaseError(DatabaseDamagedError):
    """The database is not the one that belongs here."""

    state = "is not the one that belongs here"


class StoreFailedError(StorageError):
    """The database could not do what it was asked; nothing of it was kept."""

    outcome = ""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} failed: {problem}{self.outcome}", problem)
        self.path = path


class UnknownOutcomeError(StoreFailedError):
    """The database failed while it kept a change; whether the change was kept is unknown."""

    outcome = "; whether the change was kept is unknown until the database can be read again"
