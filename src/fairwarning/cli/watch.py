"""Tells what happens, as it happens, in words a person can follow."""

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime

from fairwarning.cli.client import EventInfo, HistoryLine, OperatorClient, decode
from fairwarning.cli.output import UnreachableError, as_line, instant, member, names, note
from fairwarning.formats.hidden_characters import escape_hidden

#: How a line of the history reads; ``{what}`` is "Reboot of web_0".
_SENTENCES: Mapping[str, str] = {
    "scheduled": "{what} is scheduled by {by}",
    "approved": "{what} is approved by {by}",
    "started": "{what} has started",
    "finished": "{what} is over",
    "cancelled": "{what} is withdrawn by {by}",
    "failed": "{what} failed and will be tried again: {reason}",
    "refused": "{what} is refused to {by}: {reason}",
    "fault": "the {what} is made to misbehave by {by}: {reason}",
    "healed": "the {what} is healed by {by}",
    "advanced": "the {what} is moved on by {by}: {reason}",
    "speed": "the {what} is set by {by}: {reason}",
}

#: How long to rest before connecting again.
PAUSE = 1.0


def sentence(line: HistoryLine) -> str:
    """Return a line of the history as a sentence."""
    what = f"{line.type} of {names(line.resources)}" if line.resources else line.type
    form = _SENTENCES.get(line.kind, "{what}: " + line.kind)
    return escape_hidden(form.format(what=what, by=line.by or "nobody", reason=line.reason))


def timed(line: HistoryLine, now: datetime) -> str:
    """Return a line of the history with its time, and with its date unless that is today's."""
    return f"{instant(line.at, now)}  {sentence(line)}"


def event_row(event: EventInfo) -> tuple[str, ...]:
    """Return a pending event as a row of a table."""
    when = instant(event.not_before) if event.status == "Scheduled" else "-"
    return event.id, event.type or "-", event.status, names(event.resources), when


def print_pending(body: bytes) -> None:
    """Print what is pending for programs: one object a line, told apart from the history by its kind."""
    pending = member(body, "events")
    for event in pending if isinstance(pending, list) else []:
        if isinstance(event, dict):
            as_line(json.dumps({"kind": "pending", **event}, separators=(",", ":")))


EVENT_HEADINGS = ("EVENT", "TYPE", "STATUS", "MACHINES", "NOT BEFORE")


class HistoryWatch:
    """The live history of one server; a lost connection is made again, and says so."""

    def __init__(self, client: OperatorClient, after: int) -> None:
        self._client = client
        self._after = after
        self._lost = False
        self.listening, self.ending = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        """Yield every line as JSON, until told to end."""
        while not self.ending.is_set():
            try:
                for text in self._client.feed(self._after, self._found):
                    self._after = decode(text, HistoryLine).seq
                    yield text
            except UnreachableError:
                pass
            self._lose()
            self.ending.wait(PAUSE)

    def _found(self) -> None:
        if self._lost:
            note(f"connected to {self._client.url} again")
        self._lost = False
        self.listening.set()

    def _lose(self) -> None:
        if not self._lost and not self.ending.is_set():
            note(f"the connection to {self._client.url} is lost; trying again, nothing will be missed")
        self._lost = True
