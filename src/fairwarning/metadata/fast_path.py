"""The fast path: answers a repeated poll from a rendered document, without parsing, routing or checking.

A machine is looked up once, when it connects. Its ``GuestFastPath`` then remembers the ``RenderedScope``
of its last poll on the slow path: one state of its scope, and the responses encoded from it. A
poll is answered from there if

* the state of the node is not stale (R-29), and
* the scope is still the same object (``engine.record_poll_if_current`` compares identities), and
* the api-version was rendered before, and
* the token bucket of the machine has a token (R-10).

Otherwise ``answer`` returns None and the request takes the slow path through ``app.py``. Whatever gives a
machine another view (an endpoint fault, a replay, a scope that does not broadcast) clears ``rendered``, so
the fast path need not check for any of it. Nor has it to note who reads an event: the slow path leads here
only to documents without an event that lists the machine and is unread.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fairwarning.core.model import Event, Scope, ScopeId, VmName
from fairwarning.engine.engine import Engine
from fairwarning.http1.encoding import EncodedResponse, encode
from fairwarning.http1.messages import CacheableGet, Response
from fairwarning.http1.request_clock import Moment
from fairwarning.http1.throttle import Bucket, Rate


class RenderedDocument(NamedTuple):
    """One document as a response, and as a 304 for guests that have it already."""

    tag: str
    response: Response
    not_modified: Response
    encoded: EncodedResponse
    encoded_304: EncodedResponse


def render_responses(response: Response) -> RenderedDocument:
    """Return every form in which a document is sent."""
    (_, tag), *_ = response.headers
    not_modified = Response(304, headers=response.headers)
    return RenderedDocument(tag.strip('"'), response, not_modified, encode(response), encode(not_modified))


@dataclass(slots=True, eq=False)
class RenderedScope:
    """One state of a scope, with its documents by api-version; all machines of the scope share it."""

    #: None once the scope is in another state.
    scope: Scope | None
    #: When a poll has to be written to the store again; until then it is recorded in memory only.
    stale_at: datetime
    documents: dict[str, RenderedDocument] = field(default_factory=dict)
    #: The events that list a machine, until a poll of the machine has shown them (R-30).
    unread: dict[VmName, list[Event]] = field(default_factory=dict)


class GuestFastPath(Bucket):
    """The last rendered scope of one machine, and the token bucket that limits its requests."""

    __slots__ = ("_engine", "_freshness", "_scope", "rendered")

    def __init__(self, engine: Engine, scope: ScopeId, rate: Rate) -> None:
        super().__init__(rate)
        self._engine = engine
        self._freshness = engine.freshness
        self._scope = scope
        #: None if the next poll has to take the slow path.
        self.rendered: RenderedScope | None = None

    def answer(self, get: CacheableGet, moment: Moment) -> bytes | None:
        """Return the response as it is sent; None if the poll has to take the slow path."""
        rendered, now = self.rendered, moment.now
        if (
            rendered is None
            or self._freshness.stale  # not as of the moment: the process may have stood still since
            or now >= rendered.stale_at
            or not self._engine.record_poll_if_current(self._scope, rendered.scope, now)
        ):
            return None
        document = rendered.documents.get(get.variant)
        if document is None:
            return None
        # a poll over the limit gets its 429 on the slow path, which is charged to the caller.
        if not self.take(moment.time):
            return None
        return (document.encoded_304 if document.tag in get.tags else document.encoded).dated(moment.date)
