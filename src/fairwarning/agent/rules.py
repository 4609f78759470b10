"""Which of the owner's rules an event falls under: the first that matches."""

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
    """What to do about the events that match; an empty condition matches everything."""

    name: str
    types: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    min_duration: int | None = None
    max_duration: int | None = None
    resources: tuple[str, ...] = ()
    approve: Consent = Consent.AFTER_SUCCESS
    drains: bool = False
    tries: int = 1


#: C-06: a pause of seconds is shorter than any drain; whoever wants to drain for it names Freeze in a rule.
SHORT_FREEZE = Rule(name="short-freeze", approve=Consent.IMMEDIATELY)

#: What no rule covers is watched and left to its time: nobody has said how to get ready for it.
WATCH = Rule(name="watch", approve=Consent.NEVER)


def choose(event: ObservedEvent, rules: Sequence[Rule], freeze_threshold: int) -> Rule:
    """Return the first rule that matches, else one of the defaults."""
    fallback = SHORT_FREEZE if _short_freeze(event, freeze_threshold) else WATCH
    return next((rule for rule in rules if matches(rule, event, freeze_threshold)), fallback)


def matches(rule: Rule, event: ObservedEvent, freeze_threshold: int) -> bool:
    """Whether an event falls under a rule."""
    kind, source = event.kind.casefold(), event.source.casefold()
    if rule.types:
        if kind not in rule.types:
            return False
    elif event.known_kind is None or _short_freeze(event, freeze_threshold):
        return False  # C-06, C-12: these take a rule that names them
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
    # A duration nobody knows may be the longest of all.
    unknown = event.duration is None or event.duration < 0
    if least is not None and not unknown and event.duration is not None and event.duration < least:
        return False
    return most is None or (not unknown and event.duration is not None and event.duration <= most)
