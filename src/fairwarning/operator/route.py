"""One row of the API: what is asked, by whom it is answered, and how a request is read into that."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import BadRequestError, malformed

Asked = TypeVar("Asked", bound=msgspec.Struct)
Answer = TypeVar("Answer", bound=msgspec.Struct)

#: The largest body that is read.
MOST_BYTES = 64 * 1024

#: Methods whose wishes stand in the body; those of the others stand in the query.
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRoute:
    """One method of one path, which has at most one name in it."""

    method: str
    path: str
    summary: str
    asked: type[msgspec.Struct]
    serve: Callable[[OperatorContext, Request], Awaitable[ASGIApp]]
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()


def route(
    method: str,
    path: str,
    summary: str,
    handler: Callable[[OperatorContext, str, Asked], Awaitable[Answer]],
    asked: type[Asked],
    answer: type[Answer],
    status: int = 200,
) -> OperatorRoute:
    """Return the row of a handler that takes a typed wish and returns a typed answer."""

    async def serve(desk: OperatorContext, request: Request) -> ASGIApp:
        said = await handler(desk, _name(request), await read(request, asked))
        return Response(msgspec.json.encode(said), status, media_type="application/json")

    return OperatorRoute(
        method=method, path=path, summary=summary, asked=asked, answer=answer, status=status, serve=serve
    )


def silent(
    method: str,
    path: str,
    summary: str,
    handler: Callable[[OperatorContext, str, Asked], Awaitable[None]],
    asked: type[Asked],
) -> OperatorRoute:
    """Return the row of a handler that has nothing to say."""

    async def serve(desk: OperatorContext, request: Request) -> ASGIApp:
        await handler(desk, _name(request), await read(request, asked))
        return Response(status_code=204)

    return OperatorRoute(method=method, path=path, summary=summary, asked=asked, status=204, serve=serve)


async def read(request: Request, wanted: type[Asked]) -> Asked:
    """Return what is asked, or refuse it naming the member at fault; an empty body is an empty object."""
    try:
        if request.method in WITH_BODY:
            return msgspec.json.decode(await _body(request) or b"{}", type=wanted)
        return msgspec.convert(_query(request), type=wanted, strict=False)
    except msgspec.ValidationError as error:
        raise malformed(error, wanted) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(400, f"the body is not JSON: {error}") from error


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise BadRequestError(413, f"the body is larger than {MOST_BYTES} bytes")
    return body


def _query(request: Request) -> dict[str, str]:
    query: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in query:
            raise BadRequestError(422, f"{key}: given twice", key)
        query[key] = value
    return query


def _name(request: Request) -> str:
    return "".join(str(value) for value in request.path_params.values())
