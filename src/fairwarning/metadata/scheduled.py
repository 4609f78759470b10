"""``/metadata/scheduledevents``: the document, and its approval."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from fairwarning.core.commands import Approve
from fairwarning.core.errors import Invalid, UnknownEvent
from fairwarning.core.fleet import visible
from fairwarning.core.model import Event, EventId, MachineRef, Scope, ScopeId
from fairwarning.core.policy import FirstCall, Profile
from fairwarning.core.versions import Shape
from fairwarning.core.wire import document, start_requests
from fairwarning.engine.engine import Engine
from fairwarning.metadata.http import JSON, Request, Response
from fairwarning.metadata.query import Refused, error

#: The longest a ``wait`` is held; a client that wants more asks again.
LONGEST_WAIT = 300.0


class ScheduledEvents:
    """Answers polls and approvals of machines whose request has passed every check."""

    def __init__(self, engine: Engine, profile: Profile) -> None:
        self._engine = engine
        self._profile = profile
        self._rendered: dict[tuple[ScopeId, Shape], tuple[Mapping[EventId, Event], Response]] = {}
        self._switching_on: dict[ScopeId, float] = {}

    def ready(self, machine: MachineRef) -> bool:
        """Whether a plain poll can be answered at once, without changing anything."""
        return machine.scope not in self._switching_on and self._engine.polled(machine)

    def show(self, machine: MachineRef, shape: Shape, request: Request) -> Response:
        """Return the document, or 304 if the guest has it already."""
        response = self._document(machine, shape)
        if _has_it(request, response):
            return Response(304, headers=response.headers)
        return response

    async def poll(self, machine: MachineRef, shape: Shape, request: Request, wait: float) -> Response:
        """Note the poll, then return the document; with ``wait``, once it differs from what the guest has."""
        if not await self._switched_on(machine):
            return Response(200)
        response = self.show(machine, shape, request)
        if response.status == 304 and wait:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._engine.feed.document_change(machine.scope)
            response = self.show(machine, shape, request)
        return response

    async def approve(self, machine: MachineRef, shape: Shape, request: Request) -> Response:
        """Start events early: all that the body names, or none (R-12 to R-18)."""
        await self._switched_on(machine)
        try:
            ids = start_requests(request.body)
            await self._engine.handle(
                Approve(scope=machine.scope, ids=ids, machine=machine.name, by=machine.name)
            )
        except Invalid as problem:
            raise Refused(error(400, f"Bad request. {problem}")) from None
        except UnknownEvent as unknown:
            # for a guest, an event it cannot see does not exist.
            raise Refused(error(400, f"Bad request. {unknown}")) from None
        if self._profile.post_returns_document:
            return self._document(machine, shape)
        return Response(200)

    async def _switched_on(self, machine: MachineRef) -> bool:
        """Note the poll; say whether the guest is given a document yet (R-21, R-25)."""
        now = asyncio.get_running_loop().time()
        first = not self._engine.scope(machine.scope).enabled
        await self._engine.poll(machine)
        mode, delay = self._profile.first_call, self._profile.first_call_delay.total_seconds()
        if mode is FirstCall.NONE:
            return True
        if first:
            self._switching_on.setdefault(machine.scope, now + delay)
        left = self._switching_on.get(machine.scope, now) - now
        if mode is FirstCall.DELAY:
            await asyncio.sleep(max(left, 0.0))
        elif left > 0:
            return False
        self._switching_on.pop(machine.scope, None)
        return True

    def _document(self, machine: MachineRef, shape: Shape) -> Response:
        scope = self._engine.scope(machine.scope)
        if not scope.facts.broadcast:
            return _render(scope, machine, shape)
        events, response = self._rendered.get((scope.id, shape), (None, None))
        # Another scope of the same name may count to the same number; it does not have the same events.
        if response is None or events is not scope.events:
            response = _render(scope, machine, shape)
            self._rendered[scope.id, shape] = scope.events, response
        return response

    def forget(self, scope: ScopeId) -> None:
        """Drop what is known of a scope that is no more."""
        self._switching_on.pop(scope, None)
        for key in [key for key in self._rendered if key[0] == scope]:
            del self._rendered[key]


def _render(scope: Scope, machine: MachineRef, shape: Shape) -> Response:
    body = document(scope.incarnation, visible(scope, machine.name), shape, scope.facts.kind)
    return Response(200, body, (("ETag", f'"{scope.incarnation}"'),), JSON)


def _has_it(request: Request, response: Response) -> bool:
    asked = request.header("if-none-match")
    if asked is None:
        return False
    (_, current), *_ = response.headers
    tags = {tag.strip().removeprefix("W/").strip('"') for tag in asked.split(",")}
    return not tags.isdisjoint({current.strip('"'), "*"})


def seconds_to_wait(wait: str | None, request: Request) -> float:
    """Return how long the guest will wait for a change; only one that says what it has may wait."""
    if wait is None or request.header("if-none-match") is None:
        return 0.0
    try:
        seconds = float(wait)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise Refused(error(400, "Bad request. wait must be a number of seconds"))
    return min(seconds, LONGEST_WAIT)
