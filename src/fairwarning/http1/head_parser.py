"""Parses request heads strictly: refuses everything that two parsers could read differently.

===========  =====================================================================================
method       any token; the router answers 405
target       ``/path?query``, or ``http://any-host/path?query`` so that ``http_proxy=`` works
version      HTTP/1.0 and HTTP/1.1
persistence  1.1 unless ``Connection: close``; 1.0 only with ``Connection: keep-alive``
body         by one ``Content-Length``, or ``Transfer-Encoding: chunked`` on 1.1; trailers are
             checked and dropped
Expect       ``100-continue`` on 1.1; without effect on 1.0
Upgrade      ignored
===========  =====================================================================================
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from fairwarning.http1.messages import BODY_LIMIT, LINE_LIMIT, Request, RequestFault, RequestRefusedError

Fields: TypeAlias = Mapping[str, tuple[str, ...]]

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_AUTHORITY = r"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
# Printable ASCII without "#": a fragment has no meaning to a server.
_TARGET = rf"""(?:(?i:http)://{_AUTHORITY})?(/[!"$->@-~]*)(?:\?([!"$-~]*))?"""
VALUE = r"[\t -~\x80-\xff]*"
#: One header line, without its end.
FIELD = rf"{TOKEN}:{VALUE}"
_FIELDS = rf"(?:{FIELD}\r\n)*"
_HEAD = re.compile(rf"({TOKEN}) {_TARGET} HTTP/(1\.[01])\r\n({_FIELDS})\r\n")
_TRAILERS = re.compile(rf"({_FIELDS})\r\n")

#: What no head may contain; found even before the head is complete.
STRAY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n")

_LINE = rf"{TOKEN} [^ \t\r]+ HTTP/[0-9]\.[0-9]\r\n"
#: How a head must begin, in the order of the checks; a bad head that passes all has a bad header line.
_HEAD_CHECKS: Mapping[RequestFault, re.Pattern[str]] = {
    RequestFault.REQUEST_LINE: re.compile(_LINE),
    RequestFault.VERSION: re.compile(r"[^ ]+ [^ ]+ HTTP/1\.[01]\r\n"),
    RequestFault.TARGET: re.compile(rf"[^ ]+ {_TARGET} HTTP"),
    RequestFault.FOLDED: (_UNFOLDED := re.compile(rf"(?:{_LINE})?+(?>{_FIELDS})(?![ \t])")),
}

_LENGTH = re.compile(r"[0-9]{1,16}")
_NOTHING: tuple[str, ...] = ()
#: Headers that would change the meaning of a head that was parsed already.
_HEAD_ONLY = frozenset({"content-length", "transfer-encoding", "host", "connection", "expect"})
#: The headers that decide where a request ends; few requests have any.
_FRAMING = frozenset({"content-length", "transfer-encoding", "expect"})

#: What well-formed header lines may still get wrong, in the order of the checks.
_FRAMING_CHECKS: Mapping[RequestFault, Callable[[Fields, str], bool]] = {
    RequestFault.EXPECT: lambda fields, version: _lower(fields, "expect") not in ((), ("100-continue",)),
    RequestFault.LENGTH_AND_CODING: lambda fields, version: (
        "content-length" in fields and "transfer-encoding" in fields
    ),
    RequestFault.CODING_TOO_EARLY: lambda fields, version: version == "1.0" and "transfer-encoding" in fields,
    RequestFault.CODING: lambda fields, version: (
        _lower(fields, "transfer-encoding") not in ((), ("chunked",))
    ),
    RequestFault.LENGTH: lambda fields, version: not _is_length(fields.get("content-length", ("0",))),
    RequestFault.BODY_SIZE: lambda fields, version: int(*fields.get("content-length", ("0",))) > BODY_LIMIT,
}


class RequestHead(NamedTuple):
    """A request without its body, and the length of the body."""

    request: Request
    length: int | None = 0  # None: chunked
    expects_continue: bool = False


def read_head(block: bytes) -> RequestHead:
    """Parse a head; its last line is empty.

    Raises:
        RequestRefusedError: the head breaks a rule.
    """
    _check_lines(block)
    text = block.decode("latin-1")
    match = _HEAD.fullmatch(text)
    if match is None:
        raise RequestRefusedError(_diagnose(block, text))
    method, path, query, version, lines = match.groups()
    fields = _read_fields(lines)
    hosts = fields.get("host", _NOTHING)
    if len(hosts) != 1 and (hosts or version == "1.1"):
        raise RequestRefusedError(RequestFault.HOST_REPEATED if hosts else RequestFault.HOST_MISSING)
    keep_alive = version == "1.1" if "connection" not in fields else _keeps_alive(fields, version)
    request = Request(method, path, query or "", MappingProxyType(fields), b"", keep_alive, version)
    if _FRAMING.isdisjoint(fields):
        return RequestHead(request)
    for fault, fails in _FRAMING_CHECKS.items():
        if fails(fields, version):
            raise RequestRefusedError(fault)
    length = None if "transfer-encoding" in fields else int(*fields.get("content-length", ("0",)))
    return RequestHead(request, length, expects_continue="expect" in fields and version == "1.1")


def check_trailers(block: bytes) -> None:
    """Check the lines after a chunked body.

    Raises:
        RequestRefusedError: a line is not a header line, or would change the meaning of the head.
    """
    _check_lines(block)
    text = block.decode("latin-1")
    if STRAY.search(block):
        raise RequestRefusedError(RequestFault.STRAY)
    match = _TRAILERS.fullmatch(text)
    if match is None:
        raise RequestRefusedError(RequestFault.FIELD if _UNFOLDED.match(text) else RequestFault.FOLDED)
    if not _HEAD_ONLY.isdisjoint(_read_fields(match[1])):
        raise RequestRefusedError(RequestFault.TRAILER)


def _check_lines(block: bytes) -> None:
    if block.count(b"\n") > LINE_LIMIT:
        raise RequestRefusedError(RequestFault.FIELD_COUNT)


def _read_fields(lines: str) -> dict[str, tuple[str, ...]]:
    fields: dict[str, list[str]] = {}
    for line in lines.split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip(" \t"))
    return {name: tuple(values) for name, values in fields.items()}


def _diagnose(block: bytes, text: str) -> RequestFault:
    if STRAY.search(block):
        return RequestFault.STRAY
    failed = (fault for fault, pattern in _HEAD_CHECKS.items() if not pattern.match(text))
    return next(failed, RequestFault.FIELD)


def _lower(fields: Fields, name: str) -> tuple[str, ...]:
    return tuple(value.lower() for value in fields.get(name, _NOTHING))


def _is_length(lengths: tuple[str, ...]) -> bool:
    return len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]) is not None


def _keeps_alive(fields: Fields, version: str) -> bool:
    listed = ",".join(fields.get("connection", _NOTHING)).lower()
    options = {option.strip(" \t") for option in listed.split(",")}
    return "close" not in options and (version == "1.1" or "keep-alive" in options)
