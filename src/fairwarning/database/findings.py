"""What a check finds: each kind of finding has a name."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

#: The number of findings that are kept; the others are counted.
MOST_FINDINGS = 1000


class FindingKind(StrEnum):
    """The kinds of findings; all but ``NEWER`` are damage."""

    #: The database is not the one that belongs to its data directory, or an older copy.
    MARKER = "marker"
    #: SQLite or PostgreSQL finds the files or the tables themselves damaged.
    STRUCTURE = "structure"
    #: A row is not what was written.
    CHECKSUM = "checksum"
    #: A row is what was written, but its content cannot be decoded.
    UNREADABLE = "unreadable"
    #: A row is what was written, and only a newer version understands it.
    NEWER = "newer"
    #: A column contradicts the body of its row.
    COLUMN = "column"
    #: A row belongs to a scope that does not exist.
    ORPHAN = "orphan"
    #: The machines or events of a scope are not in order of creation.
    ORDER = "order"
    #: A line of the journal is missing.
    GAP = "gap"
    #: The journal does not end with the line that was stored last.
    END = "end"
    #: The lines of a batch or of a request are not together, or not complete.
    BATCH = "batch"
    #: The journal skips or repeats a version of a scope.
    VERSION = "version"
    #: The journal lets the incarnation of a document go back.
    INCARNATION = "incarnation"
    # A row that differs from what the journal leads to.
    SCOPE = "scope"
    MACHINE = "machine"
    EVENT = "event"
    POLL = "poll"
    SET = "set"
    TEXT = "text"
    #: The stamp of a row is not the stamp of the batch that wrote it last.
    STAMP = "stamp"
    #: A value of the service has no meaning.
    VALUE = "value"
    LEASE = "lease"
    #: A receipt names a batch that the journal does not have.
    RECEIPT = "receipt"
    #: The partitions of the journal have a gap.
    PARTITION = "partition"


class DatabaseFinding(NamedTuple):
    """One thing that is wrong: its kind, the row or line, and what is wrong with it."""

    kind: FindingKind
    where: str
    problem: str


#: Reports what is wrong: kind, row or line, problem.
Report = Callable[[FindingKind, str, str], None]


class Findings:
    """The findings of a check; the first ones are kept, all are counted."""

    def __init__(self) -> None:
        self.kept: list[DatabaseFinding] = []
        self.counts: Counter[FindingKind] = Counter()

    def add(self, kind: FindingKind, where: str, problem: str) -> None:
        """Add a finding."""
        self.counts[kind] += 1
        if len(self.kept) < MOST_FINDINGS:
            self.kept.append(DatabaseFinding(kind, where, problem))

    @property
    def total(self) -> int:
        """The number of all findings."""
        return self.counts.total()
