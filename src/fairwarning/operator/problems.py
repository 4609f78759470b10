"""Refusals as RFC 9457 problem documents: the one place where errors become responses.

FairWarningError
├── BadRequestError   the request itself is invalid; carries its status
└── NotReadyError     the server should not be sent traffic; says why
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import get_args

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fairwarning.core.errors import FairWarningError
from fairwarning.engine.membership import Problem
from fairwarning.formats.reason_phrases import REASON_PHRASES
from fairwarning.operator.schemas import ProblemBody, ReasonBody

_LOCATION = re.compile(r" - at (?:`key` in )?`\$?\.?(?P<path>.*)`\Z")
_MEMBER = re.compile(r"(?:unknown|required) field `(?P<member>.*)`\Z", re.DOTALL)
#: The response to an unexpected error is written outside the middleware that adds this header.
_UNCACHED: Mapping[str, str] = {"Cache-Control": "no-store"}
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Published problem types that differ from the name of the exception; clients rely on them.
_PUBLISHED: Mapping[str, str] = {
    "RolloutUnderWayError": "walk-under-way",
    "StorageError": "storage-error",
    "TooManyGuessesError": "too-many-guesses-error",
    "TooManyStreamsError": "too-many-streams-error",
    "UnknownOutcomeError": "unknown-outcome-error",
    "UnknownRolloutError": "unknown-walk",
}


class BadRequestError(FairWarningError):
    """The request itself is invalid."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field


class NotReadyError(FairWarningError):
    """The server should not be sent traffic."""

    status_hint = 503
    retry_after = "1"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.detail for problem in problems))
        self.problems = problems


def malformed(error: msgspec.ValidationError, request_type: type[msgspec.Struct]) -> BadRequestError:
    """Return the refusal of a request that does not fit its type, with the valid values of an enum."""
    text = str(error)
    location = _LOCATION.search(text)
    reason = text[: location.start()] if location else text
    path = location["path"] if location else ""
    member = _MEMBER.search(reason)
    if member:
        path = f"{path}.{member['member']}" if path else member["member"]
    reason = reason[:1].lower() + reason[1:]
    if choices := _choices(request_type, path):
        reason = f"{reason}; must be one of {', '.join(choices)}"
    return BadRequestError(422, f"{path}: {reason}" if path else reason, path or None)


def _choices(request_type: type[msgspec.Struct], member: str) -> list[str]:
    """Return the values of a member that is an enum; an empty list for any other member."""
    types = [
        get_args(field.type) or (field.type,)
        for field in msgspec.structs.fields(request_type)
        if field.name == member
    ]
    return [
        str(value)
        for kind in chain.from_iterable(types)
        if isinstance(kind, type) and issubclass(kind, StrEnum)
        for value in kind
    ]


def problem_response(
    status: int, detail: str, *, kind: str = "", title: str = "", field: str | None = None,
    headers: Mapping[str, str] | None = None, reasons: Sequence[Problem] = (),
) -> Response:  # fmt: skip
    """Return a problem document."""
    member: str | UnsetType = UNSET if field is None else field
    problem = ProblemBody(
        type=f"urn:fairwarning:problem:{kind}" if kind else "about:blank",
        title=title or REASON_PHRASES[status],
        status=status,
        detail=detail,
        field=member,
        reasons=[ReasonBody(reason=one.reason, detail=one.detail) for one in reasons] or UNSET,
    )
    return Response(
        msgspec.json.encode(problem), status, headers=headers, media_type="application/problem+json"
    )


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that raised an exception."""
    match error:
        case BadRequestError(status=status, field=field):
            return problem_response(status, str(error), field=field)
        case FairWarningError():
            return _refusal(error)
        case HTTPException(status_code=status, headers=headers):
            return problem_response(status, _http_detail(request, status), headers=headers)
        case ClientDisconnect():
            return problem_response(400, "the connection closed before the body was complete")
        case _:
            return problem_response(500, "internal server error; see the server's log", headers=_UNCACHED)


def _refusal(error: FairWarningError) -> Response:
    headers = None if error.retry_after is None else {"Retry-After": error.retry_after}
    name = type(error).__name__
    title = (type(error).__doc__ or name).partition("\n")[0].rstrip(".")
    kind = _PUBLISHED.get(name) or _WORD_BOUNDARY.sub("-", name.removesuffix("Error")).lower()
    reasons = error.problems if isinstance(error, NotReadyError) else ()
    return problem_response(
        error.status_hint,
        str(error),
        kind=kind,
        title=title,
        field=error.field,
        headers=headers,
        reasons=reasons,
    )


def _http_detail(request: Request, status: int) -> str:
    path = request.url.path
    return {404: f"no such path: {path}", 405: f"{path} does not support {request.method}"}.get(
        status, REASON_PHRASES[status].lower()
    )
