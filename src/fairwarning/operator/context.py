"""What every route works with."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import TimeControl
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.operator.rendered_feed import RenderedFeed
from fairwarning.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementEndpoint:
    """Where the management face is, whom its clients are to trust, and what it is in Azure's terms."""

    url: str
    ca: Path
    certificate: str
    tenant: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """The engine, where its machines can be reached, and what the operator's requests share."""

    engine: Engine
    endpoints: Callable[[MachineRef], str | None]
    #: The other ways to a machine's metadata service, as one would paste them.
    alternatives: Callable[[MachineRef], tuple[str, ...]]
    #: Opens the metadata endpoints of new machines, so that whoever made them can use them at once.
    welcome: Callable[[Sequence[MachineRef]], Awaitable[None]]
    #: Set when the server is about to end: feeds end then, so that nobody has to cut them off.
    closing: asyncio.Event
    #: Where the management face is, as soon as it is there.
    management: Callable[[], Awaitable[ManagementEndpoint | None]]
    #: Moves manual time; every face that does so shares it.
    journeys: TimeControl
    #: What the other faces have counted.
    counted: Callable[[], Iterable[MetricFamily]]
    #: The answers that last; every face that has some shares it.
    streams: Streams
    #: The newest lines of the feed, as they are sent.
    rendered: RenderedFeed = field(default_factory=RenderedFeed)
