"""What every route works with."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The engine, where its machines can be reached, and what the operator's requests share."""

    engine: Engine
    endpoints: Callable[[MachineRef], str | None]
    #: Opens the metadata endpoints of new machines, so that whoever made them can use them at once.
    welcome: Callable[[Sequence[MachineRef]], Awaitable[None]]
    #: Set when the server is about to end: feeds end then, so that nobody has to cut them off.
    closing: asyncio.Event
    #: Held while manual time moves: two travellers at once would each see half a journey.
    travelling: asyncio.Lock = field(default_factory=asyncio.Lock)
