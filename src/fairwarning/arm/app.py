"""The management API as an ASGI app.

Logging in and the image aliases need no token. All other requests are checked in a fixed order that clients
may rely on: token, api-version, subscription, route, body.
"""

import logging
import re
from collections.abc import Iterable
from contextlib import aclosing, suppress
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from fairwarning.access import client_address
from fairwarning.arm import deployments, groups, login, maintenance, network, operations
from fairwarning.arm.catalog import routes as catalog
from fairwarning.arm.compute import types as compute
from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.errors import AzureError, check_resource_name, translate
from fairwarning.arm.messages import ANONYMOUS, ArmRequest, ArmResponse
from fairwarning.arm.resources import lists, tags
from fairwarning.arm.routing import ArmRoute, RouteMatch, match
from fairwarning.arm.templates import jsonc
from fairwarning.arm.tokens import Tokens
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import Principal, PrincipalKind, derive_id
from fairwarning.engine.clock import new_request_id
from fairwarning.formats.log_messages import LogMessage
from fairwarning.throttle import Throttle

log = logging.getLogger("fairwarning.arm")

#: The routes that need a token.
ROUTES: tuple[ArmRoute, ...] = (
    *catalog.ROUTES,
    *groups.ROUTES,
    *lists.ROUTES,
    *tags.ROUTES,
    *network.ROUTES,
    *deployments.ROUTES,
    *compute.ROUTES,
    *maintenance.ROUTES,
    *operations.ROUTES,
)

#: The largest bodies: a template, a resource (both as in Azure), and a request without a token.
MOST_BYTES = 4 * 1024 * 1024
MOST_RESOURCE_BYTES = 1024 * 1024
MOST_PUBLIC_BYTES = 64 * 1024

#: The longest URL (path and query), and the most fields of a form.
LONGEST_URL = 8_192
MOST_FIELDS = 100

#: A body of at most n bytes may hold n / 16 values; decoding more would block the event loop for too long.
BYTES_PER_VALUE = 16

#: How deep a body may nest; three templates inside each other need about 40 levels.
DEEPEST = 128

_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(?:-[A-Za-z]+)?")
_HOST = re.compile(r"[\w.\-]+(?::\d+)?|\[[\da-fA-F:]+\](?::\d+)?", re.ASCII)
_SUBSCRIPTION = re.compile(r"/subscriptions/([^/]+)", re.IGNORECASE)
#: Paths to which az sends JSON with comments.
_TEMPLATE = re.compile(r"/deployments/[^/]+(?:/validate|/whatIf)?/?\Z", re.IGNORECASE)
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: What keeps proxies and browsers from keeping an answer, or from guessing what it holds.
_TRANSPORT_HEADERS = {
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Expires": "-1",
    "X-Content-Type-Options": "nosniff",
}
_FORM = "application/x-www-form-urlencoded"


