"""What every route works with."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

from fairwarning.control.control import Control
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.operator.rendered_feed import RenderedFeed
from fairwarning.streams import Streams


class ManagementEndpoint(NamedTuple):
    """The address of the management API, the certificate authority to trust, and its Azure ids."""

    url: str
    ca: Path
    certificate: str
    tenant: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What requests change the fleet with, the addresses of machines, and the state that requests share."""

    #: Carries out what requests ask for. The operator API and the console share it.
    control: Control
    endpoints: Callable[[MachineRef], str | None]
    #: Further addresses of a machine's metadata endpoint, ready to paste.
    alternatives: Callable[[MachineRef], tuple[str, ...]]
    #: Set when the server is about to stop. Feeds end then, so that no feed delays the stop.
    shutdown: asyncio.Event
    #: The management API, once it listens; None if the server has none.
    management: Callable[[], Awaitable[ManagementEndpoint | None]]
    #: Metrics of the other APIs. The list may still grow.
    metric_sources: Sequence[Callable[[], Iterable[MetricFamily]]]
    #: Long-lived responses. The operator API and the console share their limit.
    streams: Streams
    #: The newest lines of the feed, as they are sent.
    rendered_feed: RenderedFeed = field(default_factory=RenderedFeed)

    @property
    def zone(self) -> tzinfo:
        """The time zone in which operators write instants."""
        return self.control.zone

    @property
    def engine(self) -> Engine:
        """The engine, for reading."""
        return self.control.engine
