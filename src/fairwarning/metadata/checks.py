"""The query parameters, and the checks that all categories share (R-04 to R-08)."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote_plus

from fairwarning.core.document.render import Json, compact_json
from fairwarning.core.errors import FairWarningError, StorageError, UnknownMachineError, UnknownScopeError
from fairwarning.formats.log_messages import LogMessage
from fairwarning.http1.messages import JSON, Request, Response

log = logging.getLogger("fairwarning.metadata")

_NOTHING: tuple[str, ...] = ()
_NO_HEADER = "Bad request. Required metadata header not specified"
_BAD_VERSION = (
    "Bad request. api-version is invalid or was not specified in the request. "
    "For more information refer to aka.ms/azureimds"
)
#: R-27: what Azure said from 2019 to 2022 instead.
_OLD_TEXTS: Mapping[Json, Json] = {
    _NO_HEADER: "Bad request: . Required metadata header not specified",
    _BAD_VERSION: (
        "Bad request. api-version was not specified in the request. "
        "For more information refer to aka.ms/azureimds"
    ),
}


class GuestHeader(StrEnum):
    """Every header that a check reads, or that the answer to a poll depends on.

    The fast path answers polls alike that differ only in other headers, so headers are read through
    ``header_values`` alone.
    """

    FORWARDED_FOR = "x-forwarded-for"
    IF_NONE_MATCH = "if-none-match"
    METADATA = "metadata"


def header_values(request: Request, header: GuestHeader) -> tuple[str, ...]:
    """Return the values of a header; none if the request does not have it."""
    return request.headers.get(header, _NOTHING)


class CheckFailedError(FairWarningError):
    """A check failed; ``response`` is the error response."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"answered with status {response.status}")
        self.response = response


def error(status: int, message: str, *headers: tuple[str, str], **more: Json) -> Response:
    """Return an error response in the format of the service (R-09)."""
    return Response(status, compact_json({"error": message, **more}), headers, JSON)


TOO_MANY = error(429, "Too many requests", ("Retry-After", "1"))
#: R-29: the node does not know whether its documents are old.
STALE = error(503, "Service unavailable", ("Retry-After", "1"))
FORBIDDEN = error(403, "Forbidden. This address belongs to no machine of the fleet")

NO_LOAD_BALANCER = error(
    404,
    "No load balancer metadata is found. "
    "Please check if your VM is using any non-basic SKU load balancer and retry later.",
)

#: R-28: on Azure, another server answers outside of /metadata.
NO_PAGE = Response(
    404,
    b"<!DOCTYPE html>\n<title>404</title>\n<p>fairwarning: the metadata API is below /metadata.</p>\n",
    (("Server", "Microsoft-IIS/10.0"),),
    "text/html",
)


def error_response(problem: FairWarningError) -> Response:
    """Return the response to a request that failed."""
    match problem:
        case CheckFailedError(response=response):
            return response
        case UnknownMachineError() | UnknownScopeError():
            return FORBIDDEN
        case _ if problem.status_hint >= 500:
            # Details are for the log, not for guests; the engine logs that nothing can be stored.
            if not isinstance(problem, StorageError):
                log.error(LogMessage("request_failed", problem=problem))
            headers = () if problem.retry_after is None else (("Retry-After", problem.retry_after),)
            return error(problem.status_hint, "Service unavailable", *headers)
        case _:
            return error(problem.status_hint, str(problem))


@lru_cache(maxsize=512)
def parse_query(query: str) -> Mapping[str, str]:
    """Return the parameters of a query; cached, because guests repeat their queries.

    Raises:
        CheckFailedError: a parameter is given twice (R-08).
    """
    parameters: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        name = unquote_plus(name).lower()
        if name in parameters:
            raise CheckFailedError(error(400, f"Bad request. Query parameter {name} is given more than once"))
        parameters[name] = unquote_plus(value)
    return MappingProxyType(parameters)


def check_forwarded(request: Request) -> None:
    """Refuse a request that came through a proxy (R-05)."""
    if header_values(request, GuestHeader.FORWARDED_FOR):
        raise CheckFailedError(error(400, "Bad request. X-Forwarded-For header is not allowed"))


def check_metadata_header(request: Request) -> None:
    """Refuse a request without ``Metadata: true`` (R-04)."""
    values = header_values(request, GuestHeader.METADATA)
    if values == ("true",):
        return
    if not values or any(value.strip().lower() != "true" for value in values):
        raise CheckFailedError(error(400, _NO_HEADER))


def bad_version(newest_first: Sequence[str]) -> CheckFailedError:
    """Return the error for a missing or malformed api-version (R-06)."""
    newest: dict[str, Json] = {"newest-versions": [*newest_first[:3]]}
    return CheckFailedError(error(400, _BAD_VERSION, **newest))


def old_error(response: Response) -> Response:
    """Return an error as it was from 2019 to 2022: in other words, and with blanks (R-27)."""
    document: dict[str, Json] = json.loads(response.body)
    text = json.dumps({**document, "error": _OLD_TEXTS.get(document["error"], document["error"])})
    return replace(response, body=f"{{ {text[1:-1]} }}".encode())


def not_found(request: Request) -> Response:
    """Return the response to an unknown path (R-09, R-28)."""
    if not f"{request.path.lower()}/".startswith("/metadata/"):
        return NO_PAGE
    message = f'API is not found: Path = "{request.path}", Method = "{request.method}"'
    return error(404, message)


def not_allowed(request: Request, *methods: str) -> CheckFailedError:
    """Return the error for a method that the path does not support (R-09)."""
    message = f'Http method is not allowed: Path = "{request.path}", Method = "{request.method}"'
    return CheckFailedError(error(405, message, ("Allow", ", ".join(methods))))


def known_tags(request: Request) -> frozenset[str]:
    """Return the incarnations of the documents that the guest has, from ``If-None-Match``."""
    return _parse_tags(header_values(request, GuestHeader.IF_NONE_MATCH)[:1])


@lru_cache(maxsize=512)
def _parse_tags(values: tuple[str, ...]) -> frozenset[str]:
    tags = (tag for value in values for tag in value.split(","))
    return frozenset(tag.strip().removeprefix("W/").strip('"') for tag in tags)
