"""What a machine looks like after an impact that went as its event type says."""

from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import EventType, EvictionPolicy, PowerState

_DELETED = frozenset({(EventType.TERMINATE, policy) for policy in EvictionPolicy}) | {
    (EventType.PREEMPT, EvictionPolicy.DELETE)
}
_STOPPED = frozenset({(EventType.PREEMPT, EvictionPolicy.DEALLOCATE)})


def completed(impact: Impact) -> Observation:
    """Return the observation of an impact that is done; a machine that moved may be on any host."""
    effect = impact.kind, impact.eviction
    return impact.observed(Progress.DONE)._replace(
        exists=effect not in _DELETED,
        power=PowerState.STOPPED if effect in _STOPPED else None,
    )
