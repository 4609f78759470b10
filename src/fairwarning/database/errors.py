"""Why a database cannot be checked, backed up, restored or migrated.

FairWarningError
├── NoDatabaseError          there is no database
├── NodesRunningError        nodes use the database that must not
├── NothingToFinishError     the migration of a data directory needs no second step
├── DatabaseNotSoundError    a damaged database is not backed up
├── BackupExistsError        the file of a new backup exists already
├── UnusableBackupError      the file is not a complete, unchanged backup
│   └── NewerBackupError     the file has a format that this version does not know
├── ClockBehindError         the clock is before the time of the backup
└── IncarnationsUsedUpError  an incarnation would not fit into 32 bits
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fairwarning import __version__
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.timestamps import for_people


class NoDatabaseError(FairWarningError):
    """There is no database."""

    status_hint = 404

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} has no database")


class NodesRunningError(FairWarningError):
    """Nodes use the database that must not."""

    status_hint = 409

    def __init__(self, where: str, nodes: Sequence[tuple[str, str]]) -> None:
        """Take the name of the database, and the name and release of each node."""
        names = ", ".join(f"{name} (release {release})" for name, release in nodes)
        super().__init__(f"{where} is in use by {names}")


class NothingToFinishError(FairWarningError):
    """The database has no migration that could be finished."""

    status_hint = 400

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} has nothing to finish: only one server uses it")


class DatabaseNotSoundError(FairWarningError):
    """The database has a row that was never written; it cannot be backed up."""

    status_hint = 500

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database is damaged and cannot be backed up: {problem}")


class BackupExistsError(FairWarningError):
    """The file of a new backup exists already."""

    status_hint = 409

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists already")


class UnusableBackupError(FairWarningError):
    """The file is not a complete, unchanged backup."""

    status_hint = 400

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} cannot be restored: {problem}")


class NewerBackupError(UnusableBackupError):
    """A newer version wrote the file."""

    def __init__(self, path: Path, found: int, known: int, release: str) -> None:
        super().__init__(
            path,
            f"it has format {found}, this version ({__version__}) reads formats up to {known}; "
            f"install version {release} or newer",
        )


class ClockBehindError(FairWarningError):
    """The clock is before the time at which the backup was taken."""

    status_hint = 500

    def __init__(self, taken_at: datetime, now: datetime) -> None:
        taken, clock = for_people(taken_at), for_people(now)
        super().__init__(f"the backup was taken at {taken}, but the clock of this host is at {clock}")


class IncarnationsUsedUpError(FairWarningError):
    """An incarnation would not fit into 32 bits."""

    status_hint = 500

    def __init__(self, where: str, incarnation: int, jump: int, most: int) -> None:
        super().__init__(
            f"{where}: incarnation {incarnation} and a jump of {jump} exceed {most}, the largest number that"
            " every guest can read"
        )
