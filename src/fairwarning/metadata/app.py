"""The metadata application: routes and checks requests, and applies endpoint faults.

The order of the checks is fixed (R-11): path, rate limit, X-Forwarded-For, Metadata header, duplicate
parameters, api-version, method, body.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection, Mapping

from fairwarning.control.control import Control
from fairwarning.core.azure.identity import stored_documents
from fairwarning.core.azure.load_balancers import load_balancer_document
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.document.render import EVENTS_PATH, Json, compact_json
from fairwarning.core.document.versions import IMDS_VERSIONS, DocumentShape, well_formed
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.core.policy import Profile
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import JSON, RESET, CacheableGet, Reply, Request, Response
from fairwarning.http1.throttle import Rate
from fairwarning.metadata import attested, instance
from fairwarning.metadata.attested import Attestation
from fairwarning.metadata.checks import (
    FORBIDDEN,
    NO_LOAD_BALANCER,
    TOO_MANY,
    CheckFailedError,
    GuestHeader,
    bad_version,
    check_forwarded,
    check_metadata_header,
    error,
    error_response,
    known_tags,
    not_allowed,
    not_found,
    old_error,
    parse_query,
)
from fairwarning.metadata.fast_path import GuestFastPath
from fairwarning.metadata.faulty_answers import DISTORTIONS, distort, unconditional
from fairwarning.metadata.instance_fields import InstanceFacts
from fairwarning.metadata.long_poll import LongPoll
from fairwarning.metadata.scheduled_events import ScheduledEvents, seconds_to_wait
from fairwarning.metadata.views import MachineView

#: The longest time in seconds that an endpoint with the fault ``timeout`` holds a connection.
MAX_SILENCE = 600.0

#: Where a load balancer asks whether the node may be sent traffic; outside of /metadata.
READYZ_PATH = "/readyz"

#: Returns the token document of a machine for a resource.
Identity = Callable[[MachineRef, str], Mapping[str, Json]]

#: Returns the user data of a machine.
UserData = Callable[[MachineRef], str]

_IDENTITY_VERSION, _LOAD_BALANCER_VERSION = "2018-02-01", "2020-10-01"


class MetadataApp:
    """Answers the requests of known machines."""

    #: What the fast path has to look at.
    headers: Collection[str] = tuple(GuestHeader)

    def __init__(
        self,
        control: Control,
        profile: Profile,
        identity: Identity | None = None,
        attestation: Attestation | None = None,
        user_data: UserData | None = None,
        *,
        readyz: bool = False,
    ) -> None:
        """Take who answers for the other APIs, and whether load balancers may ask for the readiness."""
        self._engine = control.engine
        self._profile = profile
        self._token = identity
        self._attestation = attestation
        self._user_data = user_data
        self._has_readyz = readyz
        self._rate = Rate(profile.requests_per_second, profile.burst)
        self._fast_paths: dict[MachineRef, GuestFastPath] = {}
        self._events = ScheduledEvents(control, profile)
        self._shapes = self._events.shapes
        self._engine.faults.watch(lambda machine, fault: self._leave_fast_path(machine))
        self._routes: Mapping[str, Callable[[MachineRef, Request], Reply]] = {
            EVENTS_PATH: self._scheduled_events,
            "/metadata/instance": self._instance,
            "/metadata/versions": self._versions,
            "/metadata": self._root,
            "/metadata/identity/oauth2/token": self._identity,
            "/metadata/attested/document": self._attested,
            "/metadata/loadbalancer": self._load_balancer,
        }
        if profile.legacy_latest_path:
            self._routes = {**self._routes, "/metadata/latest/scheduledevents": self._legacy}

    def answer(self, machine: MachineRef | None, request: Request) -> Reply:
        """Answer a request; ``machine`` is None for an unknown caller."""
        if self._has_readyz and request.path == READYZ_PATH:
            return self._readyz(request)
        if machine is None:
            return FORBIDDEN
        fault = self._engine.faults.of(machine, asyncio.get_running_loop().time())
        return self._handle(machine, request) if fault is None else self._misbehave(machine, request, fault)

    async def _readyz(self, request: Request) -> Response:
        """Return whether the node may be sent traffic, and not why: any caller may ask (R-28)."""
        if request.method not in ("GET", "HEAD"):
            return error_response(not_allowed(request, "GET", "HEAD"))
        await self._engine.check_health()
        ready = not any(self._engine.problems())
        body = compact_json({"status": "ready" if ready else "not ready"})
        return Response(200 if ready else 503, body, content_type=JSON)

    def _misbehave(self, machine: MachineRef, request: Request, fault: ActiveFault) -> Reply:
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
            case kind if kind in DISTORTIONS and request.method == "GET":
                return self._distort(machine, unconditional(request), kind)
            case EndpointFault.TIMEOUT | EndpointFault.SLOW:
                return self._delay(machine, request, fault)
            case _:
                return self._handle(machine, request)

    async def _distort(self, machine: MachineRef, request: Request, fault: EndpointFault) -> Response:
        reply = self._handle(machine, request)
        return distort(fault, reply if isinstance(reply, Response) else await reply)

    async def _delay(self, machine: MachineRef, request: Request, fault: ActiveFault) -> Response:
        now = asyncio.get_running_loop().time()
        never_answers = fault.kind is EndpointFault.TIMEOUT
        await asyncio.sleep(min(fault.until - now, MAX_SILENCE) if never_answers else fault.delay)
        if never_answers:
            return RESET
        reply = self._handle(machine, request)
        return reply if isinstance(reply, Response) else await reply

    def _handle(self, machine: MachineRef, request: Request) -> Reply:
        route = self._route(request)
        if route is None:
            return not_found(request)
        if not self.fast_path(machine).take(asyncio.get_running_loop().time()):
            return TOO_MANY
        try:
            reply = route(machine, request)
        except FairWarningError as problem:
            return self._error(problem)
        return reply if isinstance(reply, Response | LongPoll) else self._await_reply(reply)

    async def _await_reply(self, reply: Awaitable[Response]) -> Response:
        try:
            return await reply
        except FairWarningError as problem:
            return self._error(problem)

    def _error(self, problem: FairWarningError) -> Response:
        response = error_response(problem)
        return old_error(response) if self._profile.old_errors else response

    def fast_path(self, machine: MachineRef) -> GuestFastPath:
        """Return the fast path of a machine."""
        fast_path = self._fast_paths.get(machine)
        if fast_path is None:
            fast_path = self._fast_paths[machine] = GuestFastPath(self._engine, machine.scope, self._rate)
        return fast_path

    def prepare(self, request: Request) -> CacheableGet | None:
        """Return the cacheable form of a plain poll that passes every check."""
        if not (request.method == "GET" and request.keep_alive and request.version == "1.1"):
            return None
        if _normalized_path(request) != EVENTS_PATH:
            return None
        try:
            parameters = _checked_parameters(request)
        except CheckFailedError:
            return None
        version, tags = parameters.get("api-version", ""), known_tags(request)
        if version not in self._shapes or "wait" in parameters or "*" in tags:
            return None
        return CacheableGet(version, tags)

    def replay(self, machine: MachineRef, view: MachineView) -> None:
        """Give a machine a view of its own, for good."""
        self._events.views.replay(machine, view)
        self._leave_fast_path(machine)

    def document(self, machine: MachineRef, shape: DocumentShape) -> bytes:
        """Return what a poll of a machine would show, without recording a poll."""
        document = self._events.views.view(machine).document()
        return document.render(document.incarnation, shape)

    def forget(self, machine: MachineRef) -> None:
        """Drop everything about a machine that was deleted."""
        self._engine.faults.drop(machine)
        self._events.views.forget(machine)
        self._fast_paths.pop(machine, None)
        if machine.scope not in self._engine.scopes():
            self._events.forget(machine.scope)

    def _route(self, request: Request) -> Callable[[MachineRef, Request], Reply] | None:
        path = _normalized_path(request)
        if path.startswith("/metadata/instance/"):
            return self._instance
        return self._routes.get(path)

    def _scheduled_events(self, machine: MachineRef, request: Request) -> Reply:
        check_forwarded(request)
        version = _api_version(request)
        shape = self._shapes.get(version or "")
        # R-05a: only the oldest version accepts an approval without the header.
        if shape is None or shape.header_on_post or request.method != "POST":
            check_metadata_header(request)
        parameters = parse_query(request.query)
        if shape is None:
            raise self._unsupported(parameters.get("api-version", ""))
        return self._events_reply(machine, request, version or "", parameters.get("wait"))

    def _legacy(self, machine: MachineRef, request: Request) -> Reply:
        check_forwarded(request)
        version = parse_query(request.query).get("api-version", "2017-03-01")
        if version not in self._shapes:
            raise self._unsupported(version)
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
            self.fast_path(machine).rendered = self._events.fast_path_scope(machine, version)
        return reply

    def _leave_fast_path(self, machine: MachineRef) -> None:
        """Send the next poll of a machine down the slow path."""
        if machine in self._fast_paths:
            self._fast_paths[machine].rendered = None

    def _unsupported(self, version: str) -> CheckFailedError:
        # a well-formed date that is not served is 404; anything else is 400.
        if well_formed(version) and self._profile.unsupported_version_status == 404:
            return CheckFailedError(error(404, f"API is not found: api-version {version} is not served here"))
        return bad_version(sorted(self._shapes, reverse=True))

    def _unsupported_by_instance(self, version: str) -> CheckFailedError:
        if well_formed(version) and self._profile.old_errors:
            return CheckFailedError(error(404, "Not found. Invalid version requested"))
        return bad_version(IMDS_VERSIONS[::-1])

    def _instance(self, machine: MachineRef, request: Request) -> Response:
        parameters = _checked_parameters(request)
        version = parameters.get("api-version", "")
        if version not in IMDS_VERSIONS:
            raise self._unsupported_by_instance(version)
        _require_get(request)
        path = request.path.split("/")[3:]
        element = instance.find_element(instance.document(self._facts(machine), version), path)
        return _render(element, parameters)

    def _facts(self, machine: MachineRef) -> InstanceFacts:
        scope = self._engine.scope(machine.scope)
        facts = instance.instance_facts(self._engine.machine(machine), scope.facts, self._engine.stored)
        return facts if self._user_data is None else facts._replace(user_data=self._user_data(machine))

    def _load_balancer(self, machine: MachineRef, request: Request) -> Response:
        version = _checked_parameters(request).get("api-version", "")
        if version not in IMDS_VERSIONS or version < _LOAD_BALANCER_VERSION:
            raise bad_version(IMDS_VERSIONS[::-1])
        _require_get(request)
        scope, find = self._engine.scope(machine.scope).facts, stored_documents(self._engine.stored)
        private_ip = self._facts(machine).private_ip
        document = load_balancer_document(self._engine.machine(machine), scope, find, private_ip)
        return NO_LOAD_BALANCER if document is None else Response(200, compact_json(document), (), JSON)

    async def _attested(self, machine: MachineRef, request: Request) -> Response:
        parameters = _checked_parameters(request)
        version, nonce = parameters.get("api-version", ""), parameters.get("nonce", "")
        if version not in IMDS_VERSIONS or version < attested.FIRST_VERSION:
            raise bad_version(IMDS_VERSIONS[::-1])
        _require_get(request)
        if len(nonce) > attested.LONGEST_NONCE:
            raise CheckFailedError(error(400, "Bad request. nonce has more than 32 characters"))
        if self._attestation is None:
            return not_found(request)
        data = attested.attested_data(self._facts(machine), version, nonce, self._attestation.now())
        signature = await self._attestation.sign(data)
        if signature is None:
            return not_found(request)
        document: Json = {"encoding": "pkcs7", "signature": base64.b64encode(signature).decode()}
        return Response(200, compact_json(document), (), JSON)

    def _versions(self, machine: MachineRef, request: Request) -> Response:
        _checked_parameters(request)
        _require_get(request)
        return Response(200, compact_json(instance.versions_document()), (), JSON)

    def _root(self, machine: MachineRef, request: Request) -> Response:
        parameters = _checked_parameters(request)
        _require_get(request)
        return _render({"instance": {}}, parameters)

    def _identity(self, machine: MachineRef, request: Request) -> Response:
        parameters = _checked_parameters(request)
        version = parameters.get("api-version", "")
        if not well_formed(version) or version < _IDENTITY_VERSION:
            raise bad_version((_IDENTITY_VERSION,))
        _require_get(request)
        if self._token is None:
            return _token_error("Identity not found")
        resource = parameters.get("resource", "")
        if not resource:
            return _token_error("Required query variable 'resource' is missing")
        return Response(200, compact_json(dict(self._token(machine, resource))), (), JSON)


def _normalized_path(request: Request) -> str:
    # the category is case-insensitive; the keys after it are not.
    return request.path.lower().rstrip("/")


def _checked_parameters(request: Request) -> Mapping[str, str]:
    check_forwarded(request)
    check_metadata_header(request)
    return parse_query(request.query)


def _token_error(description: str) -> Response:
    return Response(
        400, compact_json({"error": "invalid_request", "error_description": description}), (), JSON
    )


def _require_get(request: Request) -> None:
    if request.method != "GET":
        raise not_allowed(request, "GET")


def _api_version(request: Request) -> str | None:
    """Return the api-version; None if it is missing or the query is invalid, which a later check reports."""
    try:
        return parse_query(request.query).get("api-version")
    except CheckFailedError:
        return None


def _render(element: Json, parameters: Mapping[str, str]) -> Response:
    as_text = parameters.get("format", "json").lower() == "text"
    content_type, body = instance.render(element, text=as_text)
    return Response(200, body, (), content_type)
