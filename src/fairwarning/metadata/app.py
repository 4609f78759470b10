"""What guests see at 169.254.169.254: paths, checks, and who answers.

The order of the checks is a promise (R-11): path, rate limit, X-Forwarded-For, Metadata header, duplicate
parameters, api-version, method, body.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from fairwarning.core.document.render import EVENTS_PATH, Json, compact_json
from fairwarning.core.document.versions import IMDS_VERSIONS, DocumentShape, well_formed
from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Profile
from fairwarning.engine.engine import Engine
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import JSON, RESET, CacheableGet, Reply, Request, Response
from fairwarning.http1.throttle import Rate
from fairwarning.metadata import instance
from fairwarning.metadata.checks import (
    FORBIDDEN,
    TOO_MANY,
    CheckFailedError,
    bad_version,
    check_forwarded,
    check_metadata_header,
    error,
    not_allowed,
    not_found,
    parameters,
    refusal,
    tags,
)
from fairwarning.metadata.fast_path import GuestFastPath
from fairwarning.metadata.instance import facts_of
from fairwarning.metadata.long_poll import LongPoll
from fairwarning.metadata.scheduled_events import ScheduledEvents, seconds_to_wait
from fairwarning.metadata.views import MachineView

#: How long an endpoint that never answers keeps a caller, at the most.
LONGEST_SILENCE = 600.0

#: Gives a machine a token for a resource, in the document that is answered.
Identity = Callable[[MachineRef, str], Mapping[str, Json]]

_IDENTITY_VERSION = "2018-02-01"


class MetadataApp:
    """Answers the requests of known machines."""

    def __init__(self, engine: Engine, profile: Profile, identity: Identity | None = None) -> None:
        self._engine = engine
        self._profile = profile
        self._token = identity
        self._rate = Rate(profile.requests_per_second, profile.burst)
        self._pollers: dict[MachineRef, GuestFastPath] = {}
        self._events = ScheduledEvents(engine, profile)
        self._shapes = self._events.shapes
        engine.faults.watch(lambda machine, fault: self._look_again(machine))
        self._routes: Mapping[str, Callable[[MachineRef, Request], Reply]] = {
            EVENTS_PATH: self._scheduled_events,
            "/metadata/instance": self._instance,
            "/metadata/versions": self._versions,
            "/metadata": self._root,
            "/metadata/identity/oauth2/token": self._identity,
        }
        if profile.legacy_latest_path:
            self._routes = {**self._routes, "/metadata/latest/scheduledevents": self._legacy}

    def answer(self, machine: MachineRef | None, request: Request) -> Reply:
        """Return the answer, or the promise of one."""
        if machine is None:
            return FORBIDDEN
        fault = self._engine.faults.of(machine, asyncio.get_running_loop().time())
        return self._healthy(machine, request) if fault is None else self._ailing(machine, request, fault)

    def _ailing(self, machine: MachineRef, request: Request, fault: ActiveFault) -> Reply:
        match fault.kind:
            case EndpointFault.TOO_MANY:
                return TOO_MANY
            case EndpointFault.GONE:
                return error(410, "Gone. The service is being updated; try again")
            case EndpointFault.BROKEN:
                return error(500, "Internal server error")
            case EndpointFault.RESET:
                return RESET
            case EndpointFault.EMPTY if request.method == "GET":
                return Response(200)
            case EndpointFault.EMPTY | EndpointFault.LATE | EndpointFault.RESTART:
                return self._healthy(machine, request)
            case EndpointFault.TIMEOUT | EndpointFault.SLOW:
                return self._held_back(machine, request, fault)

    async def _held_back(self, machine: MachineRef, request: Request, fault: ActiveFault) -> Response:
        now = asyncio.get_running_loop().time()
        silent = fault.kind is EndpointFault.TIMEOUT
        await asyncio.sleep(min(fault.until - now, LONGEST_SILENCE) if silent else fault.delay)
        if silent:
            return RESET
        reply = self._healthy(machine, request)
        return reply if isinstance(reply, Response) else await reply

    def _healthy(self, machine: MachineRef, request: Request) -> Reply:
        route = self._route(request)
        if route is None:
            return not_found(request)
        if not self.poller(machine).admits(asyncio.get_running_loop().time()):
            return TOO_MANY
        try:
            reply = route(machine, request)
        except FairWarningError as problem:
            return refusal(problem)
        return reply if isinstance(reply, Response | LongPoll) else _finish(reply)

    def poller(self, machine: MachineRef) -> GuestFastPath:
        """Return what is known of a machine that polls."""
        found = self._pollers.get(machine)
        if found is None:
            found = self._pollers[machine] = GuestFastPath(self._engine, machine.scope, self._rate)
        return found

    def prepare(self, request: Request) -> CacheableGet | None:
        """Return what a request always asks for, if it is a plain poll that passes every check."""
        if not (request.method == "GET" and request.keep_alive and request.version == "1.1"):
            return None
        if _place(request) != EVENTS_PATH:
            return None
        try:
            asked = _checked(request)
        except CheckFailedError:
            return None
        version, has = asked.get("api-version", ""), tags(request)
        return (
            None
            if version not in self._shapes or "wait" in asked or "*" in has
            else CacheableGet(version, has)
        )

    def replay(self, machine: MachineRef, view: MachineView) -> None:
        """Show a machine something else than its scope's document, for good."""
        self._events.views.replay(machine, view)
        self._look_again(machine)

    def document(self, machine: MachineRef, shape: DocumentShape) -> bytes:
        """Return what a machine would be shown, without noting that anybody asked."""
        sheet = self._events.views.whole(machine).sheet()
        return sheet.write(sheet.incarnation, shape)

    def forget(self, machine: MachineRef) -> None:
        """Drop what is known of a machine that is no more."""
        self._engine.faults.drop(machine)
        self._events.views.forget(machine)
        self._pollers.pop(machine, None)
        if machine.scope not in self._engine.scopes():
            self._events.forget(machine.scope)

    def _route(self, request: Request) -> Callable[[MachineRef, Request], Reply] | None:
        path = _place(request)
        if path.startswith("/metadata/instance/"):
            return self._instance
        return self._routes.get(path)

    def _scheduled_events(self, machine: MachineRef, request: Request) -> Reply:
        check_forwarded(request)
        version = _peek(request, "api-version")
        shape = self._shapes.get(version or "")
        # R-05a: only the oldest version takes an approval without the header.
        if shape is None or shape.header_on_post or request.method != "POST":
            check_metadata_header(request)
        asked = parameters(request.query)
        if shape is None:
            raise self._unserved(asked.get("api-version", ""))
        return self._events_reply(machine, request, version or "", asked.get("wait"))

    def _legacy(self, machine: MachineRef, request: Request) -> Reply:
        check_forwarded(request)
        version = parameters(request.query).get("api-version", "2017-03-01")
        if version not in self._shapes:
            raise self._unserved(version)
        return self._events_reply(machine, request, version, None)

    def _events_reply(self, machine: MachineRef, request: Request, version: str, wait: str | None) -> Reply:
        if request.method == "POST":
            return self._events.approve(machine, version, request)
        if request.method != "GET":
            raise not_allowed(request, "GET", "POST")
        seconds = seconds_to_wait(wait, request)
        reply = self._events.poll(machine, version, request, seconds)
        fault = self._engine.faults.of(machine, asyncio.get_running_loop().time())
        if fault is None and isinstance(reply, Response | LongPoll):
            self.poller(machine).sight = self._events.sight(machine)
        return reply

    def _look_again(self, machine: MachineRef) -> None:
        """Let a machine's next poll find out anew what it is shown."""
        if machine in self._pollers:
            self._pollers[machine].sight = None

    def _unserved(self, version: str) -> CheckFailedError:
        # a date we do not serve is a page that is not there; anything else is a mistake.
        if well_formed(version) and self._profile.unsupported_version_status == 404:
            return CheckFailedError(error(404, f"API is not found: api-version {version} is not served here"))
        return bad_version(sorted(self._shapes, reverse=True))

    def _instance(self, machine: MachineRef, request: Request) -> Response:
        asked = _checked(request)
        version = asked.get("api-version", "")
        if version not in IMDS_VERSIONS:
            raise bad_version(IMDS_VERSIONS[::-1])
        _only_get(request)
        facts = facts_of(self._engine.machine(machine), self._engine.scope(machine.scope).facts)
        route = request.path.split("/")[3:]
        node = instance.walk(instance.document(facts, version), route)
        return _rendered(node, asked)

    def _versions(self, machine: MachineRef, request: Request) -> Response:
        _checked(request)
        _only_get(request)
        return Response(200, compact_json(instance.versions_document()), (), JSON)

    def _root(self, machine: MachineRef, request: Request) -> Response:
        asked = _checked(request)
        _only_get(request)
        return _rendered({"instance": {}}, asked)

    def _identity(self, machine: MachineRef, request: Request) -> Response:
        asked = _checked(request)
        version = asked.get("api-version", "")
        if not well_formed(version) or version < _IDENTITY_VERSION:
            raise bad_version((_IDENTITY_VERSION,))
        _only_get(request)
        if self._token is None:
            return _no_token("Identity not found")
        resource = asked.get("resource", "")
        if not resource:
            return _no_token("Required query variable 'resource' is missing")
        return Response(200, compact_json(dict(self._token(machine, resource))), (), JSON)


def _place(request: Request) -> str:
    # the category is matched without regard to case; keys behind it are not.
    return request.path.lower().rstrip("/")


def _checked(request: Request) -> Mapping[str, str]:
    check_forwarded(request)
    check_metadata_header(request)
    return parameters(request.query)


def _no_token(why: str) -> Response:
    return Response(400, compact_json({"error": "invalid_request", "error_description": why}), (), JSON)


def _only_get(request: Request) -> None:
    if request.method != "GET":
        raise not_allowed(request, "GET")


def _peek(request: Request, name: str) -> str | None:
    try:
        return parameters(request.query).get(name)
    except CheckFailedError:
        return None


def _rendered(node: Json, asked: Mapping[str, str]) -> Response:
    content_type, body = instance.render(node, text=asked.get("format", "json").lower() == "text")
    return Response(200, body, (), content_type)


async def _finish(reply: Awaitable[Response]) -> Response:
    try:
        return await reply
    except FairWarningError as problem:
        return refusal(problem)
