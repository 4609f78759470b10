"""What machines were shown, and when: the format of recordings, and their documents in another time.

A recording is a text of one JSON object a line, each of them a document that differs from the one before:

    {"at":"2026-11-16T12:00:00Z","machine":"web_0","api_version":"2020-07-01","document":{…}}

``machine`` is null where the endpoint did not tell its name. Documents are kept as they were answered: words
that this package does not know survive.

    FairWarningError
    └── Garbled   a line is none of a recording; says which, and why
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fairwarning.core.document.parse import parse_instant
from fairwarning.core.document.render import Json, compact, read_event_id, render_not_before
from fairwarning.core.document.versions import EVENT_VERSIONS, DocumentShape, well_formed
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.model import EventId, EventType
from fairwarning.formats.timestamps import iso_milliseconds

_KINDS = frozenset(kind.value for kind in EventType)
_FIELDS = frozenset(name for shape in EVENT_VERSIONS.values() for name in shape.fields)


class RecordingError(FairWarningError):
    """A line is none of a recording."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDocument:
    """One document, and when a machine was shown it."""

    at: datetime
    machine: str | None
    version: str
    incarnation: int
    events: tuple[Mapping[str, Json], ...]

    @property
    def ids(self) -> frozenset[EventId]:
        """The events of the document, in the one spelling used for comparing (V-09)."""
        return frozenset(EventId(str(event["EventId"]).upper()) for event in self.events)

    def same(self, other: "RecordedDocument") -> bool:
        """Whether the other tells a machine nothing new."""
        mine, others = ((one.machine, one.version, one.incarnation, one.events) for one in (self, other))
        return mine == others


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecording:
    """What one machine was shown; it counts its time from when the whole recording begins."""

    begins: datetime
    documents: tuple[RecordedDocument, ...]


def recorded(at: datetime, machine: str | None, version: str, document: Json) -> RecordedDocument:
    """Return a document with its circumstances.

    Raises:
        Invalid: it is no document.
    """
    if not isinstance(document, dict):
        raise InvalidError("document", "must be an object")
    incarnation, events = document.get("DocumentIncarnation"), document.get("Events")
    if not isinstance(incarnation, int) or isinstance(incarnation, bool):
        raise InvalidError("DocumentIncarnation", "must be a whole number")
    if not isinstance(events, list):
        raise InvalidError("Events", "must be a list")
    return RecordedDocument(
        at=at,
        machine=machine,
        version=version,
        incarnation=incarnation,
        events=tuple(map(_checked, events)),
    )


def line(one: RecordedDocument) -> str:
    """Return a document as a line of a recording, without its line break."""
    whole: Json = {
        "at": iso_milliseconds(one.at),
        "machine": one.machine,
        "api_version": one.version,
        "document": {"DocumentIncarnation": one.incarnation, "Events": [dict(event) for event in one.events]},
    }
    return json.dumps(whole, separators=(",", ":"))


def read(text: str) -> tuple[RecordedDocument, ...]:
    """Return everything that a recording holds.

    Raises:
        Garbled: a line is no document with its circumstances.
    """
    found: list[RecordedDocument] = []
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, written in enumerate(lines, start=1):
        try:
            found.append(_read(written))
        except InvalidError as problem:
            raise RecordingError(number, str(problem)) from None
    return tuple(found)


def by_machine(
    recording: Iterable[RecordedDocument], machine: str | None = None
) -> dict[str, MachineRecording]:
    """Return what each machine was shown; ``machine`` is whose it is if the recording is of one alone.

    Raises:
        Invalid: there is nothing, or it is not clear whose it is.
    """
    whole = sorted(recording, key=lambda one: one.at)
    if not whole:
        raise InvalidError("recording", "is empty")
    names = dict.fromkeys(one.machine for one in whole if one.machine is not None)
    if len(names) > 1 and (machine is not None or any(one.machine is None for one in whole)):
        raise InvalidError("recording", f"is of several machines: {', '.join(names)}")
    # A name that was not told at first was told later.
    alone = machine or (next(iter(names)) if len(names) == 1 else None)
    if alone is None and not names:
        raise InvalidError("recording", "does not name its machine")
    parts: dict[str, list[RecordedDocument]] = {}
    for one in whole:
        parts.setdefault(alone or one.machine or "", []).append(one)
    return {name: MachineRecording(begins=whole[0].at, documents=tuple(part)) for name, part in parts.items()}


def write(
    one: RecordedDocument, number: int, shape: DocumentShape, moved: Callable[[datetime], datetime]
) -> bytes:
    """Render a document for an api-version as far as what was recorded allows, its instants moved."""
    shown: list[Json] = [
        _event(event, _prefix(one, shape), shape, moved)
        for event in one.events
        # A type that nobody here knows belongs to no version, so it is left out of none.
        if event.get("EventType") in shape.kinds or event.get("EventType") not in _KINDS
    ]
    return compact({"DocumentIncarnation": number, "Events": shown})


def _read(written: str) -> RecordedDocument:
    try:
        whole: Json = json.loads(written)
    except (ValueError, RecursionError):
        raise InvalidError("text", "is not JSON") from None
    if not isinstance(whole, dict):
        raise InvalidError("text", "is not a JSON object")
    at, machine, version = whole.get("at"), whole.get("machine"), whole.get("api_version")
    instant = parse_instant(at) if isinstance(at, str) else None
    if instant is None:
        raise InvalidError("at", "must be an instant like 2026-11-16T12:00:00Z")
    if not (machine is None or (isinstance(machine, str) and machine)):
        raise InvalidError("machine", "must be a name or null")
    if not isinstance(version, str) or not well_formed(version):
        raise InvalidError("api_version", "must be a version like 2020-07-01")
    return recorded(instant, machine, version, whole.get("document"))


def _checked(event: Json) -> Mapping[str, Json]:
    if not isinstance(event, dict):
        raise InvalidError("Events", "each must be an object")
    event_id = event.get("EventId")
    if not isinstance(event_id, str) or not event_id:
        raise InvalidError("Events", "each must have an EventId")
    read_event_id(event_id, "EventId")
    return event


def _event(
    event: Mapping[str, Json],
    prefix: tuple[str, str],
    shape: DocumentShape,
    moved: Callable[[datetime], datetime],
) -> dict[str, Json]:
    shown = {name: value for name, value in event.items() if name in shape.fields or name not in _FIELDS}
    not_before, resources = shown.get("NotBefore"), shown.get("Resources")
    instant = parse_instant(not_before) if isinstance(not_before, str) else None
    if instant is not None:
        shown["NotBefore"] = render_not_before(moved(instant), shape)
    if isinstance(resources, list):
        gone, new = prefix
        shown["Resources"] = [new + name.removeprefix(gone) for name in resources if isinstance(name, str)]
    return shown


def _prefix(one: RecordedDocument, shape: DocumentShape) -> tuple[str, str]:
    """Return what goes from before names, and what comes instead (V-06)."""
    was = EVENT_VERSIONS.get(one.version, DocumentShape())
    return ("_" if was.underscore else "", "_" if shape.underscore else "")
