"""Reads the recorded answers of Azure: requests, the facts of their answers, and where the facts are from.

Each file in ``answers`` is about one kind of resource. A story is played on a server of its own: its set-up,
then its pairs in order. ``common.toml`` holds bodies and shapes that all files may use. Whatever the layout
does not know is refused.

A source that ends with *by analogy* reports the same answer to a request of the same kind.

A gap has a name, lists the differences that belong to it, and is explained in docs/gaps.md. A pair names the
gaps that its answer falls into.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fairwarning.core.document.render import Json
from tests.recorded.members import KINDS, LayoutError, Member, parse_members

ANSWERS = Path(__file__).parent / "answers"
COMMON = "common"

_STEP = re.compile(r"(?P<method>GET|HEAD|PUT|PATCH|POST|DELETE) (?P<path>[/{]\S*)(?: with (?P<body>\S+))?")
_INCIDENT = re.compile(r"(?P<verb>advance|poll|cause) (?P<what>\S.*)")
_SOURCE = re.compile(r"(?P<name>[a-z0-9-]+): (?P<place>\S.*)")
_NAME = re.compile(r"[A-Z].*[^.]")
_SLUG = re.compile(r"[a-z][a-z0-9-]*")

_FILE = frozenset(("about", "api", "sources", "bodies", "shapes", "gaps", "story"))
_STORY = frozenset(("name", "setup", "pair"))
_PAIR = frozenset(
    ("name", "source", "request", "send", "anonymous", "after", "status", "headers", "without", "differs")
)
_CONTENT = frozenset(("members", "error", "text", "empty"))

Table = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a story; ``after`` is how far the clock moves first.

    A request to the metadata API has no token but the header ``Metadata``.
    """

    method: str
    path: str
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    has_token: bool = True
    after: str = "0s"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happens between requests: time passes, a machine polls, the platform plans an event."""

    verb: str
    what: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Differences that have one reason."""

    name: str
    lines: Sequence[str]

    def covers(self, difference: str) -> bool:
        """Whether a difference is listed, wherever in the answer it is."""
        return any(difference == line or difference.endswith(f".{line}") for line in self.lines)


@dataclass(frozen=True, slots=True)
class Pair:
    """A request, and what is known of Azure's answer to it."""

    name: str
    source: str
    request: Request
    status: int
    headers: Mapping[str, str]
    without: Sequence[str]
    #: The members of a document, the kind of a text, or None for an answer without content.
    content: Member | str | None
    #: The gaps that the answer falls into.
    differs: Sequence["Gap"]


@dataclass(frozen=True, slots=True)
class Story:
    """Requests that are sent to one server, in order."""

    name: str
    api: str
    setup: Sequence[Request | Incident]
    pairs: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    sources: Mapping[str, str]
    bodies: Mapping[str, Json]
    shapes: Mapping[str, str]
    gaps: Mapping[str, Gap]


@cache
def read_stories() -> Mapping[str, Sequence[Story]]:
    """Return the stories, by the name of their file."""
    common = _vocabulary(tomllib.loads((ANSWERS / f"{COMMON}.toml").read_text()))
    return {
        path.stem: read_file(path.read_text(), common)
        for path in sorted(ANSWERS.glob("*.toml"))
        if path.stem != COMMON
    }


def defined_gaps() -> list[str]:
    """Return the names of all gaps, in order."""
    return sorted(name for path in ANSWERS.glob("*.toml") for name in _gaps(tomllib.loads(path.read_text())))


def read_file(text: str, common: _Vocabulary | None = None) -> Sequence[Story]:
    """Return the stories of a file."""
    table = tomllib.loads(text)
    _check_keys("the file", table, _FILE)
    vocabulary = _vocabulary(table, common)
    api = _text(table, "api", "management")
    return [_story(story, api, vocabulary) for story in _tables(table, "story")]


def _vocabulary(table: Table, common: _Vocabulary | None = None) -> _Vocabulary:
    common = common or _Vocabulary({}, {}, {}, {})
    bodies = {name: _json(name, text) for name, text in _texts(table, "bodies").items()}
    return _Vocabulary(
        sources={**common.sources, **_texts(table, "sources")},
        bodies={**common.bodies, **bodies},
        shapes={**common.shapes, **_texts(table, "shapes")},
        gaps={**common.gaps, **_gaps(table)},
    )


def _gaps(table: Table) -> Mapping[str, Gap]:
    gaps = table.get("gaps", {})
    if not isinstance(gaps, dict):
        raise LayoutError("gaps is a table")
    for name in gaps:
        if _SLUG.fullmatch(name) is None or not _list(gaps, name):
            raise LayoutError(f"{name!r} lists no difference")
    return {name: Gap(name, _list(gaps, name)) for name in gaps}


