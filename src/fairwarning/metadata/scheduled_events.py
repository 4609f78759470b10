"""``/metadata/scheduledevents``: polls, long polls and approvals.

The machines of a scope share one document, so it is rendered once for each state of the scope and each
api-version (``RenderedScope``), not once for each machine. Machines with a view of their own (``views.py``)
are rendered one by one.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType

from fairwarning.control.control import Control
from fairwarning.core.document.render import parse_start_requests
from fairwarning.core.document.versions import EVENT_VERSIONS, PREVIEW_SHAPE, PREVIEW_VERSION, DocumentShape
from fairwarning.core.errors import FairWarningError, InvalidError, UnknownEventError
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import Event, EventId, MachineRef, Scope, ScopeId, VmName, guest
from fairwarning.core.policy import FirstCall, Profile
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.metadata.checks import (
    STALE,
    CheckFailedError,
    GuestHeader,
    error,
    error_response,
    header_values,
    known_tags,
)
from fairwarning.metadata.fast_path import RenderedDocument, RenderedScope, render_responses
from fairwarning.metadata.faulty_answers import WITHOUT_EVENTS
from fairwarning.metadata.long_poll import LongPoll, LongPolls
from fairwarning.metadata.views import ScopeView, Views

#: The longest ``wait`` in seconds; a client that wants more asks again.
MAX_WAIT = 300.0

_ALWAYS_STALE = datetime.min.replace(tzinfo=UTC)


class ScheduledEvents:
    """Answers polls and approvals that have passed every check."""

    def __init__(self, control: Control, profile: Profile) -> None:
        self._control = control
        self._engine = control.engine
        self._profile = profile
        self._rendered: dict[ScopeId, RenderedScope] = {}
        #: When the scopes that are being enabled show their first document (R-25), in loop time.
        self._enabled_at: dict[ScopeId, float] = {}
        self._long_polls = LongPolls(self._engine.feed, self)
        self.shapes = served_shapes(profile)
        self.views = Views(control)

    def poll(self, machine: MachineRef, version: str, request: Request, wait: float) -> Reply:
        """Record the poll and return the document; with ``wait``, once it differs from what the guest has."""
        self._check_fresh()
        if machine.scope in self._enabled_at or not self._engine.record_poll(machine):
            return self._first_poll(machine, version, request, wait)
        return self._respond_or_hold(machine, version, request, wait)

    async def _first_poll(self, machine: MachineRef, version: str, request: Request, wait: float) -> Response:
        if not await self._record_poll(machine):
            return Response(200)
        reply = self._respond_or_hold(machine, version, request, wait)
        return reply if isinstance(reply, Response) else await reply

    def _respond_or_hold(
        self, machine: MachineRef, version: str, request: Request, wait: float
    ) -> Response | LongPoll:
        response = self._respond(machine, version, request)
        if response.status != 304 or not wait:
            return response
        until = asyncio.get_running_loop().time() + wait
        return LongPoll(self._long_polls, machine, version, request, until)

    def next_change(self, machine: MachineRef) -> float:
        """Return when the document of a machine may change although its scope does not."""
        return self.views.next_change(machine)

    def current_response(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Return the response to a poll without recording the poll: 304 if the guest has the document."""
        try:
            return self._respond(machine, version, request)
        except FairWarningError as problem:
            return error_response(problem)

    def _check_fresh(self) -> None:
        """Refuse a request that would be answered from a state that may be old (R-29)."""
        if self._engine.freshness.stale:
            raise CheckFailedError(STALE)

    def _respond(self, machine: MachineRef, version: str, request: Request) -> Response:
        self._check_fresh()
        document, unread = self._document(machine, version)
        tags = known_tags(request)
        has_document = document.tag in tags
        if has_document or "*" not in tags:
            self._note_read(machine, version, unread)
        return document.not_modified if has_document or "*" in tags else document.response

    async def approve(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Approve all events that the body names, or none (R-12 to R-18)."""
        if self._engine.freshness.stale:
            _start_requests(request)  # a body that no node would accept is refused for good
            raise CheckFailedError(STALE)
        await self._record_poll(machine)
        try:
            await self.views.view(machine).approve(_start_requests(request))
        except UnknownEventError as unknown:
            # for a guest, an event it cannot see does not exist.
            raise CheckFailedError(error(400, f"Bad request. {unknown}")) from None
        if self._profile.post_returns_document:
            document, unread = self._document(machine, version)
            self._note_read(machine, version, unread)
            return document.response
        return Response(200)

    async def _record_poll(self, machine: MachineRef) -> bool:
        """Record a poll, which may enable the scope; False if the guest gets no document yet (R-21, R-25)."""
        now = asyncio.get_running_loop().time()
        mode, delay = self._profile.first_call, self._profile.first_call_delay.total_seconds()
        if mode is not FirstCall.NONE and not self._engine.scope(machine.scope).enabled:
            self._enabled_at.setdefault(machine.scope, now + delay)
        await self._control.poll(guest(machine), machine)
        if mode is FirstCall.NONE:
            return True
        remaining = self._enabled_at.get(machine.scope, now) - now
        if mode is FirstCall.DELAY:
            await asyncio.sleep(max(remaining, 0.0))
        elif remaining > 0:
            return False
        self._enabled_at.pop(machine.scope, None)
        return True

    def rendered_scope(self, machine: MachineRef) -> RenderedScope | None:
        """Return the rendered document of a machine's scope; None if the machine has a view of its own."""
        scope = self._engine.scope(machine.scope)
        if not scope.facts.broadcast or self.views.own(machine) is not None:
            return None
        rendered = self._rendered.get(scope.id)
        if rendered is None or rendered.scope is not scope:
            rendered = self._rendered[scope.id] = self._replace_rendered(scope, rendered)
        rendered.stale_at = self._engine.stale_at(scope.id) or _ALWAYS_STALE
        return rendered

    def fast_path_scope(self, machine: MachineRef, version: str) -> RenderedScope | None:
        """Return from what the fast path may answer a machine that has polled; None from nothing (R-30)."""
        rendered = self.rendered_scope(machine)
        unread = None if rendered is None else rendered.unread.get(machine.name)
        if rendered is None or not unread:
            return rendered
        if any(event.kind in self.shapes[version].kinds for event in unread):
            return None
        # What is unread is in documents of other versions.
        return RenderedScope(rendered.scope, rendered.stale_at, {version: rendered.documents[version]})

    def _replace_rendered(self, scope: Scope, before: RenderedScope | None) -> RenderedScope:
        if before is None or before.scope is None:
            return RenderedScope(scope, _ALWAYS_STALE, unread=_unread_events(scope))
        # Compared by identity too: a scope that was created again may reach the same incarnation.
        if before.scope.events is scope.events and before.scope.incarnation == scope.incarnation:
            rendered = RenderedScope(scope, _ALWAYS_STALE, before.documents, before.unread)
        else:
            rendered = RenderedScope(scope, _ALWAYS_STALE, unread=_unread_events(scope))
        # Fast paths still refer to the old object; it must not keep the old scope and documents alive.
        before.scope, before.documents, before.unread = None, {}, {}
        return rendered

    def _document(self, machine: MachineRef, version: str) -> tuple[RenderedDocument, list[Event]]:
        """Return the document of a machine, and the events in it that list the machine and may be unread."""
        rendered = self.rendered_scope(machine)
        if rendered is None:
            source = self.views.view(machine).document()
            return render_responses(source.response(self.shapes[version])), source.listing(machine.name)
        document = rendered.documents.get(version)
        if document is None:
            response = ScopeView(self._control, machine).document().response(self.shapes[version])
            document = rendered.documents[version] = render_responses(response)
        return document, rendered.unread.get(machine.name) or []

    def _note_read(self, machine: MachineRef, version: str, unread: list[Event]) -> None:
        """Record that a guest is shown events, and leave those that its api-version does not have (R-30)."""
        if not unread or self._hides_events(machine):
            return
        kinds = self.shapes[version].kinds
        self._engine.record_read(machine.name, [event for event in unread if event.kind in kinds])
        unread[:] = [event for event in unread if event.kind not in kinds]

    def _hides_events(self, machine: MachineRef) -> bool:
        fault = self._engine.faults.of(machine, asyncio.get_running_loop().time())
        return fault is not None and fault.kind in WITHOUT_EVENTS

    def forget(self, scope: ScopeId) -> None:
        """Drop everything about a scope that was deleted."""
        self._enabled_at.pop(scope, None)
        self._rendered.pop(scope, None)


def _unread_events(scope: Scope) -> dict[VmName, list[Event]]:
    """Return the events in the document of a scope by the machines that they list."""
    events: dict[VmName, list[Event]] = {}
    for event in visible_events(scope):
        for name in event.resources:
            events.setdefault(name, []).append(event)
    return events


def _start_requests(request: Request) -> tuple[EventId, ...]:
    try:
        return parse_start_requests(request.body)
    except InvalidError as problem:
        raise CheckFailedError(error(400, f"Bad request. {problem}")) from None


def served_shapes(profile: Profile) -> Mapping[str, DocumentShape]:
    """Return the api-versions that a profile serves, with the document shape of each."""
    served = {
        version: shape
        for version, shape in EVENT_VERSIONS.items()
        if profile.versions is None or version in profile.versions
    }
    if profile.preview_version:
        served[PREVIEW_VERSION] = PREVIEW_SHAPE
    return MappingProxyType(served)


def seconds_to_wait(wait: str | None, request: Request) -> float:
    """Return how long a poll may be held: not at all without ``If-None-Match``, which names a document."""
    if wait is None or not header_values(request, GuestHeader.IF_NONE_MATCH):
        return 0.0
    try:
        seconds = float(wait)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < inf:
        raise CheckFailedError(error(400, "Bad request. wait must be a number of seconds"))
    return min(seconds, MAX_WAIT)
