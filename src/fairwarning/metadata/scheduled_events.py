"""``/metadata/scheduledevents``: the document, and its approval."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType

from fairwarning.core.document.render import parse_start_requests
from fairwarning.core.document.versions import EVENT_VERSIONS, PREVIEW_SHAPE, PREVIEW_VERSION, DocumentShape
from fairwarning.core.errors import FairWarningError, InvalidError, UnknownEventError
from fairwarning.core.model import MachineRef, Scope, ScopeId
from fairwarning.core.policy import FirstCall, Profile
from fairwarning.engine.engine import Engine
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.metadata.checks import CheckFailedError, error, refusal, tags
from fairwarning.metadata.fast_path import RenderedDocument, RenderedScope, shown
from fairwarning.metadata.long_poll import LongPoll, LongPolls
from fairwarning.metadata.views import ScopeView, Views

#: The longest a ``wait`` is held; a client that wants more asks again.
LONGEST_WAIT = 300.0

_ALWAYS_STALE = datetime.min.replace(tzinfo=UTC)


class ScheduledEvents:
    """Answers polls and approvals of machines whose request has passed every check."""

    def __init__(self, engine: Engine, profile: Profile) -> None:
        self._engine = engine
        self._profile = profile
        self._sights: dict[ScopeId, RenderedScope] = {}
        self._switching_on: dict[ScopeId, float] = {}
        self._watches = LongPolls(engine.feed, self)
        self.shapes = shapes(profile)
        self.views = Views(engine)

    def poll(self, machine: MachineRef, version: str, request: Request, wait: float) -> Reply:
        """Note the poll, then give the document; with ``wait``, once it differs from what the guest has."""
        if machine.scope in self._switching_on or not self._engine.polled(machine):
            return self._first_poll(machine, version, request, wait)
        return self._show_or_watch(machine, version, request, wait)

    async def _first_poll(self, machine: MachineRef, version: str, request: Request, wait: float) -> Response:
        if not await self._switched_on(machine):
            return Response(200)
        reply = self._show_or_watch(machine, version, request, wait)
        return reply if isinstance(reply, Response) else await reply

    def _show_or_watch(
        self, machine: MachineRef, version: str, request: Request, wait: float
    ) -> Response | LongPoll:
        response = self._show(machine, version, request)
        if response.status != 304 or not wait:
            return response
        until = asyncio.get_running_loop().time() + wait
        return LongPoll(self._watches, machine, version, request, until)

    def due(self, machine: MachineRef) -> float:
        """Return when a machine may be shown something else although nothing has happened."""
        return self.views.due(machine)

    def look(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Return what a machine is answered now, 304 if it has the document, without noting that it asked."""
        try:
            return self._show(machine, version, request)
        except FairWarningError as problem:
            return refusal(problem)

    def _show(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Return the document, or 304 if the guest has it already."""
        shown, has = self._shown(machine, version), tags(request)
        return shown.without_body if shown.tag in has or "*" in has else shown.response

    async def approve(self, machine: MachineRef, version: str, request: Request) -> Response:
        """Start events early: all that the body names, or none (R-12 to R-18)."""
        await self._switched_on(machine)
        try:
            await self.views.whole(machine).approve(parse_start_requests(request.body))
        except InvalidError as problem:
            raise CheckFailedError(error(400, f"Bad request. {problem}")) from None
        except UnknownEventError as unknown:
            # for a guest, an event it cannot see does not exist.
            raise CheckFailedError(error(400, f"Bad request. {unknown}")) from None
        if self._profile.post_returns_document:
            return self._shown(machine, version).response
        return Response(200)

    async def _switched_on(self, machine: MachineRef) -> bool:
        """Note the poll; say whether the guest is given a document yet (R-21, R-25)."""
        now = asyncio.get_running_loop().time()
        mode, delay = self._profile.first_call, self._profile.first_call_delay.total_seconds()
        if mode is not FirstCall.NONE and not self._engine.scope(machine.scope).enabled:
            self._switching_on.setdefault(machine.scope, now + delay)
        await self._engine.poll(machine)
        if mode is FirstCall.NONE:
            return True
        left = self._switching_on.get(machine.scope, now) - now
        if mode is FirstCall.DELAY:
            await asyncio.sleep(max(left, 0.0))
        elif left > 0:
            return False
        self._switching_on.pop(machine.scope, None)
        return True

    def sight(self, machine: MachineRef) -> RenderedScope | None:
        """Return what all machines of a scope are shown; None if this one is shown something of its own."""
        scope = self._engine.scope(machine.scope)
        if not scope.facts.broadcast or self.views.of(machine) is not None:
            return None
        sight = self._sights.get(scope.id)
        if sight is None or sight.scope is not scope:
            sight = self._sights[scope.id] = self._see(scope, sight)
        return sight

    def _see(self, scope: Scope, before: RenderedScope | None) -> RenderedScope:
        polled_at = scope.facts.polled_at
        stale_at = _ALWAYS_STALE if polled_at is None else polled_at + self._engine.policy.poll_refresh
        sight = RenderedScope(scope, stale_at)
        if before is not None and before.scope is not None:
            # Another scope of the same name may count to the same number; it does not have the same events.
            if before.scope.events is scope.events and before.scope.incarnation == scope.incarnation:
                sight.shown = before.shown
            # Those who saw the scope before hold on to that; it must not hold on to all they saw.
            before.scope, before.shown = None, {}
        return sight

    def _shown(self, machine: MachineRef, version: str) -> RenderedDocument:
        sight = self.sight(machine)
        if sight is None:
            return shown(self.views.whole(machine).sheet().response(self.shapes[version]))
        found = sight.shown.get(version)
        if found is None:
            response = ScopeView(self._engine, machine).sheet().response(self.shapes[version])
            found = sight.shown[version] = shown(response)
        return found

    def forget(self, scope: ScopeId) -> None:
        """Drop what is known of a scope that is no more."""
        self._switching_on.pop(scope, None)
        self._sights.pop(scope, None)


def shapes(profile: Profile) -> Mapping[str, DocumentShape]:
    """Return the api-versions a profile serves, with the shape of each."""
    served = {
        version: shape
        for version, shape in EVENT_VERSIONS.items()
        if profile.versions is None or version in profile.versions
    }
    if profile.preview_version:
        served[PREVIEW_VERSION] = PREVIEW_SHAPE
    return MappingProxyType(served)


def seconds_to_wait(wait: str | None, request: Request) -> float:
    """Return how long the guest will wait for a change; only one that says what it has may wait."""
    if wait is None or request.header("if-none-match") is None:
        return 0.0
    try:
        seconds = float(wait)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < inf:
        raise CheckFailedError(error(400, "Bad request. wait must be a number of seconds"))
    return min(seconds, LONGEST_WAIT)
