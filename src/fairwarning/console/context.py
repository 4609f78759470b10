"""The context that every page receives."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fairwarning.console.journal import JournalCache
from fairwarning.control.control import Control
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.model import MachineRef, Scope
from fairwarning.engine.engine import Engine
from fairwarning.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleContext:
    """What forms change the fleet with, the addresses of machines, and the parts of the server in use."""

    #: Carries out what forms ask for; shared with the operator API.
    control: Control
    #: Returns the URL of a machine's metadata endpoint.
    endpoints: Callable[[MachineRef], str | None]
    #: Returns other URLs of the endpoint.
    alternatives: Callable[[MachineRef], tuple[str, ...]]
    #: Returns the document that a machine would read now, byte for byte.
    document: Callable[[MachineRef, DocumentShape], bytes]
    #: The api-versions that guests can use, oldest first.
    versions: Mapping[str, DocumentShape]
    #: The newest part of the journal, in memory.
    journal: JournalCache
    #: Set when the server shuts down; live pages end then.
    shutdown: asyncio.Event
    #: The open live streams; shared with the operator API.
    streams: Streams

    @property
    def engine(self) -> Engine:
        """The engine, for reading."""
        return self.control.engine

    def seen_at(self, scope: Scope) -> datetime | None:
        """Return the last poll of a scope; None if the scope was enabled by a setting, without a poll."""
        polled_at = self.engine.polled_at(scope.id)
        assumed = self.engine.policy.start_enabled and polled_at == scope.facts.enabled_at
        return None if assumed else polled_at
