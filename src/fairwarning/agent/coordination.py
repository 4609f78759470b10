"""Who speaks for the machines that one event names together.

An approval counts for every machine an event names (R-18), so it must not be given before all of them are
ready. Pure: what the others have said arrives as an argument, and so does the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.model import EventId, EventType


class CoordinationMode(StrEnum):
    """How machines that share an event agree."""

    OWN_ONLY = "own-only"
    LEADER = "leader"
    PEERS = "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """What this machine knows of the others: since when each is ready for an event, and a reason to hold."""

    ready: Mapping[tuple[EventId, str], datetime] = field(default_factory=lambda: MappingProxyType({}))
    known: frozenset[str] = frozenset()
    hold: str | None = None


ALONE = Peers()


def same(name: str, me: str) -> bool:
    """Whether a resource names this machine (C-05)."""
    mine = me.casefold()
    return name.casefold() in (mine, f"_{mine}")


def plain(name: str) -> str:
    """Return a resource's name in the spelling used for comparing."""
    return name.casefold().removeprefix("_")


def others(event: ObservedEvent, me: str) -> tuple[str, ...]:
    """Return the other machines an event names."""
    return tuple(plain(name) for name in event.resources if not same(name, me))


def objection(
    event: ObservedEvent,
    me: str,
    mode: CoordinationMode,
    around: Peers,
    ready_at: datetime,
    takeover: timedelta,
    now: datetime,
) -> str | None:
    """Return why this machine must not speak for all machines of the event yet, if there is a reason."""
    rest = others(event, me)
    if not rest:
        return None
    if mode is CoordinationMode.OWN_ONLY or event.known_kind is EventType.TERMINATE:
        # C-07, T-15: a Terminate is approved by its own machine alone.
        return f"it names {', '.join(rest)} too, and this machine speaks only for itself"
    # A leader whose neighbours cannot be asked answers for them: its hooks are given all the names.
    asked = rest if mode is CoordinationMode.PEERS else tuple(name for name in rest if name in around.known)
    unready = [name for name in asked if (event.key, name) not in around.ready]
    if unready:
        return f"{', '.join(unready)} has not said that it is ready"
    rank = next((index for index, name in enumerate(event.resources) if same(name, me)), 0)
    if rank == 0:
        return None
    if mode is CoordinationMode.LEADER:
        return f"{event.resources[0]} is named first and approves"
    # C-07: the next one named steps in when those before it are ready and yet stay silent.
    all_ready = max([ready_at, *(around.ready[event.key, name] for name in rest)])
    turn = all_ready + rank * takeover
    if now < turn:
        return f"{event.resources[0]} is named first; this machine takes over at {turn:%H:%M:%S}"
    return None
