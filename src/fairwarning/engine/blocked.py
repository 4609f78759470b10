"""Finds the scopes whose events may start because what was in their way has changed (M-09).

A blocked event has no deadline. It waits for a hold, a budget or a place to change: stored values, which any
node may have written.
"""

from collections.abc import Iterable, Iterator

from fairwarning.core.model import ScopeId
from fairwarning.core.stored.kinds import BUDGETS, HOLD, HOLD_OF_HOST, PLACES
from fairwarning.engine.directory import Directory
from fairwarning.engine.replica import Replica


def unblocked_scopes(replica: Replica, changed: Iterable[str]) -> Iterator[ScopeId]:
    """Yield scopes to look at after some stored values have changed, by their keys."""
    for key in changed:
        if key == BUDGETS.key() or HOLD.has(key) or HOLD_OF_HOST.has(key):
            yield from blocked_scopes(replica)
        elif PLACES.has(key):
            yield from _first_in_queue(replica, key)


def blocked_scopes(replica: Replica) -> list[ScopeId]:
    """Return the scopes with events that are ready and do not start."""
    return [
        scope.id
        for scope in replica.all_scopes()
        if scope.events and any(event.blocked for event in scope.events.values())
    ]


def _first_in_queue(replica: Replica, key: str) -> tuple[ScopeId, ...]:
    text = replica.text(key)
    queue = () if text is None else PLACES.decode(text).queue
    # One scope is enough: all behind a barrier are decided together.
    return Directory(replica).scopes_behind(queue[0].barrier)[:1] if queue else ()
