"""The management face as an ASGI app: one door, behind which the tables of routes are.

The way in needs no token. Behind it the order of the checks is a promise: a token, the api-version, the
subscription, the route, the body.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from functools import cached_property
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from fairwarning.access import client_address
from fairwarning.arm import (
    deployments,
    groups,
    images,
    login,
    lookups,
    maintenance,
    network,
    operations,
    operations_routes,
    resources,
)
from fairwarning.arm.call import ArmRequest, ArmResponse
from fairwarning.arm.compute import availability_sets, cloud_services, instances, scalesets, vms
from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.errors import AzureError, check_resource_name, translate
from fairwarning.arm.routing import ArmRoute, match
from fairwarning.arm.templates import jsonc
from fairwarning.arm.tokens import Tokens
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.engine.clock import new_event_id
from fairwarning.throttle import Throttle

log = logging.getLogger("fairwarning.arm")

#: Everything that is answered to who shows a token.
ROUTES: tuple[ArmRoute, ...] = (
    *lookups.ROUTES,
    *images.ROUTES,
    *groups.ROUTES,
    *resources.ROUTES,
    *network.ROUTES,
    *deployments.ROUTES,
    *vms.ROUTES,
    *scalesets.ROUTES,
    *instances.ROUTES,
    *availability_sets.ROUTES,
    *cloud_services.ROUTES,
    *maintenance.ROUTES,
    *operations_routes.ROUTES,
)

#: The largest bodies that are read: of a template and of a resource, as in Azure, and without a token.
MOST_BYTES = 4 * 1024 * 1024
MOST_RESOURCE_BYTES = 1024 * 1024
MOST_OPEN_BYTES = 64 * 1024

#: The longest path and query that are looked at, and the most fields of a form.
LONGEST_URL = 8_192
MOST_FIELDS = 100

#: A body may hold a value for every so many bytes that it may have; reading more keeps everybody waiting.
BYTES_PER_VALUE = 16

#: How deep a body may nest; a template inside a template inside a template needs about 40.
DEEPEST = 128

_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(?:-[A-Za-z]+)?")
_HOST = re.compile(r"[\w.\-]+(?::\d+)?|\[[\da-fA-F:]+\](?::\d+)?", re.ASCII)
_SUBSCRIPTION = re.compile(r"/subscriptions/([^/]+)", re.IGNORECASE)
#: What az sends to these paths may be almost JSON.
_TEMPLATE = re.compile(r"/deployments/[^/]+(?:/validate|/whatIf)?/?\Z", re.IGNORECASE)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Found = tuple[ArmRoute, Mapping[str, str]]
_FORM = "application/x-www-form-urlencoded"


class UnauthorizedError(AzureError):
    """The request shows no token, or not one of ours; the challenge says what would help."""

    def __init__(self, code: str, message: str, challenge: str) -> None:
        super().__init__(401, code, message, headers=(("WWW-Authenticate", challenge),))


class ArmApp:
    """Answers every request: reads it, checks it, and hands it to its route."""

    def __init__(self, room: ArmContext, base_url: str, tokens: Tokens, throttle: Throttle) -> None:
        self._room = room
        self._throttle = throttle
        self._base_url = base_url
        self._tokens = tokens

    @cached_property
    def _open(self) -> tuple[ArmRoute, ...]:
        return (*login.routes(self._tokens, self._throttle), *images.OPEN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong is told in Azure's shape."""
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(scope, receive)
        request_id = new_event_id().lower()
        try:
            response = _response(await self._reply(request), request.method)
        except ClientDisconnect:
            return
        except FairWarningError as problem:
            response = _refusal(translate(problem), request.method)
        except Exception:
            log.exception("request_failed request_id=%s path=%s", request_id, scope["path"])
            message = f"The server failed; its log says more about request {request_id}."
            response = _refusal(AzureError(500, "InternalServerError", message), request.method)
        response.headers["x-ms-request-id"] = request_id
        await response(scope, receive, send)

    async def _reply(self, request: Request) -> ArmResponse:
        path = _path(request)
        opened = self._opened(request, path)
        route, names = opened or await self._route(request, path)
        most = MOST_OPEN_BYTES if opened is not None else _most(path)
        body = await _body(request, most)
        call = ArmRequest(
            method=request.method,
            path=path,
            names=names,
            query=dict(request.query_params),
            body=await self._read(body, most, request.headers.get("content-type", ""), path),
            base=self._base(request),
            caller=client_address(request.client),
        )
        await operations.complete_finished(self._room)
        return await route.handler(self._room, call)

    def _opened(self, request: Request, path: str) -> Found | None:
        """Return the route of a request that needs no token, if it is one."""
        try:
            return _matched(self._open, request.method, path)
        except AzureError as problem:
            if problem.status == 405:
                raise
        return None

    async def _route(self, request: Request, path: str) -> Found:
        await self._authorize(request)
        _check_version(request.query_params.get("api-version"))
        _check_subscription(path)
        return _matched(ROUTES, request.method, path)

    async def _authorize(self, request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        base = self._base(request)
        if scheme.lower() != "bearer" or not token.strip():
            message = "Authentication failed: the request shows no bearer token."
            raise UnauthorizedError(
                "AuthenticationFailed", message, self._tokens.challenge(base, shown=False)
            )
        if not self._tokens.holds(token.strip()):
            if not self._tokens.signed(token.strip()):
                await self._throttle.wrong_token(client_address(request.client))
            message = "The access token has expired, or another server has made it."
            raise UnauthorizedError(
                "InvalidAuthenticationToken", message, self._tokens.challenge(base, shown=True)
            )

    async def _read(self, body: bytes, most: int, content_type: str, path: str) -> Json:
        if not body.strip():
            return None
        if content_type.partition(";")[0].strip().lower() == _FORM:
            return _form(body)
        try:
            return _decoded(body, most)
        except _NO_JSON as problem:
            fault = problem
        if _TEMPLATE.search(path) is not None:
            evaluator = self._room.evaluator
            evaluator.admit()
            with suppress(*_NO_JSON):
                # Templates of many comments take their time.
                return _decoded(await evaluator.run(lambda: jsonc.strict(body.decode()).encode()), most)
        raise AzureError(400, "InvalidRequestContent", f"The request content is not valid JSON: {fault}.")

    def _base(self, request: Request) -> str:
        """Return our address as the client knows it: links must lead it back here."""
        host = request.headers.get("host", "")
        return f"https://{host}" if _HOST.fullmatch(host) else self._base_url


def create_app(
    room: ArmContext, *, base_url: str, tokens: Tokens, throttle: Throttle | None = None
) -> Starlette:
    """Return the app; ``base_url`` is for clients that do not say how they call us."""
    app = Starlette()
    # No pattern of the library matches every path that a client may write, line breaks included.
    app.router.default = ArmApp(room, base_url, tokens, throttle or Throttle())
    return app


def _matched(routes: Iterable[ArmRoute], method: str, path: str) -> Found:
    routes = tuple(routes)
    try:
        route, names = match(routes, method, path)
    except AzureError:
        if method != "HEAD":
            raise
        route, names = match(routes, "GET", path)
    for name in names.values():
        # A slash that came in disguise would make another resource's id of this one's.
        check_resource_name(name)
        if "/" in name or not name.isprintable():
            raise AzureError(400, "InvalidResourceName", f"The resource name {name!r} is invalid.", name)
    return route, names


def _check_version(version: str | None) -> None:
    if not version:
        raise AzureError(
            400, "MissingApiVersionParameter", "Every request needs the query parameter api-version."
        )
    if _VERSION.fullmatch(version) is None:
        message = (
            f"The api-version '{version}' is invalid; it is a date like 2024-07-01 or 2024-07-01-preview."
        )
        raise AzureError(400, "InvalidApiVersionParameter", message)


def _check_subscription(path: str) -> None:
    found = _SUBSCRIPTION.match(path)
    if found is not None and found[1].lower() != SUBSCRIPTION:
        message = f"The subscription '{found[1]}' could not be found; there is only '{SUBSCRIPTION}'."
        raise AzureError(404, "SubscriptionNotFound", message)


def _path(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    length = len(raw) + len(request.scope["query_string"])
    if length > LONGEST_URL:
        message = f"The address of the request has {length} characters, more than {LONGEST_URL}."
        raise AzureError(414, "RequestUriTooLong", message)
    return re.sub(r"/{2,}", "/", raw.decode("latin-1"))


def _most(path: str) -> int:
    return MOST_BYTES if _TEMPLATE.search(path) is not None else MOST_RESOURCE_BYTES


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > most:
                message = f"The request content is larger than {most} bytes."
                raise AzureError(413, "RequestContentTooLarge", message)
    return bytes(body)


def _form(body: bytes) -> Json:
    try:
        fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        message = f"The form has more than {MOST_FIELDS} fields."
        raise AzureError(400, "InvalidRequestContent", message) from None
    return dict(fields)


def _decoded(body: bytes, most: int) -> Json:
    brackets = body.count(b"[") + body.count(b"{")
    if brackets + body.count(b",") > most // BYTES_PER_VALUE:
        message = f"The request content has more than {most // BYTES_PER_VALUE} values."
        raise AzureError(400, "InvalidRequestContent", message)
    read: Json = msgspec.json.decode(body)
    if brackets > DEEPEST:
        _check_depth(read)
    return read


def _check_depth(document: Json) -> None:
    level = [document]
    for _ in range(DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    if level:
        message = f"The request content has more than {DEEPEST} levels of nesting."
        raise AzureError(400, "InvalidRequestContent", message)


def _refusal(problem: AzureError, method: str) -> Response:
    return _response(ArmResponse(status=problem.status, body=problem.body(), headers=problem.headers), method)


def _response(reply: ArmResponse, method: str) -> Response:
    empty = reply.body is None or method == "HEAD"
    response = Response(
        b"" if empty else msgspec.json.encode(reply.body),
        reply.status,
        {"Cache-Control": "no-cache"},
        None if empty else "application/json; charset=utf-8",
    )
    for name, value in reply.headers:
        response.headers.append(name, value)
    return response
