"""What the commands print: tables and JSON on stdout, everything else on stderr; plain, without colours."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import click

from fairwarning.core.document.render import Json
from fairwarning.formats import timestamps
from fairwarning.formats.hidden_characters import escape_hidden, escape_hidden_json

#: How wide a column may become; the last one has nobody beside it.
WIDEST, WIDEST_LAST = 64, 200


class FailureError(click.ClickException):
    """The command could not do what it was asked; says why and what may help."""

    exit_code = 1

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints

    def show(self, file: object = None) -> None:
        """Print the reason and the hints."""
        note(f"error: {self.message}")
        for hint in self.hints:
            note(f"hint: {hint}")


class UnreachableError(FailureError):
    """No server answers."""

    exit_code = 3

    def __init__(self, url: str, reason: str) -> None:
        hints = "start one with: fairwarning up", "if it runs elsewhere, set FAIRWARNING_URL"
        super().__init__(f"no server answers at {url}: {reason}", *hints)


def note(text: str) -> None:
    """Print what is not data, on one line."""
    click.echo(escape_hidden(text), err=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns as wide as they need to be, within reason."""
    bounds = [WIDEST] * (len(headings) - 1) + [WIDEST_LAST]
    lines = [tuple(headings), *(tuple(map(_cell, row, bounds)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def as_json(value: Json) -> None:
    """Print a value for programs to read."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo("\n".join(map(escape_hidden_json, text.split("\n"))))


def as_line(text: str) -> None:
    """Print an object for programs to read, on one line as it came."""
    click.echo(escape_hidden_json(text))


def member(body: bytes, name: str) -> Json:
    """Return one member of a JSON object, untouched."""
    document: dict[str, Json] = json.loads(body)
    return document[name]


def instant(when: datetime | None, now: datetime | None = None) -> str:
    """Return an instant as people read it; a dash if there is none."""
    return "-" if when is None else timestamps.for_people(when, now)


def _cell(text: str, widest: int) -> str:
    text = escape_hidden(text)
    return text if len(text) <= widest else f"{text[: widest - 1]}…"


def names(machines: Sequence[str], most: int = 4) -> str:
    """Return machines by name; of many, the first few and how many more there are."""
    if len(machines) <= most:
        return ", ".join(machines) or "-"
    return f"{', '.join(machines[:most])} and {len(machines) - most} more"