def _story(table: Table, api: str, vocabulary: _Vocabulary) -> Story:
    name = _text(table, "name")
    _check_keys(name, table, _STORY)
    setup = [_setup_step(step, vocabulary) for step in _list(table, "setup")]
    pairs = [_pair(pair, vocabulary) for pair in _tables(table, "pair")]
    if not pairs:
        raise LayoutError(f"the story {name!r} has no pair")
    return Story(name, api, setup, pairs)


def _setup_step(step: str, vocabulary: _Vocabulary) -> Request | Incident:
    incident = _INCIDENT.fullmatch(step)
    if incident is not None:
        return Incident(incident["verb"], incident["what"])
    return _request(step, vocabulary, {})


def _request(text: str, vocabulary: _Vocabulary, table: Table) -> Request:
    match = _STEP.fullmatch(text)
    if match is None:
        raise LayoutError(f"not a request: {text!r}")
    if match["body"] is not None and match["body"] not in vocabulary.bodies:
        raise LayoutError(f"no body {match['body']!r}")
    return Request(
        method=match["method"],
        path=match["path"],
        body=vocabulary.bodies[match["body"]] if match["body"] is not None else None,
        headers=_texts(table, "send"),
        has_token=table.get("anonymous") is not True,
        after=_text(table, "after", "0s"),
    )


def _pair(table: Table, vocabulary: _Vocabulary) -> Pair:
    name = _text(table, "name")
    _check_keys(name, table, _PAIR | _CONTENT)
    if _NAME.fullmatch(name) is None:
        raise LayoutError(f"not a sentence without its full stop: {name!r}")
    source = _SOURCE.fullmatch(_text(table, "source"))
    if source is None or source["name"] not in vocabulary.sources:
        raise LayoutError(f"{name}: the source is not one of the file's")
    headers = _texts(table, "headers")
    for kind in headers.values():
        _kind(name, kind)
    differs = _list(table, "differs")
    unknown = sorted(set(differs) - vocabulary.gaps.keys())
    if unknown:
        raise LayoutError(f"{name}: unknown gaps {unknown}")
    status = table.get("status")
    if not isinstance(status, int) or (status < 400 and "error" in table):
        raise LayoutError(f"{name}: a status is a number, and that of an error is 400 or more")
    return Pair(
        name=name,
        source=f"{vocabulary.sources[source['name']]} ({source['place']})",
        request=_request(_text(table, "request"), vocabulary, table),
        status=status,
        headers=headers,
        without=_list(table, "without"),
        content=_content(name, table, vocabulary),
        differs=[vocabulary.gaps[gap] for gap in differs],
    )


def _content(name: str, table: Table, vocabulary: _Vocabulary) -> Member | str | None:
    if len(_CONTENT & table.keys()) != 1:
        raise LayoutError(f"{name}: an answer has members, an error, a text or is empty")
    if "empty" in table:
        return None
    if "text" in table:
        return _kind(name, _text(table, "text"))
    if "members" in table:
        return parse_members(_text(table, "members"), vocabulary.shapes)
    code = json.dumps(_text(table, "error"))
    lines = f"error.code: {code}\nerror.message: string\nerror.target?: string\nerror.details?: array"
    return parse_members(f"{lines}\nerror.additionalInfo?: array", {})


def _kind(name: str, kind: str) -> str:
    if kind not in KINDS:
        raise LayoutError(f"{name}: {kind!r} is no kind")
    return kind


def _check_keys(name: str, table: Table, known: frozenset[str]) -> None:
    unknown = sorted(table.keys() - known)
    if unknown:
        raise LayoutError(f"{name}: unknown keys {unknown}")


def _text(table: Table, key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise LayoutError(f"{key} is a text")
    return value


def _texts(table: Table, key: str) -> dict[str, str]:
    texts = table.get(key, {})
    if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
        raise LayoutError(f"{key} is a table of texts")
    return texts


def _list(table: Table, key: str) -> list[str]:
    items = table.get(key, [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise LayoutError(f"{key} is a list of texts")
    return items


def _tables(table: Table, key: str) -> list[Table]:
    tables = table.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise LayoutError(f"{key} is a list of tables")
    return tables


def _json(name: str, text: str) -> Json:
    try:
        body: Json = json.loads(text)
    except ValueError as problem:
        raise LayoutError(f"the body {name!r} is not JSON: {problem}") from None
    return body
