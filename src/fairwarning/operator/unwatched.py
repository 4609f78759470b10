"""What to say when something is done to machines whose guests do not look."""

from collections.abc import Iterable, Mapping

from fairwarning.core.model import Event, Scope, ScopeId


def hint(known: Mapping[ScopeId, Scope], led_to: Iterable[Event]) -> str | None:
    """Say which scopes nobody polls, of those that the events are about; None if all are looked after."""
    unseen = [one for one in led_to if not one.seen]
    unwatched = {one.scope: one for one in unseen if one.scope in known and not known[one.scope].enabled}
    if not unwatched:
        return None
    outcome = "will act unseen" if any(one.waiting for one in unwatched.values()) else "acted at once"
    return f"nobody polls {', '.join(unwatched)}: {outcome}; hint: poll first, or up --start-enabled"
