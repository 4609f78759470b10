"""The journal's notes about refused requests.

Every refused request is one line of the journal. A guest that repeats a refused request gets at most one line
a minute, which counts the refusals that have no line of their own. Everything in a line that a caller can
choose has a limited length, no hidden characters, and nothing that the caller's API wants to keep secret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fairwarning.core.errors import FairWarningError
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import NO_SCOPE, EventId, MachineRef, Principal, ScopeId, VmName
from fairwarning.formats.counts import format_count
from fairwarning.formats.hidden_characters import escape_hidden

#: The shortest time between two notes about the same guest.
NOTE_AGAIN = timedelta(minutes=1)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

#: The most guests whose last note is remembered.
MOST_GUESTS = 10_000

#: The most characters of a reason and of a name, and the most machines, in one note.
LONGEST_REASON, LONGEST_NAME, MOST_MACHINES = 500, 200, 50


#: Removes from a text what a note must not say.
Redact = Callable[[str], str]


def unredacted(text: str) -> str:
    """Return a text as it is."""
    return text


class Subject(NamedTuple):
    """What a request asks for, and the scope, event or machines that it is about."""

    asked: str
    scope: ScopeId = NO_SCOPE
    event: EventId | None = None
    machines: tuple[MachineRef, ...] = ()


@dataclass(slots=True)
class _LastNote:
    """When a guest was last noted, and how many of its refusals were left out since."""

    at: datetime
    left_out: int = 0


class Refusals:
    """Remembers the last note about each guest."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._guests: dict[MachineRef, _LastNote] = {}

    def left_out(self, principal: Principal) -> int | None:
        """Return how many refusals the next note about a caller has to count; None if no note is due."""
        machine = principal.machine
        if machine is None:
            return 0
        now, last = self._now(), self._guests.get(machine)
        if last is not None and now - last.at < NOTE_AGAIN:
            last.left_out += 1
            return None
        self._guests.pop(machine, None)
        self._guests[machine] = _LastNote(now)
        if len(self._guests) > MOST_GUESTS:
            del self._guests[next(iter(self._guests))]
        return 0 if last is None else last.left_out

    def take_back(self, principal: Principal, left_out: int | None) -> None:
        """Undo ``left_out``, given what it returned: a later try of the request was not refused."""
        last = None if principal.machine is None else self._guests.get(principal.machine)
        if last is None:
            return
        if left_out is None:
            last.left_out = max(0, last.left_out - 1)
        else:
            last.at, last.left_out = _LONG_AGO, last.left_out + left_out


def refusal_note(
    principal: Principal,
    subject: Subject,
    error: FairWarningError,
    left_out: int,
    redact: Redact = unredacted,
) -> CommandRefused:
    """Return the note about a refused request, which counts the refusals that were left out before it."""

    def shorten(text: str, most: int = LONGEST_NAME) -> str:
        # Half a secret would not be recognised.
        visible = escape_hidden(redact(text)[: most + 1])
        return visible if len(visible) <= most else f"{visible[: most - 1]}…"

    def shorten_ref(machine: MachineRef) -> MachineRef:
        return MachineRef(ScopeId(shorten(machine.scope)), VmName(shorten(machine.name)))

    reason = shorten(str(error), LONGEST_REASON)
    if left_out:
        reason = f"{reason}; {format_count(left_out, 'more refusal')} since the last line"
    return CommandRefused(
        scope=ScopeId(shorten(subject.scope)),
        asked=shorten(subject.asked),
        reason=reason,
        by=str(principal),
        event=None if subject.event is None else EventId(shorten(subject.event)),
        machines=tuple(shorten_ref(machine) for machine in subject.machines[:MOST_MACHINES]),
    )
