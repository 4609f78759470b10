"""One row of the route table, and how a request is decoded for its handler."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.core.policy import Policy
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import BadRequestError, malformed

RequestT = TypeVar("RequestT", bound=msgspec.Struct)
BodyT = TypeVar("BodyT", bound=msgspec.Struct)

#: The largest body that is read.
MAX_BODY_BYTES = 64 * 1024

#: Methods whose parameters are in the body; those of the other methods are in the query.
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class OperatorRoute(NamedTuple):
    """One method of one path; the path has at most one parameter."""

    method: str
    path: str
    summary: str
    request_type: type[msgspec.Struct]
    serve: Callable[[OperatorContext, Request], Awaitable[ASGIApp]]
    response_type: type[msgspec.Struct] | None = None
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()
    #: Answers for one more release; the OpenAPI document says so.
    deprecated: bool = False
    #: Only the emulator has it.
    emulator: bool = False

    def is_offered(self, policy: Policy) -> bool:
        """Whether a server with this policy has the route."""
        return policy.emulator or not self.emulator


def route(
    method: str,
    path: str,
    summary: str,
    handler: Callable[[OperatorContext, str, RequestT], Awaitable[BodyT]],
    request_type: type[RequestT],
    response_type: type[BodyT],
    status: int = 200,
    *,
    deprecated: bool = False,
    emulator: bool = False,
) -> OperatorRoute:
    """Return the row of a handler that takes a typed request and returns a typed body."""

    async def serve(context: OperatorContext, request: Request) -> ASGIApp:
        body = await handler(context, _name(request), await decode(request, request_type))
        return Response(msgspec.json.encode(body), status, media_type="application/json")

    return OperatorRoute(
        method=method,
        path=path,
        summary=summary,
        request_type=request_type,
        response_type=response_type,
        status=status,
        serve=serve,
        deprecated=deprecated,
        emulator=emulator,
    )


def route_without_body(
    method: str,
    path: str,
    summary: str,
    handler: Callable[[OperatorContext, str, RequestT], Awaitable[None]],
    request_type: type[RequestT],
    *,
    deprecated: bool = False,
) -> OperatorRoute:
    """Return the row of a handler that answers 204."""

    async def serve(context: OperatorContext, request: Request) -> ASGIApp:
        await handler(context, _name(request), await decode(request, request_type))
        return Response(status_code=204)

    return OperatorRoute(
        method=method,
        path=path,
        summary=summary,
        request_type=request_type,
        status=204,
        serve=serve,
        deprecated=deprecated,
    )


async def decode(request: Request, request_type: type[RequestT]) -> RequestT:
    """Return the typed request; an empty body counts as an empty object.

    Raises:
        BadRequestError: the body or the query is invalid; ``field`` names the member at fault.
    """
    try:
        if request.method in WITH_BODY:
            return msgspec.json.decode(await _body(request) or b"{}", type=request_type)
        return msgspec.convert(_query(request), type=request_type, strict=False)
    except msgspec.ValidationError as error:
        raise malformed(error, request_type) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(400, f"the body is not JSON: {error}") from error


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BadRequestError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return body


def _query(request: Request) -> dict[str, str]:
    query: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in query:
            raise BadRequestError(422, f"{key}: given more than once", key)
        query[key] = value
    return query


def _name(request: Request) -> str:
    return "".join(str(value) for value in request.path_params.values())
