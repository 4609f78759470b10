"""What the clients of a cluster were told, and nothing else: the basis of every promise that is checked.

Each try of a write has an outcome. A try without an answer may be carried out, at any time, or not.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

#: How long a guest that has moved to another node may be shown an older document.
STALE = timedelta(seconds=5)


class Outcome(StrEnum):
    """What the answer to a write says."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Reply(NamedTuple):
    """The answer to a write; status 0 if there was none."""

    outcome: Outcome
    status: int = 0
    body: bytes = b""
    #: Where the status of a management operation can be read.
    operation: str = ""


class Write(NamedTuple):
    """One try of a write: its kind, what it was about, and the answer."""

    kind: str
    subject: str
    outcome: Outcome
    status: int
    #: When the answer came, or was given up.
    at: datetime


class Seen(NamedTuple):
    """The start of a process of a node, and the document that it showed."""

    process: str
    incarnation: int


@dataclass
class Answers:
    """All answers of a run."""

    writes: list[Write] = field(default_factory=list)
    #: The notice of each event that an operator caused, as asked for.
    notices: dict[str, timedelta] = field(default_factory=dict)
    #: The paths of management operations.
    operations: list[str] = field(default_factory=list)
    polls: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    _seen: dict[str, Seen] = field(default_factory=dict)
    _highest: dict[str, int] = field(default_factory=dict)
    _behind_since: dict[str, float] = field(default_factory=dict)
    #: The longest time for which a guest was shown older documents.
    behind: float = 0.0

    def complain(self, text: str) -> None:
        """Record a broken promise."""
        self.violations.append(text)

    def wrote(self, kind: str, subject: str, reply: Reply) -> None:
        """Record a try of a write."""
        self.writes.append(Write(kind, subject, reply.outcome, reply.status, datetime.now(UTC)))

    def tries(self, kind: str, subject: str) -> Counter[Outcome]:
        """Return the outcomes of all tries of a write."""
        return Counter(
            write.outcome for write in self.writes if (write.kind, write.subject) == (kind, subject)
        )

    def done(self, kind: str) -> Iterator[Write]:
        """Return the writes of a kind that were answered as done."""
        return (write for write in self.writes if write.kind == kind and write.outcome is Outcome.DONE)

    def saw(self, guest: str, process: str, incarnation: int, *, cut_off: bool) -> None:
        """Record a document: with one process it never goes back, elsewhere for at most five seconds.

        A node that is cut off from the database, or has just stood still, answers from memory; only the time
        after that counts.
        """
        now, before = time.monotonic(), self._seen.get(guest)
        if before is not None and before.process == process and incarnation < before.incarnation:
            self.complain(f"{guest} was shown {incarnation} after {before.incarnation} by {process}")
        self._seen[guest] = Seen(process, incarnation)
        highest = self._highest.get(guest, 0)
        if incarnation >= highest:
            self._highest[guest] = incarnation
            self._behind_since.pop(guest, None)
            return
        if cut_off:
            self._behind_since[guest] = now
        behind = now - self._behind_since.setdefault(guest, now)
        self.behind = max(self.behind, behind)
        if behind > STALE.total_seconds():
            self.complain(f"{guest} was shown {incarnation} by {process} {behind:.1f} s after {highest}")

    def longest_silence(self) -> timedelta:
        """Return the longest time in which no write at all was answered as done."""
        times = sorted(write.at for write in self.writes if write.outcome is Outcome.DONE)
        return max((later - earlier for earlier, later in pairwise(times)), default=timedelta(0))

    def counts(self) -> dict[str, Counter[str]]:
        """Return how many tries of each kind had each outcome, with the status of the answer."""
        counts: dict[str, Counter[str]] = {}
        for write in self.writes:
            counts.setdefault(write.kind, Counter())[f"{write.outcome} ({write.status or 'no answer'})"] += 1
        return counts
