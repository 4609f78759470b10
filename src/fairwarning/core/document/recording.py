"""Recordings: the documents that machines received, with their times.

A recording is a text with one JSON object per line, each a document that differs from the one before:

    {"at":"2026-11-16T12:00:00Z","machine":"web_0","api_version":"2020-07-01","document":{…}}

``machine`` is null if the endpoint returned no machine name. Documents are kept as they were received, with
fields and values that this package does not know. A replay renders them in the api-version of the guest, with
their instants moved to today.

    FairWarningError
    └── RecordingError   a line is not part of a recording; says which line, and why
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from fairwarning.core.document.parse import parse_instant
from fairwarning.core.document.render import Json, compact_json, parse_event_id, render_not_before
from fairwarning.core.document.versions import EVENT_VERSIONS, DocumentShape, well_formed
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.model import EventId, EventType
from fairwarning.formats.timestamps import iso_milliseconds

_EVENT_TYPES = frozenset(kind.value for kind in EventType)
_FIELDS = frozenset(name for shape in EVENT_VERSIONS.values() for name in shape.fields)


class RecordingError(FairWarningError):
    """A line is not part of a recording."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDocument:
    """A document, the machine that received it, and when."""

    at: datetime
    machine: str | None
    version: str
    incarnation: int
    events: tuple[Mapping[str, Json], ...]

    @property
    def ids(self) -> frozenset[EventId]:
        """The ids of the events in upper case, for comparing (V-09)."""
        return frozenset(EventId(str(event["EventId"]).upper()) for event in self.events)

    def same(self, other: "RecordedDocument") -> bool:
        """Whether the other document differs from this one only in its time."""
        return replace(self, at=other.at) == other


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecording:
    """The documents of one machine; ``begins`` is when the whole recording begins."""

    begins: datetime
    documents: tuple[RecordedDocument, ...]


def record_document(at: datetime, machine: str | None, version: str, document: Json) -> RecordedDocument:
    """Return a document with its time, machine and api-version.

    Raises:
        InvalidError: ``document`` is not a document.
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
        events=tuple(map(_check_event, events)),
    )


def format_line(recorded: RecordedDocument) -> str:
    """Return a document as a line of a recording, without its line break."""
    events: list[Json] = [dict(event) for event in recorded.events]
    fields: Json = {
        "at": iso_milliseconds(recorded.at),
        "machine": recorded.machine,
        "api_version": recorded.version,
        "document": {"DocumentIncarnation": recorded.incarnation, "Events": events},
    }
    return json.dumps(fields, separators=(",", ":"))


def parse_recording(text: str) -> tuple[RecordedDocument, ...]:
    """Return the documents of a recording.

    Raises:
        RecordingError: a line is not a recorded document.
    """
    documents: list[RecordedDocument] = []
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        try:
            documents.append(_parse_line(line))
        except InvalidError as problem:
            raise RecordingError(number, str(problem)) from None
    return tuple(documents)


def split_by_machine(
    recording: Iterable[RecordedDocument], machine: str | None = None
) -> dict[str, MachineRecording]:
    """Return the recording of each machine; ``machine`` renames the only machine of a recording.

    Raises:
        InvalidError: the recording is empty, or the machine of a document is unknown or ambiguous.
    """
    documents = sorted(recording, key=lambda document: document.at)
    if not documents:
        raise InvalidError("recording", "is empty")
    names = dict.fromkeys(document.machine for document in documents if document.machine is not None)
    unnamed = any(document.machine is None for document in documents)
    if len(names) > 1 and (machine is not None or unnamed):
        raise InvalidError("recording", f"contains several machines: {', '.join(names)}")
    # The first documents may lack the name that the endpoint returned later.
    only = machine or (next(iter(names)) if len(names) == 1 else None)
    if only is None and not names:
        raise InvalidError("recording", "does not name its machine")
    parts: dict[str, list[RecordedDocument]] = {}
    for document in documents:
        parts.setdefault(only or document.machine or "", []).append(document)
    begins = documents[0].at
    return {name: MachineRecording(begins=begins, documents=tuple(part)) for name, part in parts.items()}


def render_recorded(
    recorded: RecordedDocument, incarnation: int, shape: DocumentShape, move: Callable[[datetime], datetime]
) -> bytes:
    """Render a document in another api-version, with its instants moved.

    Fields that were not recorded stay absent.
    """
    shown: list[Json] = [
        _render_event(event, _prefixes(recorded, shape), shape, move)
        for event in recorded.events
        # An unknown type belongs to no api-version, so every version shows it.
        if event.get("EventType") in shape.kinds or event.get("EventType") not in _EVENT_TYPES
    ]
    return compact_json({"DocumentIncarnation": incarnation, "Events": shown})


def _parse_line(line: str) -> RecordedDocument:
    try:
        fields: Json = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidError("text", "is not JSON") from None
    if not isinstance(fields, dict):
        raise InvalidError("text", "is not a JSON object")
    at, machine, version = fields.get("at"), fields.get("machine"), fields.get("api_version")
    instant = parse_instant(at) if isinstance(at, str) else None
    if instant is None:
        raise InvalidError("at", "must be an instant like 2026-11-16T12:00:00Z")
    if not (machine is None or (isinstance(machine, str) and machine)):
        raise InvalidError("machine", "must be a name or null")
    if not isinstance(version, str) or not well_formed(version):
        raise InvalidError("api_version", "must be a version like 2020-07-01")
    return record_document(instant, machine, version, fields.get("document"))


def _check_event(event: Json) -> Mapping[str, Json]:
    if not isinstance(event, dict):
        raise InvalidError("Events", "each must be an object")
    event_id = event.get("EventId")
    if not isinstance(event_id, str) or not event_id:
        raise InvalidError("Events", "each must have an EventId")
    parse_event_id(event_id, "EventId")
    return event


def _render_event(
    event: Mapping[str, Json],
    prefixes: tuple[str, str],
    shape: DocumentShape,
    move: Callable[[datetime], datetime],
) -> dict[str, Json]:
    shown = {name: value for name, value in event.items() if name in shape.fields or name not in _FIELDS}
    not_before, resources = shown.get("NotBefore"), shown.get("Resources")
    instant = parse_instant(not_before) if isinstance(not_before, str) else None
    if instant is not None:
        shown["NotBefore"] = render_not_before(move(instant), shape)
    if isinstance(resources, list):
        old, new = prefixes
        shown["Resources"] = [new + name.removeprefix(old) for name in resources if isinstance(name, str)]
    return shown


def _prefixes(recorded: RecordedDocument, shape: DocumentShape) -> tuple[str, str]:
    """Return the prefix of names in the recorded version and in the rendered version (V-06)."""
    recorded_shape = EVENT_VERSIONS.get(recorded.version, DocumentShape())
    return ("_" if recorded_shape.underscore else "", "_" if shape.underscore else "")
