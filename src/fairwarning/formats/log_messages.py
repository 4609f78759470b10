"""Log messages: a fixed event name, then fields; as text for people and as JSON for programs.

A message is one line and has a limited length, whatever its values contain: a long value is cut off when the
message is made, and hidden characters are escaped when it is written.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime

from fairwarning.formats.hidden_characters import escape_hidden
from fairwarning.formats.timestamps import iso_milliseconds

#: The longest text of a field.
LONGEST_VALUE = 300

FieldValue = str | int | float

#: What needs no quotes: visible ASCII except quote, equals sign and backslash.
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")

# A new encoder for every line would take longer than the line.
_encode = json.JSONEncoder(separators=(",", ":")).encode


class LogMessage:
    """What happened, for ``logging``: ``log.error(LogMessage("commit_failed", commits=3))``."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, /, **fields: object) -> None:
        """Take the name of what happened and the fields; a field that is None is left out."""
        self.event = event
        self.fields: Mapping[str, FieldValue] = {
            name: _field_value(value) for name, value in fields.items() if value is not None
        }

    def __str__(self) -> str:
        """Return the message as text."""
        return text_line(self.event, self.fields)


def text_line(event: str, fields: Mapping[str, FieldValue]) -> str:
    """Return the name of an event and its fields as one line, such as ``set_created set=web machines=3``."""
    return " ".join([event, *(f"{name}={_quoted(value)}" for name, value in fields.items())])


def json_line(members: Mapping[str, FieldValue]) -> str:
    """Return an object as one line of JSON, in ASCII and without hidden characters."""
    # All other hidden characters are escaped in ASCII.
    return _encode(members).replace("\x7f", r"\u007f")


def _field_value(value: object) -> FieldValue:
    if isinstance(value, int | float):
        return value
    text = iso_milliseconds(value) if isinstance(value, datetime) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _quoted(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    return '"' + escape_hidden(text.replace("\\", r"\\").replace('"', r"\"")) + '"'
