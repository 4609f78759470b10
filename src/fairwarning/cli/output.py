"""What the commands print: tables and JSON on stdout, everything else on stderr; plain, without colours."""

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

import click

from fairwarning.config import PROGRAM
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.formats import timestamps
from fairwarning.formats.hidden_characters import escape_hidden, escape_hidden_json

#: The widest a column may be; the last column may be wider.
WIDEST, WIDEST_LAST = 64, 200


class FailureError(click.ClickException):
    """The command failed; says why, and what may help."""

    exit_code = 1

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints

    def show(self, file: object = None) -> None:
        """Print the reason and the hints."""
        print_note(f"error: {self.message}")
        for hint in self.hints:
            print_note(f"hint: {hint}")


class UnreachableError(FailureError):
    """No server answers."""

    exit_code = 3

    def __init__(self, url: str, reason: str) -> None:
        hints = f"start one with: {PROGRAM} up", "if it runs elsewhere, set FAIRWARNING_URL"
        super().__init__(f"no server answers at {url}: {reason}", *hints)


@contextmanager
def failures_explained(hints: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Report why the block failed, and what may help, by the name of the error."""
    try:
        yield
    except FairWarningError as problem:
        raise FailureError(str(problem), *hints.get(type(problem).__name__, ())) from problem
    except OSError as problem:
        raise FailureError(str(problem)) from problem


#: Why a file, a device or a pipe takes no more output.
_FULL = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE})


@contextmanager
def writing_explained(failure: type[FailureError]) -> Iterator[None]:
    """Report that the output of the block cannot be written; what is not written yet is dropped."""
    try:
        yield
    except BrokenPipeError:
        raise  # click ends quietly: the reader has enough
    except (OSError, BaseExceptionGroup) as problem:
        reason = _why_not_written(problem)
        if reason is None:
            raise
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise failure(f"the output cannot be written: {reason}") from None


def _why_not_written(problem: BaseException) -> str | None:
    if isinstance(problem, BaseExceptionGroup):
        return next(filter(None, map(_why_not_written, problem.exceptions)), None)
    # An error about a file has its name; the output has none.
    if isinstance(problem, OSError) and problem.errno in _FULL and problem.filename is None:
        return problem.strerror
    return None


def print_note(text: str) -> None:
    """Print a line for people, on stderr."""
    click.echo(escape_hidden(text), err=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns that are as wide as their cells, up to a limit."""
    bounds = [WIDEST] * (len(headings) - 1) + [WIDEST_LAST]
    lines = [tuple(headings), *(tuple(map(_cell, row, bounds)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def print_json(value: Json) -> None:
    """Print a value as indented JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo("\n".join(map(escape_hidden_json, text.split("\n"))))


def print_json_line(text: str) -> None:
    """Print a JSON object on one line, as it was received."""
    click.echo(escape_hidden_json(text))


def json_member(body: bytes, name: str) -> Json:
    """Return one member of a JSON object, unchanged."""
    document: Json = json.loads(body)
    if not isinstance(document, dict) or name not in document:
        raise FailureError(f"unexpected answer from the server: it has no member {name}")
    return document[name]


def format_instant(when: datetime | None, now: datetime | None = None) -> str:
    """Return an instant as people read it; a dash if there is none."""
    return "-" if when is None else timestamps.for_people(when, now)


def _cell(text: str, widest: int) -> str:
    text = escape_hidden(text)
    return text if len(text) <= widest else f"{text[: widest - 1]}…"


def join_names(names: Sequence[str], most: int = 4) -> str:
    """Return a list of names; a long list is cut, with the number of names left out."""
    if len(names) <= most:
        return ", ".join(names) or "-"
    return f"{', '.join(names[:most])} and {len(names) - most} more"
