"""What an answer consists of, written one member a line, and how a document differs from it.

::

    id: id                                  a member and its kind
    properties.provisioningState: "Updating"    a member with a fixed value, as JSON
    zones[]: string                         the items of a list
    [].name: string                         the same if the document is a list
    statuses[].time?: instant               a member that may be absent
    value[]: @machine                       everything that the shape ``machine`` lists, below a path
    @machine                                the same at the top

The list is complete: a member that it does not name is a difference. Only what is inside of an ``object`` or
an ``array`` without lines of its own is left open. A later line about a path replaces an earlier one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairwarning.core.document.render import Json

#: The kinds of values: JSON types, and the forms of strings that Azure uses.
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
FORMS: Mapping[str, re.Pattern[str]] = {
    "guid": re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "id": re.compile(r"/subscriptions/[^?\s]+"),
    "duration": re.compile(r"P(?=.)(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?"),
    "etag": re.compile(r'(?:W/)?"[^"]+"'),
    "url": re.compile(r"https?://\S+"),
    "operation": re.compile(r"https://\S+/operation\w*/[^/?\s]+\?\S*api-version=\S+"),
    "address": re.compile(r"\d{1,3}(?:\.\d{1,3}){3}"),
    "digits": re.compile(r"\d+"),
    "http-date": re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"),
    "html": re.compile(r"text/html(?:; charset=\S+)?"),
    "json": re.compile(r"application/json(?:; charset=utf-8)?"),
    "any": re.compile(r".*", re.DOTALL),
}
_INSTANT = "instant"
KINDS = frozenset((*TYPES, *FORMS, _INSTANT))

_LINE = re.compile(r"(?P<path>[^\s:?@]+)(?P<optional>\?)?: (?P<value>\S.*)")
_STEP = re.compile(r"([^.\[\]]*)((?:\[\])*)")
_ITEM = "[]"


class LayoutError(Exception):
    """The data of the recorded answers is not written as its layout asks."""


@dataclass(slots=True)
class Member:
    """One place in a document: what is allowed there, and what is below it."""

    path: str
    kind: str = ""
    value: Json = None
    is_fixed: bool = False
    is_optional: bool = False
    below: dict[str, "Member"] = field(default_factory=dict)


def parse_members(text: str, shapes: Mapping[str, str]) -> Member:
    """Return the tree of the members that a text lists."""
    root = Member("")
    for path, is_optional, value in _expand(text, shapes, ""):
        member = root
        for step in _steps(path):
            below = f"{member.path}{step if step == _ITEM else f'.{step}'}".removeprefix(".")
            member = member.below.setdefault(step, Member(below))
        member.is_optional, member.kind, member.is_fixed = is_optional, "", value not in KINDS
        if member.is_fixed:
            member.value = _read_value(path, value)
        else:
            member.kind = value
    return root


def _expand(text: str, shapes: Mapping[str, str], prefix: str) -> Iterator[tuple[str, bool, str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line if not line.startswith("@") else f".: {line}")
        if match is None:
            raise LayoutError(f"not a member line: {line!r}")
        path, value = match["path"], match["value"]
        joined = prefix if path == "." else f"{prefix}.{path}".removeprefix(".")
        if not value.startswith("@"):
            yield joined, match["optional"] is not None, value
        elif value[1:] in shapes:
            yield from _expand(shapes[value[1:]], shapes, joined)
        else:
            raise LayoutError(f"no shape {value[1:]!r}")


def _steps(path: str) -> Iterator[str]:
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None or not part:
            raise LayoutError(f"not a path: {path!r}")
        if match[1]:
            yield match[1]
        yield from (_ITEM for _ in range(match[2].count(_ITEM)))


def _read_value(path: str, text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError:
        raise LayoutError(f"{path}: {text!r} is neither a kind nor JSON") from None
    return value


def compare(member: Member, document: Json) -> Iterator[str]:
    """Return how a document differs from what is listed, one line for each place."""
    problem = _problem(member, document)
    if problem is not None:
        yield f"{member.path}: {problem}"
    elif isinstance(document, list):
        yield from _compare_items(member, document)
    elif isinstance(document, dict):
        yield from _compare_fields(member, document)


def _compare_items(member: Member, items: Sequence[Json]) -> Iterator[str]:
    item = member.below.get(_ITEM)
    if item is None:
        return
    if not items and not item.is_optional:
        yield f"{item.path}: missing"
    # Items that differ in the same way are one difference.
    yield from dict.fromkeys(line for value in items for line in compare(item, value))


def _compare_fields(member: Member, fields: Mapping[str, Json]) -> Iterator[str]:
    for name, below in member.below.items():
        if name in fields:
            yield from compare(below, fields[name])
        elif not below.is_optional:
            yield f"{below.path}: missing"
    for name in fields if member.below else ():
        if name not in member.below:
            yield f"{member.path}.{name}: extra".removeprefix(".")


def _problem(member: Member, value: Json) -> str | None:
    """Return what is wrong with the value itself, whatever is inside of it."""
    if member.is_fixed:
        return None if value == member.value else f"{_shown(value)} for {_shown(member.value)}"
    kind = member.kind or _implied_kind(member)
    return None if has_kind(value, kind) else f"{_name_of(value)} for {kind}"


def _implied_kind(member: Member) -> str:
    return "array" if _ITEM in member.below else "object"


def has_kind(value: Json, kind: str) -> bool:
    """Whether a value is of a kind."""
    if kind in TYPES:
        return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not isinstance(value, str):
        return False
    return _is_instant(value) if kind == _INSTANT else FORMS[kind].fullmatch(value) is not None


def _is_instant(text: str) -> bool:
    # Azure writes seven digits of a second; Python reads at most six.
    try:
        instant = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return False
    return instant.tzinfo is not None


def _shown(value: Json) -> str:
    return _name_of(value) if value and isinstance(value, list | dict) else json.dumps(value)


def _name_of(value: Json) -> str:
    if value is None:
        return "null"
    return next((name for name in TYPES if has_kind(value, name)), "number")
