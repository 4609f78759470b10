"""What a request led to, and what to say when it was done to machines whose guests do not look."""

from collections.abc import Iterable, Mapping, Sequence

from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.model import Event, EventId, Scope, ScopeId, derive_id


def events_caused_by(first: EventId, changes: Sequence[Change]) -> list[Event]:
    """Return the events that the request with this id led to, as ``changes`` left them."""
    # What else fell due in the same decision is not what this request led to.
    ids = (first, *(derive_id(first, str(number)) for number in range(1, len(changes))))
    changed = {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}
    return [changed[one] for one in ids if one in changed]


def unpolled_hint(known: Mapping[ScopeId, Scope], events: Iterable[Event]) -> str | None:
    """Say which scopes nobody polls, of those that the events are about; None if all are looked after."""
    unseen = [one for one in events if not one.seen]
    unwatched = {one.scope: one for one in unseen if one.scope in known and not known[one.scope].enabled}
    if not unwatched:
        return None
    outcome = "will act unseen" if any(one.waiting for one in unwatched.values()) else "acted at once"
    return f"nobody polls {', '.join(unwatched)}: {outcome}; hint: poll first, or up --start-enabled"
