"""A plain poll, answered from what is known already: who asks is looked up once, when it connects.

A poller remembers what its last poll was shown that went the long way. As long as the scope is as it was
then, the answer is there, but for its date.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fairwarning.core.model import Scope, ScopeId
from fairwarning.engine.engine import Engine
from fairwarning.http1.encoding import EncodedResponse, encode
from fairwarning.http1.messages import CacheableGet, Response
from fairwarning.http1.request_clock import Moment
from fairwarning.http1.throttle import Bucket, Rate


class RenderedDocument(NamedTuple):
    """One document: its number, and how it is answered to who does not have it and to who does."""

    tag: str
    response: Response
    without_body: Response
    whole: EncodedResponse
    unchanged: EncodedResponse


def shown(response: Response) -> RenderedDocument:
    """Return a document that was rendered, as it is answered."""
    (_, tag), *_ = response.headers
    without_body = Response(304, headers=response.headers)
    return RenderedDocument(tag.strip('"'), response, without_body, encode(response), encode(without_body))


@dataclass(slots=True, eq=False)
class RenderedScope:
    """What one state of a scope looks like to all its machines, in the versions that were asked for."""

    #: None once the scope is in another state.
    scope: Scope | None
    #: When a poll has to be kept again; until then it is noted in memory.
    stale_at: datetime
    shown: dict[str, RenderedDocument] = field(default_factory=dict)


class GuestFastPath(Bucket):
    """What is known of one machine that polls: what it was shown, and how often it may ask."""

    __slots__ = ("_engine", "_scope", "sight")

    def __init__(self, engine: Engine, scope: ScopeId, rate: Rate) -> None:
        super().__init__(rate)
        self._engine = engine
        self._scope = scope
        #: None if the machine has to go the long way: it has not yet, or something ails its endpoint.
        self.sight: RenderedScope | None = None

    def answer(self, get: CacheableGet, moment: Moment) -> bytes | None:
        """Return the answer as it is sent; None if only the long way leads to one."""
        sight, now = self.sight, moment.now
        if sight is None or now >= sight.stale_at or not self._engine.noted(self._scope, sight.scope, now):
            return None
        shown = sight.shown.get(get.variant)
        if shown is None:
            return None
        # who asks too often is told so the long way, which is charged for.
        if not self.admits(moment.time):
            return None
        return (shown.unchanged if shown.tag in get.tags else shown.whole).dated(moment.date)
