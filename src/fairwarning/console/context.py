"""What every page works with."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fairwarning.console.journal import Recent
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.model import MachineRef, Scope
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import TimeControl
from fairwarning.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleContext:
    """The engine, where its machines can be reached, and what pages need of the server around it."""

    engine: Engine
    #: Where a machine's metadata service is.
    endpoints: Callable[[MachineRef], str | None]
    #: The other ways to it, one of which may say from which address the machine has to call.
    alternatives: Callable[[MachineRef], tuple[str, ...]]
    #: Opens the metadata endpoints of new machines, so that whoever made them can use them at once.
    welcome: Callable[[Sequence[MachineRef]], Awaitable[None]]
    #: What a machine would read right now, to the byte.
    document: Callable[[MachineRef, DocumentShape], bytes]
    #: The api-versions that guests are served, oldest first.
    versions: Mapping[str, DocumentShape]
    #: Moves manual time; every face that does so shares it.
    journeys: TimeControl
    #: What happened lately, at hand.
    recent: Recent
    #: Set when the server is about to end: live pages end then, so that nobody has to cut them off.
    closing: asyncio.Event
    #: The answers that last; every face that has some shares it.
    streams: Streams

    def seen_at(self, scope: Scope) -> datetime | None:
        """Return when a scope was polled last; None if it may have been switched on without any poll."""
        polled_at = self.engine.polled_at(scope.id)
        assumed = self.engine.policy.start_enabled and polled_at == scope.facts.enabled_at
        return None if assumed else polled_at
