"""Plays a story on a server of its own, in process, and compares its answers with Azure's."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Protocol
from urllib.parse import urlsplit

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from fairwarning.http1.messages import Request as GuestRequest
from tests.arm.arm_client import arm_client
from tests.fleet_harness import span
from tests.guest import cloud
from tests.recorded.members import compare, has_kind
from tests.recorded.stories import Incident, Pair, Request, read_stories

_ROOT = f"/subscriptions/{SUBSCRIPTION}"
_GROUP = f"{_ROOT}/resourceGroups/lab"
#: What stands for a place in the paths and bodies of requests.
PLACES: Mapping[str, str] = {
    "{subscription}": _ROOT,
    "{group}": _GROUP,
    "{compute}": f"{_GROUP}/providers/Microsoft.Compute",
    "{network}": f"{_GROUP}/providers/Microsoft.Network",
    "{resources}": f"{_GROUP}/providers/Microsoft.Resources",
}
#: Placeholders for the URL that the last answer with such a header has given.
LINKS: Mapping[str, str] = {"{operation}": "azure-asyncoperation", "{monitor}": "location"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, whichever API it is from; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Server(Protocol):
    """What a story is played on."""

    def send(self, request: Request) -> Answer | None:
        """Return the answer to a request; None if it follows a link that no answer has given."""

    def advance(self, by: str) -> None:
        """Move the clock."""

    def poll(self, machine: str) -> None:
        """Poll as a machine, which is warned from then on."""

    def cause(self, cause: str, machine: str) -> None:
        """Schedule an event."""


class Management:
    """The management API, with an empty fleet; ``{event}`` is the id of the last event."""

    def __init__(self) -> None:
        self._client = arm_client()
        self._links: dict[str, str] = {}
        self._events: dict[str, str] = {}

    def send(self, request: Request) -> Answer | None:
        if request.method not in ("GET", "HEAD"):
            self._links.clear()
        path = _fill_in(request.path, {**PLACES, **self._links, **self._events})
        if path.startswith(tuple(LINKS)):
            return None
        response = self._client.send(
            request.method,
            path,
            _fill_in_body(request.body),
            headers=request.headers,
            token="" if request.has_token else None,
        )
        headers = {name.lower(): value for name, value in response.headers.items()}
        for placeholder, header in LINKS.items():
            if header in headers:
                parts = urlsplit(headers[header])
                self._links[placeholder] = f"{parts.path}?{parts.query}"
        return Answer(response.status_code, headers, response.content)

    def advance(self, by: str) -> None:
        self._client.fleet.advance(by)

    def poll(self, machine: str) -> None:
        self._client.fleet.poll(machine)

    def cause(self, cause: str, machine: str) -> None:
        self._events["{event}"] = self._client.fleet.cause(cause, machine)[0].lower()


class Metadata:
    """The metadata API of the machine ``web_0``, one of a scale set of three."""

    def __init__(self, stack: ExitStack) -> None:
        self._cloud = stack.enter_context(cloud())

    def send(self, request: Request) -> Answer | None:
        parts = urlsplit(request.path)
        headers = {name.lower(): (value,) for name, value in request.headers.items()}
        if request.has_token:
            headers["metadata"] = ("true",)
        content = b"" if request.body is None else json.dumps(request.body).encode()
        sent = GuestRequest(request.method, parts.path, parts.query, headers, content, True)
        response = self._cloud.ask("web_0", sent)
        answered = {name.lower(): value for name, value in response.headers}
        if response.content_type is not None:
            answered["content-type"] = response.content_type
        return Answer(response.status, answered, response.body)

    def advance(self, by: str) -> None:
        self._cloud.advance(seconds=span(by).total_seconds())

    def poll(self, machine: str) -> None:
        self._cloud.get(machine)

    def cause(self, cause: str, machine: str) -> None:
        self._cloud.cause(cause, machine)


@cache
def play(file: str, story: int) -> Mapping[str, tuple[str, ...]]:
    """Return the differences of every pair of a story, by the name of the pair."""
    played = read_stories()[file][story]
    with ExitStack() as stack:
        server: Server = Management() if played.api == "management" else Metadata(stack)
        for step in played.setup:
            _set_up(server, step)
        return {pair.name: tuple(_differences(pair, server)) for pair in played.pairs}


def _set_up(server: Server, step: Request | Incident) -> None:
    if isinstance(step, Request):
        answer = server.send(step)
        assert answer is not None
        assert answer.status < 400, (step.path, answer)
    elif step.verb == "advance":
        server.advance(step.what)
    elif step.verb == "poll":
        server.poll(step.what)
    else:
        server.cause(*step.what.split())


def _differences(pair: Pair, server: Server) -> Iterator[str]:
    server.advance(pair.request.after)
    answer = server.send(pair.request)
    if answer is None:
        yield f"{pair.request.path}: not given"
    else:
        yield from _compare_answer(pair, answer)


def _compare_answer(pair: Pair, answer: Answer) -> Iterator[str]:
    if answer.status != pair.status:
        yield f"status: {answer.status} for {pair.status}"
        if answer.status // 100 != pair.status // 100:
            # An error says nothing about the members of a success, and vice versa.
            return
    for name, kind in pair.headers.items():
        value = answer.headers.get(name.lower())
        if value is None:
            yield f"header {name}: missing"
        elif not has_kind(value, kind):
            yield f"header {name}: not of the kind {kind}"
    for name in pair.without:
        if name.lower() in answer.headers:
            yield f"header {name}: extra"
    yield from _compare_content(pair, answer.content)


def _compare_content(pair: Pair, content: bytes) -> Iterator[str]:
    if pair.content is None:
        if content:
            yield "content: extra"
        return
    if not content:
        yield "content: missing"
        return
    if isinstance(pair.content, str):
        if not has_kind(content.decode(), pair.content):
            yield f"content: not of the kind {pair.content}"
        return
    document: Json = json.loads(content)
    yield from compare(pair.content, document)


def _fill_in(text: str, places: Mapping[str, str]) -> str:
    for placeholder, place in places.items():
        text = text.replace(placeholder, place)
    return text


def _fill_in_body(body: Json) -> Json:
    filled: Json = json.loads(_fill_in(json.dumps(body), PLACES))
    return filled
