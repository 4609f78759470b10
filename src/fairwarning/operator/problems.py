"""Refusals as RFC 9457 problem documents: the one place where errors become answers.

FairWarningError
├── Refusal      the request itself is at fault; carries its status
└── Misnamed     a member of the body names what does not exist; carries the core's error
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from http import HTTPStatus
from itertools import chain
from typing import get_args

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.operator.schemas import ProblemBody
from fairwarning.streams import TooManyStreamsError

_PLACE = re.compile(r" - at (?:`key` in )?`\$?\.?(?P<path>.*)`\Z")
_MEMBER = re.compile(r"(?:unknown|required) field `(?P<member>.*)`\Z", re.DOTALL)
#: The answer to a failure is written outside the app, where nothing else adds it.
_UNCACHED: Mapping[str, str] = {"Cache-Control": "no-store"}
#: When to come back to a server that has no room now, in seconds.
_LATER: Mapping[str, str] = {"Retry-After": "5"}
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Problem types that do not follow from the name of the exception: clients know them as they first were.
_KINDS: Mapping[str, str] = {
    "RolloutUnderWayError": "walk-under-way",
    "StorageError": "storage-error",
    "TooManyGuessesError": "too-many-guesses-error",
    "TooManyStreamsError": "too-many-streams-error",
    "UnknownOutcomeError": "unknown-outcome-error",
    "UnknownRolloutError": "unknown-walk",
}


class BadRequestError(FairWarningError):
    """The request itself is at fault."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field


class FieldError(FairWarningError):
    """A member of the body names something that does not exist or is not one thing."""

    def __init__(self, field: str, error: FairWarningError) -> None:
        super().__init__(str(error))
        self.field = field
        self.error = error


@contextmanager
def field_context(field: str) -> Iterator[None]:
    """Let refusals of the block say which member of the body they are about."""
    try:
        yield
    except FairWarningError as error:
        raise FieldError(field, error) from error


def malformed(error: msgspec.ValidationError, wanted: type[msgspec.Struct]) -> BadRequestError:
    """Return the refusal of a value that is not of the type it should be, and the choice if there is one."""
    text = str(error)
    place = _PLACE.search(text)
    said = text[: place.start()] if place else text
    path = place["path"] if place else ""
    member = _MEMBER.search(said)
    if member:
        path = f"{path}.{member['member']}" if path else member["member"]
    said = said[:1].lower() + said[1:]
    if choices := _choices(wanted, path):
        said = f"{said}; must be one of {', '.join(choices)}"
    return BadRequestError(422, f"{path}: {said}" if path else said, path or None)


def _choices(wanted: type[msgspec.Struct], member: str) -> list[str]:
    """Return what may be said in a member that is a choice; nothing if it is none."""
    kinds = [
        get_args(one.type) or (one.type,) for one in msgspec.structs.fields(wanted) if one.name == member
    ]
    return [
        str(value)
        for kind in chain.from_iterable(kinds)
        if isinstance(kind, type) and issubclass(kind, StrEnum)
        for value in kind
    ]


def answer(
    status: int, detail: str, *, kind: str = "", title: str = "", field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:  # fmt: skip
    """Return a problem document."""
    named: str | UnsetType = UNSET if field is None else field
    problem = ProblemBody(
        type=f"urn:fairwarning:problem:{kind}" if kind else "about:blank",
        title=title or HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        field=named,
    )
    return Response(
        msgspec.json.encode(problem), status, headers=headers, media_type="application/problem+json"
    )


async def refuse(request: Request, error: Exception) -> Response:
    """Answer what the core or the engine refused."""
    match error:
        case FieldError(field=field, error=reason):
            return _refused(reason, field)
        case BadRequestError(status=status, field=field):
            return answer(status, str(error), field=field)
        case InvalidError(field=field):
            return _refused(error, field)
        case TooManyStreamsError():
            return _refused(error, headers=_LATER)
        case FairWarningError():
            return _refused(error)
        case HTTPException(status_code=status, headers=headers):
            return answer(status, _at(request, status), headers=headers)
        case ClientDisconnect():
            return answer(400, "the request ended before its body did")
        case _:
            return answer(500, "the server failed; its log says why", headers=_UNCACHED)


def _refused(
    error: FairWarningError, field: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    name = type(error).__name__
    title = (type(error).__doc__ or name).partition("\n")[0].rstrip(".")
    kind = _KINDS.get(name) or _WORDS.sub("-", name.removesuffix("Error")).lower()
    return answer(error.status_hint, str(error), kind=kind, title=title, field=field, headers=headers)


def _at(request: Request, status: int) -> str:
    path = request.url.path
    return {404: f"there is nothing at {path}", 405: f"{path} does not take {request.method}"}.get(
        status, HTTPStatus(status).phrase.lower()
    )
