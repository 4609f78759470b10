"""What is written, in which format, and that writing delays nothing."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from select import PIPE_BUF
from threading import Event

import pytest

from fairwarning.formats.hidden_characters import first_hidden
from fairwarning.formats.log_messages import LogMessage
from fairwarning.logs.output import (
    LONGEST_TRACEBACK,
    MOST_WAITING,
    BackgroundHandler,
    LogFormat,
    LogJsonFormatter,
    LogLevel,
    log_written_to,
)

log = logging.getLogger("fairwarning.tests")
library = logging.getLogger("uvicorn.error")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Stalled(io.StringIO):
    """A stream that nobody reads until ``read_on`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.read_on = Event()

    def write(self, text: str, /) -> int:
        self.read_on.wait()
        return super().write(text)


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Each test begins with the levels of a new process."""
    root, ours = logging.getLogger(), logging.getLogger("fairwarning")
    before = root.level, ours.level
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    yield
    root.setLevel(before[0])
    ours.setLevel(before[1])


def log_at_every_level() -> None:
    log.debug(LogMessage("debugged"))
    log.info(LogMessage("informed"))
    log.warning(LogMessage("warned"))
    log.error(LogMessage("failed"))


def events(stream: io.StringIO) -> list[str]:
    """Return the third word of each line of a text, or the event of each object."""
    lines = stream.getvalue().splitlines()
    return [json.loads(line)["event"] if line.startswith("{") else line.split()[2] for line in lines]


def test_a_terminal_gets_warnings_as_text() -> None:
    stream = Terminal()

    with log_written_to(stream, None, None):
        log_at_every_level()

    assert events(stream) == ["warned", "failed"]
    assert stream.getvalue().splitlines()[0].endswith("Z warning warned")


def test_a_file_gets_everything_but_debugging_as_json() -> None:
    stream = io.StringIO()

    with log_written_to(stream, None, None):
        log_at_every_level()

    assert events(stream) == ["informed", "warned", "failed"]
    first = json.loads(stream.getvalue().splitlines()[0])
    assert list(first) == ["ts", "level", "logger", "event"]
    assert (first["level"], first["logger"]) == ("info", "fairwarning.tests")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (LogLevel.DEBUG, ["debugged", "informed", "warned", "failed"]),
        (LogLevel.INFO, ["informed", "warned", "failed"]),
        (LogLevel.WARNING, ["warned", "failed"]),
        (LogLevel.ERROR, ["failed"]),
    ],
)
@pytest.mark.parametrize("style", LogFormat)
@pytest.mark.parametrize("stream_type", [io.StringIO, Terminal])
def test_the_options_decide_wherever_the_log_goes(
    level: LogLevel, expected: list[str], style: LogFormat, stream_type: type[io.StringIO]
) -> None:
    stream = stream_type()

    with log_written_to(stream, level, style):
        log_at_every_level()

    assert events(stream) == expected
    assert stream.getvalue().startswith("{") is (style is LogFormat.JSON)


def test_fields_follow_the_event() -> None:
    text, program = io.StringIO(), io.StringIO()

    for stream, style in ((text, LogFormat.TEXT), (program, LogFormat.JSON)):
        with log_written_to(stream, None, style):
            log.error(LogMessage("commit_failed", commits=3, problem="disk is full"))

    assert text.getvalue().endswith('Z error commit_failed commits=3 problem="disk is full"\n')
    assert program.getvalue().endswith(
        '"logger":"fairwarning.tests","event":"commit_failed","commits":3,"problem":"disk is full"}\n'
    )


def test_a_plain_text_is_an_event_if_it_is_one_word_and_a_field_otherwise() -> None:
    stream = io.StringIO()

    with log_written_to(stream, None, LogFormat.TEXT):
        log.error("tick_failed")
        log.error("commit_failed commits=%d", 3)

    first, second = stream.getvalue().splitlines()
    assert first.endswith("Z error tick_failed")
    assert second.endswith('Z error message logger=fairwarning.tests text="commit_failed commits=3"')


def test_libraries_write_warnings_in_the_same_format_and_nothing_less() -> None:
    stream = io.StringIO()

    with log_written_to(stream, LogLevel.DEBUG, LogFormat.JSON):
        library.debug("a header")
        library.info('GET /fleet/v1/events "200 OK"')
        library.warning("Invalid %s request received.", "HTTP")

    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["logger"], line["event"]) == ("uvicorn.error", "message")
    assert line["text"] == "Invalid HTTP request received."


def test_an_error_of_the_event_loop_is_one_line() -> None:
    stream = io.StringIO()

    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.001)

    with log_written_to(stream, None, None):
        asyncio.run(fail())

    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["logger"], line["level"]) == ("asyncio", "error")
    assert line["exception"].endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("style", LogFormat)
def test_a_traceback_is_a_field_of_the_same_line_with_its_end(style: LogFormat) -> None:
    stream = io.StringIO()

    with log_written_to(stream, None, style):
        try:
            raise LookupError("\x1b[2J\n" * 100_000 + "the end")
        except LookupError:
            log.exception(LogMessage("request_failed", path="/"))

    (line,) = stream.getvalue().splitlines()
    assert "request_failed" in line
    assert line.rstrip('"}').endswith("the end")
    assert len(line) < 8 * LONGEST_TRACEBACK
    assert first_hidden(line) is None


def test_a_text_that_does_not_fit_its_arguments_is_written_without_them() -> None:
    stream = io.StringIO()
    handler = BackgroundHandler(stream, LogJsonFormatter())

    handler.handle(library.makeRecord(library.name, logging.WARNING, "", 0, "%d requests", ("many",), None))
    handler.handle(log.makeRecord(log.name, logging.WARNING, "", 0, LogMessage("warned"), (), None))
    handler.close()

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["text"]) == ("message", "%d requests")
    assert second["event"] == "warned"


def test_a_log_that_nobody_reads_delays_nothing_and_the_lost_lines_are_counted() -> None:
    stream, lines = Stalled(), MOST_WAITING + 1000

    with log_written_to(stream, None, None):
        for number in range(lines):
            log.info(LogMessage("informed", number=number))
        stream.read_on.set()

    objects = [json.loads(line) for line in stream.getvalue().splitlines()]
    counts = [line["lines"] for line in objects if line["event"] == "log_lines_lost"]
    assert counts
    assert sum(counts) + sum(line["event"] == "informed" for line in objects) == lines


def test_a_stream_that_was_closed_delays_nothing() -> None:
    stream = io.StringIO()

    with log_written_to(stream, None, None):
        stream.close()
        log_at_every_level()


def test_afterwards_the_levels_are_as_before() -> None:
    with log_written_to(io.StringIO(), LogLevel.DEBUG, None):
        pass

    assert not log.isEnabledFor(logging.INFO)
    assert logging.getLogger().level == logging.WARNING


@pytest.mark.parametrize(
    ("style", "line"),
    [
        pytest.param(LogFormat.TEXT, " info informed worker=1 set=web\n", id="text"),
        pytest.param(LogFormat.JSON, '"event":"informed","worker":1,"set":"web"}\n', id="json"),
    ],
)
def test_the_lines_of_a_worker_say_which(style: LogFormat, line: str) -> None:
    stream = io.StringIO()

    with log_written_to(stream, None, style, worker=1):
        log.info(LogMessage("informed", set="web"))

    assert stream.getvalue().endswith(line)


def test_lines_that_are_written_together_fit_into_one_write_to_a_pipe() -> None:
    written: list[str] = []

    class Pipe(io.StringIO):
        def write(self, text: str, /) -> int:
            written.append(text)
            return len(text)

    with log_written_to(Pipe(), None, LogFormat.JSON):
        for number in range(200):
            log.info(LogMessage("informed", number=number, text="x" * 200))

    assert 1 < len(written) < 200
    assert all(text.endswith("\n") and len(text) <= PIPE_BUF for text in written)
    assert "".join(written).count("\n") == 200
