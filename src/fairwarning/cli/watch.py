"""The live history, in sentences that people read and as JSON lines for programs."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from fairwarning.cli.client import EventInfo, HistoryLine, OperatorClient, decode
from fairwarning.cli.output import (
    UnreachableError,
    format_instant,
    join_names,
    json_member,
    print_json_line,
    print_note,
    print_table,
)
from fairwarning.formats.hidden_characters import escape_hidden

#: The sentence for each kind of line; ``{what}`` is "Reboot of web_0".
_SENTENCES: Mapping[str, str] = {
    "scheduled": "{what} is scheduled by {by}",
    "approved": "{what} is approved by {by}",
    "blocked": "{what} is due and waits for {reason}",
    "postponed": "{what} is postponed by {by}",
    "started": "{what} has started",
    "progressed": "{what} is reported as done by {by}: {reason}",
    "finished": "{what} is over",
    "cancelled": "{what} is cancelled by {by}",
    "failed": "{what} failed and will be tried again: {reason}",
    "overdue": "{what} is overdue: {reason}",
    "refused": "{what} by {by} is refused: {reason}",
    "fault": "the {what} is given a fault by {by}: {reason}",
    "healed": "the fault of the {what} is cleared by {by}",
    "moved": "the {what} changes {reason}, as {by} reports",
    "advanced": "the {what} is advanced by {by}: {reason}",
    "speed": "the speed of the {what} is set by {by}: {reason}",
    "restored": "the {what} is restored by {by}: {reason}",
    "held": "{reason} is on hold, by {by}",
    "unheld": "{reason} is no longer on hold, by {by}",
}

#: How many seconds to wait before connecting again.
RECONNECT_DELAY = 1.0

#: The longest wait that is shown beside the status of an event.
_LONGEST_IN_STATUS = 40

_EVENT_HEADINGS = ("EVENT", "TYPE", "STATUS", "MACHINES", "READ", "NOT BEFORE")


def sentence(line: HistoryLine) -> str:
    """Return a line of the history as a sentence."""
    what = f"{line.type} of {join_names(line.resources)}" if line.resources else line.type
    form = _SENTENCES.get(line.kind, "{what}: " + line.kind)
    return escape_hidden(form.format(what=what, by=line.by or "unknown", reason=line.reason))


def timed_sentence(line: HistoryLine, now: datetime) -> str:
    """Return a line of the history with its time, and with its date unless that is today's."""
    return f"{format_instant(line.at, now)}  {sentence(line)}"


def print_events(events: Iterable[EventInfo]) -> None:
    """Print pending events as a table; long waits have a column of their own."""
    listed = list(events)
    waits = [event.waits_for or "-" for event in listed]
    if all(len(reason) <= _LONGEST_IN_STATUS for reason in waits):
        print_table(_EVENT_HEADINGS, (_event_row(event, _status(event)) for event in listed))
        return
    rows = ((*_event_row(event, _answer(event)), reason) for event, reason in zip(listed, waits, strict=True))
    print_table((*_EVENT_HEADINGS, "WAITS FOR"), rows)


def _event_row(event: EventInfo, status: str) -> tuple[str, ...]:
    when = format_instant(event.not_before) if event.status == "Scheduled" else "-"
    return event.id, event.type or "-", status, join_names(event.resources), _read(event), when


def _read(event: EventInfo) -> str:
    """Return when the last machine of an event first read the event, or how many machines have."""
    if 0 < len(event.read) < len(event.resources):
        return f"by {len(event.read)} of {len(event.resources)}"
    return format_instant(max(event.read.values(), default=None))


def _status(event: EventInfo) -> str:
    if event.waits_for is not None and not event.overdue:
        return f"{_answer(event)}, waits for {event.waits_for}"
    return _answer(event)


def _answer(event: EventInfo) -> str:
    if event.overdue:
        return f"{event.status}, overdue"
    return "approved" if event.status == "Scheduled" and event.approved_by is not None else event.status


def print_pending(body: bytes) -> None:
    """Print pending events as JSON lines; their kind tells them from lines of the history."""
    pending = json_member(body, "events")
    for event in pending if isinstance(pending, list) else []:
        if isinstance(event, dict):
            print_json_line(json.dumps({"kind": "pending", **event}, separators=(",", ":")))


class HistoryWatch:
    """The live history of a server; a lost connection is reported and made again."""

    def __init__(self, client: OperatorClient, after: int) -> None:
        self._client = client
        self._after = after
        self._lost = False
        self.listening, self.ending = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        """Yield every line as JSON, until ``ending`` is set."""
        while not self.ending.is_set():
            try:
                for text in self._client.feed(self._after, self._on_connect):
                    self._after = decode(text, HistoryLine).seq
                    yield text
            except UnreachableError:
                pass
            self._on_disconnect()
            self.ending.wait(RECONNECT_DELAY)

    def _on_connect(self) -> None:
        if self._lost:
            print_note(f"connected to {self._client.url} again")
        self._lost = False
        self.listening.set()

    def _on_disconnect(self) -> None:
        if not self._lost and not self.ending.is_set():
            print_note(f"the connection to {self._client.url} is lost; trying again, no line will be missed")
        self._lost = True
