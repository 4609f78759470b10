"""Rules, and which of them applies to an event: the first that matches."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.model import EventType


class Consent(StrEnum):
    """When a rule lets the agent approve."""

    AFTER_SUCCESS = "after-success"
    ALWAYS = "always"
    NEVER = "never"
    IMMEDIATELY = "immediately"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do about events that match; an empty condition matches every event."""

    name: str
    types: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    min_duration: int | None = None
    max_duration: int | None = None
    resources: tuple[str, ...] = ()
    approve: Consent = Consent.AFTER_SUCCESS
    drains: bool = False
    tries: int = 1


#: C-06: a pause of seconds is shorter than any drain; only a rule that names Freeze drains for it.
SHORT_FREEZE = Rule(name="short-freeze", approve=Consent.IMMEDIATELY)

#: An event that no rule covers is only watched: there are no hooks that prepare for it.
WATCH = Rule(name="watch", approve=Consent.NEVER)


def choose(event: ObservedEvent, rules: Sequence[Rule], freeze_threshold: int) -> Rule:
    """Return the first rule that matches, else a default rule."""
    fallback = SHORT_FREEZE if _short_freeze(event, freeze_threshold) else WATCH
    return next((rule for rule in rules if matches(rule, event, freeze_threshold)), fallback)


def matches(rule: Rule, event: ObservedEvent, freeze_threshold: int) -> bool:
    """Whether a rule applies to an event."""
    kind, source = event.kind.casefold(), event.source.casefold()
    if rule.types:
        if kind not in rule.types:
            return False
    elif event.known_kind is None or _short_freeze(event, freeze_threshold):
        return False  # C-06, C-12: these need a rule that names their type
    if rule.sources and source not in rule.sources:
        return False
    if not _lasts(event, rule.min_duration, rule.max_duration):
        return False
    names = [name.casefold().removeprefix("_") for name in event.resources]
    return not rule.resources or any(fnmatchcase(name, glob) for name in names for glob in rule.resources)


def _short_freeze(event: ObservedEvent, threshold: int) -> bool:
    return (
        event.known_kind is EventType.FREEZE
        and event.duration is not None
        and 0 <= event.duration < threshold
    )


def _lasts(event: ObservedEvent, least: int | None, most: int | None) -> bool:
    # An unknown duration counts as long.
    unknown = event.duration is None or event.duration < 0
    if least is not None and not unknown and event.duration is not None and event.duration < least:
        return False
    return most is None or (not unknown and event.duration is not None and event.duration <= most)
