"""Which machine approves an event that names several machines.

An approval counts for every machine that the event names (R-18), so it must not be sent before all of them
are ready. Pure: the reports of the peers and the time are arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.model import EventId, EventType


class CoordinationMode(StrEnum):
    """How the machines of one event agree on its approval."""

    OWN_ONLY = "own-only"
    LEADER = "leader"
    PEERS = "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """What is known of the other machines: since when each is ready for an event, and a reason to hold."""

    ready: Mapping[tuple[EventId, str], datetime] = field(default_factory=lambda: MappingProxyType({}))
    known: frozenset[str] = frozenset()
    hold: str | None = None


NO_PEERS = Peers()


def is_same_machine(name: str, me: str) -> bool:
    """Whether a resource names this machine (C-05)."""
    folded = me.casefold()
    return name.casefold() in (folded, f"_{folded}")


def comparable(name: str) -> str:
    """Return a resource's name in the spelling that comparisons use."""
    return name.casefold().removeprefix("_")


def other_machines(event: ObservedEvent, me: str) -> tuple[str, ...]:
    """Return the other machines that an event names."""
    return tuple(comparable(name) for name in event.resources if not is_same_machine(name, me))


def objection(
    event: ObservedEvent,
    me: str,
    mode: CoordinationMode,
    peers: Peers,
    ready_at: datetime,
    takeover: timedelta,
    now: datetime,
) -> str | None:
    """Return why this machine must not approve for all machines of the event yet; None if it may."""
    others = other_machines(event, me)
    if not others:
        return None
    if mode is CoordinationMode.OWN_ONLY or event.known_kind is EventType.TERMINATE:
        # C-07, T-15: a Terminate is approved by its own machine alone.
        return f"it also names {', '.join(others)}; this machine approves only events of its own"
    # A leader is responsible for the machines without a peer address: its hooks get all the names.
    required = others if mode is CoordinationMode.PEERS else [name for name in others if name in peers.known]
    unready = [name for name in required if (event.key, name) not in peers.ready]
    if unready:
        return f"{', '.join(unready)} has not reported ready"
    rank = next((index for index, name in enumerate(event.resources) if is_same_machine(name, me)), 0)
    if rank == 0:
        return None
    if mode is CoordinationMode.LEADER:
        return f"{event.resources[0]} is named first and approves"
    # C-07: the next machine takes over when the machines before it are ready but do not approve.
    all_ready = max([ready_at, *(peers.ready[event.key, name] for name in others)])
    takeover_at = all_ready + rank * takeover
    if now < takeover_at:
        return f"{event.resources[0]} is named first; this machine takes over at {takeover_at:%H:%M:%S}"
    return None
