"""Writes the log lines of this process to a stream, as text or as JSON.

A thread of its own writes: a terminal or a pipe that is read slowly must not delay guests. Lines that the
thread cannot keep up with are dropped and counted.

The loggers of libraries write warnings and errors alone: their other lines are about single requests.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from select import PIPE_BUF
from traceback import format_exception
from typing import TextIO

from fairwarning.formats.log_messages import FieldValue, LogMessage, json_line, text_line
from fairwarning.formats.timestamps import iso_milliseconds

#: How many lines may wait to be written.
MOST_WAITING = 10_000
#: How many seconds a line waits for others.
GATHERING = 0.05
#: How many seconds the end waits for the last lines to be written.
LAST_LINES_TIMEOUT = 2.0
#: The longest traceback; its end is kept.
LONGEST_TRACEBACK = 4000

#: The event of a line whose text comes from a library.
_OTHER = "message"

log = logging.getLogger("fairwarning")


class LogLevel(StrEnum):
    """The level of the least important lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"


_LEVELS: Mapping[LogLevel, int] = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


class LogFormatter(logging.Formatter):
    """Formats a record as one line; in a worker, every line says which."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._common: Mapping[str, FieldValue] = {} if worker is None else {"worker": worker}

    def event_and_fields(self, record: logging.LogRecord) -> tuple[str, Mapping[str, FieldValue]]:
        """Return the event of a record, and all fields."""
        event, fields = _event_and_fields(record)
        return event, {**self._common, **fields}


class LogTextFormatter(LogFormatter):
    """Formats a record for people: instant, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        event, fields = self.event_and_fields(record)
        if event == _OTHER:
            fields = {"logger": record.name, **fields}
        return f"{_instant(record)} {record.levelname.lower()} {text_line(event, fields)}"


class LogJsonFormatter(LogFormatter):
    """Formats a record for programs: an object of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        event, fields = self.event_and_fields(record)
        level = record.levelname.lower()
        return json_line(
            {"ts": _instant(record), "level": level, "logger": record.name, "event": event, **fields}
        )


def _event_and_fields(record: logging.LogRecord) -> tuple[str, Mapping[str, FieldValue]]:
    message = record.msg if isinstance(record.msg, LogMessage) else _other_message(record)
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return message.event, message.fields
    traceback = "".join(format_exception(error)).rstrip()[-LONGEST_TRACEBACK:]
    return message.event, {**message.fields, "exception": traceback}


def _other_message(record: logging.LogRecord) -> LogMessage:
    try:
        text = record.getMessage()
    except (LookupError, TypeError, ValueError):  # the text does not fit its arguments
        text = str(record.msg)
    return LogMessage(text) if text.isidentifier() else LogMessage(_OTHER, text=text)


def _instant(record: logging.LogRecord) -> str:
    return iso_milliseconds(datetime.fromtimestamp(record.created, UTC))


_FORMATTERS: Mapping[LogFormat, type[LogFormatter]] = {
    LogFormat.TEXT: LogTextFormatter,
    LogFormat.JSON: LogJsonFormatter,
}


class BackgroundHandler(logging.Handler):
    """Gives lines to a thread that writes them, many at once."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._stream = stream
        self._lines: deque[str] = deque()
        self._lost = 0
        self._work, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written, unless too many lines are waiting."""
        if len(self._lines) >= MOST_WAITING:
            self._lost += 1
            return
        self._report_lost()
        self._lines.append(self.format(record))
        self._work.set()

    def close(self) -> None:
        """Wait until all lines are written, but not for long: the reader may have stopped reading."""
        self._report_lost()
        self._end.set()
        self._work.set()
        self._thread.join(LAST_LINES_TIMEOUT)
        super().close()

    def _report_lost(self) -> None:
        if self._lost:
            message = LogMessage("log_lines_lost", lines=self._lost)
            record = log.makeRecord(log.name, logging.WARNING, "", 0, message, (), None)
            self._lines.append(self.format(record))
            self._lost = 0

    def _run(self) -> None:
        # Nothing more can be written to a stream that is closed.
        with suppress(OSError, ValueError):
            while not self._end.is_set():
                self._work.wait()
                # More lines may follow at once; to be woken for each would cost more than the line.
                self._end.wait(GATHERING)
                self._work.clear()
                self._write()
            self._write()

    def _write(self) -> None:
        while self._lines:
            text = self._lines.popleft() + "\n"
            # The kernel keeps such a write together when several processes write to one pipe.
            while self._lines and len(text) + len(self._lines[0]) < PIPE_BUF:
                text += self._lines.popleft() + "\n"
            self._stream.write(text)
            self._stream.flush()


@contextmanager
def log_written_to(
    stream: TextIO, level: LogLevel | None, style: LogFormat | None, worker: int | None = None
) -> Iterator[None]:
    """Write log lines to a stream during the block; by default, a terminal gets warnings as text."""
    on_terminal = stream.isatty()
    least = _LEVELS[level or (LogLevel.WARNING if on_terminal else LogLevel.INFO)]
    formatter = _FORMATTERS[style or (LogFormat.TEXT if on_terminal else LogFormat.JSON)](worker)
    handler, root = BackgroundHandler(stream, formatter), logging.getLogger()
    levels = root.level, log.level
    root.setLevel(max(least, logging.WARNING))
    log.setLevel(least)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        log.setLevel(levels[1])
        handler.close()