class ArmApp:
    """Reads a request, checks it, and passes it to the handler of its route."""

    def __init__(self, context: ArmContext, base_url: str, tokens: Tokens, throttle: Throttle) -> None:
        self._context = context
        self._throttle = throttle
        self._base_url = base_url
        self._tokens = tokens
        self._public_routes = (*login.routes(tokens, throttle), *catalog.PUBLIC_ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every error is answered in Azure's shape."""
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(scope, receive)
        request_id = derive_id(new_request_id()).lower()
        try:
            response = _http_response(await self._respond(request), request.method)
        except ClientDisconnect:
            return
        except FairWarningError as problem:
            response = _error_response(translate(problem), request.method)
        except Exception:
            log.exception(LogMessage("request_failed", request_id=request_id, path=scope["path"]))
            message = f"The server failed. Its log has the details of request {request_id}."
            response = _error_response(AzureError(500, "InternalServerError", message), request.method)
        response.headers["x-ms-request-id"] = request_id
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> ArmResponse:
        path = _path(request)
        public = self._match_public(request, path)
        principal = ANONYMOUS if public is not None else await self._authorize(request)
        route, names = public or _match(request, path)
        limit = MOST_BYTES if _TEMPLATE.search(path) is not None else MOST_RESOURCE_BYTES
        limit = MOST_PUBLIC_BYTES if public is not None else limit
        body = await _read_body(request, limit)
        arm_request = ArmRequest(
            method=request.method,
            path=path,
            names=names,
            query=dict(request.query_params),
            body=await self._decode(body, limit, request.headers.get("content-type", ""), path),
            base=self._base(request),
            if_match=request.headers.get("if-match", ""),
            if_none_match=request.headers.get("if-none-match", ""),
            caller=client_address(request.client),
            principal=principal,
        )
        return await self._handle(route, arm_request)

    async def _handle(self, route: ArmRoute, request: ArmRequest) -> ArmResponse:
        """Answer a request by a state that includes everything that the client knows of."""
        if request.method not in ("GET", "HEAD"):
            # Handlers look before they change something, and a template may name what another node stored.
            await self._context.engine.catch_up()
            return await route.handler(self._context, request)
        return await self._context.look_up(lambda: route.handler(self._context, request))

    def _match_public(self, request: Request, path: str) -> RouteMatch | None:
        """Return the route of a request that needs no token; None for all other requests."""
        try:
            return _match_route(self._public_routes, request.method, path)
        except AzureError as problem:
            if problem.status == 405:
                raise
        return None

    async def _authorize(self, request: Request) -> Principal:
        """Return the principal that the token of a request names."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if token and self._tokens.is_valid(token):
            return Principal(PrincipalKind.MANAGEMENT, self._tokens.subject(token))
        if token and not self._tokens.is_signed(token):
            await self._throttle.wrong_token(client_address(request.client))
        code, message = "AuthenticationFailed", "Authentication failed: the request has no bearer token."
        if scheme and not token:
            code = "AuthenticationFailedInvalidHeader"
            message = "Authentication failed: the Authorization header holds no bearer token."
        if token:
            code = "InvalidAuthenticationToken"
            message = "The access token has expired, or was issued by another server."
        challenge = self._tokens.challenge(self._base(request), has_token=bool(token))
        raise AzureError(401, code, message, headers=(("WWW-Authenticate", challenge),))

    async def _decode(self, body: bytes, limit: int, content_type: str, path: str) -> Json:
        if not body.strip():
            return None
        if content_type.partition(";")[0].strip().lower() == _FORM:
            return _decode_form(body)
        try:
            return _decode_json(body, limit)
        except _JSON_ERRORS as error:
            problem = error
        if _TEMPLATE.search(path) is not None:
            evaluator = self._context.evaluator
            evaluator.admit()
            with suppress(*_JSON_ERRORS):
                # In a thread: a template with many comments takes long.
                strict = await evaluator.run(lambda: jsonc.to_strict_json(body.decode()).encode())
                return _decode_json(strict, limit)
        raise AzureError(400, "InvalidRequestContent", f"The request content is not valid JSON: {problem}.")

    def _base(self, request: Request) -> str:
        """Return the server's address as the client knows it, for links in responses."""
        host = request.headers.get("host", "")
        return f"https://{host}" if _HOST.fullmatch(host) else self._base_url


def create_app(
    context: ArmContext, *, base_url: str, tokens: Tokens, throttle: Throttle | None = None
) -> ArmApp:
    """Return the app; ``base_url`` is for clients that send no Host header."""
    return ArmApp(context, base_url, tokens, throttle or Throttle())


def _match_route(routes: Iterable[ArmRoute], method: str, path: str) -> RouteMatch:
    route, names = match(routes, method, path)
    for name in names.values():
        # An encoded slash would turn the id into that of another resource.
        check_resource_name(name)
        if "/" in name or not name.isprintable():
            raise AzureError(400, "InvalidResourceName", f"The resource name {name!r} is invalid.", name)
    return route, names


def _match(request: Request, path: str) -> RouteMatch:
    """Check the api-version and the subscription of a request, and return its route."""
    version = request.query_params.get("api-version")
    if not version:
        raise AzureError(
            400, "MissingApiVersionParameter", "Every request needs the query parameter api-version."
        )
    if _VERSION.fullmatch(version) is None:
        message = (
            f"The api-version '{version}' is invalid; it is a date like 2024-07-01 or 2024-07-01-preview."
        )
        raise AzureError(400, "InvalidApiVersionParameter", message)
    subscription = _SUBSCRIPTION.match(path)
    if subscription is not None and subscription[1].lower() != SUBSCRIPTION:
        message = f"The subscription '{subscription[1]}' could not be found; there is only '{SUBSCRIPTION}'."
        raise AzureError(404, "SubscriptionNotFound", message)
    return _match_route(ROUTES, request.method, path)


def _path(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    length = len(raw) + len(request.scope["query_string"])
    if length > LONGEST_URL:
        message = f"The URL has {length} characters; at most {LONGEST_URL} are allowed."
        raise AzureError(414, "RequestUriTooLong", message)
    return re.sub(r"/{2,}", "/", raw.decode("latin-1"))


async def _read_body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                message = f"The request content is larger than {limit} bytes."
                raise AzureError(413, "RequestContentTooLarge", message)
    return bytes(body)


def _decode_form(body: bytes) -> Json:
    try:
        fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        message = f"The form has more than {MOST_FIELDS} fields."
        raise AzureError(400, "InvalidRequestContent", message) from None
    return dict(fields)


def _decode_json(body: bytes, limit: int) -> Json:
    brackets = body.count(b"[") + body.count(b"{")
    if brackets + body.count(b",") > limit // BYTES_PER_VALUE:
        message = f"The request content has more than {limit // BYTES_PER_VALUE} values."
        raise AzureError(400, "InvalidRequestContent", message)
    document: Json = msgspec.json.decode(body)
    if brackets > DEEPEST:
        _check_depth(document)
    return document


def _check_depth(document: Json) -> None:
    level = [document]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            if isinstance(value, list | dict)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        message = f"The request content has more than {DEEPEST} levels of nesting."
        raise AzureError(400, "InvalidRequestContent", message)


def _error_response(problem: AzureError, method: str) -> Response:
    response = ArmResponse(status=problem.status, body=problem.body(), headers=problem.headers)
    return _http_response(response, method)


def _http_response(arm_response: ArmResponse, method: str) -> Response:
    is_empty = arm_response.body is None or method == "HEAD"
    response = Response(
        b"" if is_empty else msgspec.json.encode(arm_response.body),
        arm_response.status,
        _TRANSPORT_HEADERS,
        None if is_empty else "application/json; charset=utf-8",
    )
    for name, value in arm_response.headers:
        response.headers.append(name, value)
    return response
