"""How far a restore moves the incarnations forward, and where a database records its restores.

After a backup was taken, the server goes on, and guests see incarnations that the backup does not know. A
guest must never see one of them again with another document. So a restore adds a *jump* to every incarnation:
more than any document can have changed since the backup. Each change of a document increments its incarnation
once, in a decision that is stored in a transaction of its own scope, so the number of changes is limited by
time. The jump allows ``RATE`` changes of one document per second on average since the backup was taken, and
``BURST`` more. A set that is created only after the backup is unknown to it; its incarnations started from
the floor of all new sets (``ANY_SET``), which gets the same jump.

Guests may read incarnations as 32-bit integers, so no incarnation may exceed ``MOST``.
"""

from datetime import datetime, timedelta
from math import ceil

import msgspec

from fairwarning.database.errors import ClockBehindError, IncarnationsUsedUpError

#: The key of the restores in the table ``note``.
RESTORES = "restores"

#: Changes of one document: per second on average since the backup, and in addition.
RATE, BURST = 100, 1_000_000

#: The largest incarnation: the largest integer of 32 bits.
MOST = 2**31 - 1

#: How much the clock of the host that restores may be behind the one that took the backup.
CLOCK_TOLERANCE = timedelta(minutes=10)


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """A restore: the line that records it, and the jump of the incarnations and fences."""

    line: int
    jump: int
    taken_at: datetime
    restored_at: datetime
    #: Whether the fleet is on hold until somebody has looked at what was restored.
    hold: bool = False

    @property
    def last_line(self) -> int:
        """The last line that the restore adds to the journal."""
        return self.line + (3 if self.hold else 1)


def jump_since(taken_at: datetime, now: datetime) -> int:
    """Return how far incarnations must move so that no guest sees one again.

    Raises:
        ClockBehindError: the clock is before the time of the backup.
    """
    age = now - taken_at
    if age < -CLOCK_TOLERANCE:
        raise ClockBehindError(taken_at, now)
    return BURST + ceil(max(age, timedelta(0)).total_seconds()) * RATE


def moved(where: str, incarnation: int, jump: int) -> int:
    """Return an incarnation after a restore.

    Raises:
        IncarnationsUsedUpError: the incarnation would not fit into 32 bits.
    """
    if incarnation + jump > MOST:
        raise IncarnationsUsedUpError(where, incarnation, jump, MOST)
    return incarnation + jump


def read_restores(text: str | None) -> tuple[Restore, ...]:
    """Return the restores of a database, the oldest first.

    Raises:
        ValueError: the text is not what a restore has written.
    """
    return () if text is None else msgspec.json.decode(text, type=tuple[Restore, ...])


def restores_text(restores: tuple[Restore, ...]) -> str:
    """Return the text that ``read_restores`` reads."""
    return msgspec.json.encode(restores).decode()
