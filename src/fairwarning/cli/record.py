"""The command that writes down what an endpoint shows its machine."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TextIO

import click

from fairwarning.cli.options import DURATION, ENDPOINT
from fairwarning.cli.output import FailureError, note
from fairwarning.core.document.recording import RecordedDocument, RecordingError, format_line, parse_recording
from fairwarning.core.document.versions import NEWEST, well_formed
from fairwarning.formats import durations

AZURE = "http://169.254.169.254"
LEAST = timedelta(seconds=1)

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--endpoint", type=ENDPOINT, default=AZURE, show_default=True, help="Whose documents.")
@click.option("-o", "--output", type=_FILE, help="Append to this recording.  [default: stdout]")
@click.option(
    "--for",
    "lasts",
    type=DURATION,
    default=durations.LONGEST_DURATION,
    help="How long; until Ctrl-C if left out.",
)
@click.option("--every", type=DURATION, default="1s", show_default=True, help="How often to look.")
@click.option("--api-version", "version", default=NEWEST, show_default=True, help="In which shape.")
def record(endpoint: str, output: Path | None, lasts: timedelta, every: timedelta, version: str) -> None:
    """Write down every document that a machine's endpoint shows, with its time, one JSON object a line.

    It only looks: nothing is ever approved. An endpoint that goes away is waited for.

    \b
    Example:
      fairwarning record -o recording.jsonl
      fairwarning record --endpoint http://127.0.0.1:8101 --for 10m -o recording.jsonl
      fairwarning up --replay recording.jsonl
    """
    if every < LEAST:
        raise click.UsageError("--every must be 1s or more: the endpoint is for others too")
    if not well_formed(version):
        raise click.UsageError(f"--api-version: {version!r} makes no sense here; write it like {NEWEST}")
    _record(endpoint, output, lasts, every, version)


def _record(endpoint: str, output: Path | None, lasts: timedelta, every: timedelta, version: str) -> None:
    from fairwarning.agent.client import MetadataClient
    from fairwarning.agent.clock import AgentSystemClock
    from fairwarning.agent.recorder import Recorder, RecordingRequest

    clock = AgentSystemClock()
    began = clock.elapsed()
    with _recording(output) as kept:
        recorder = Recorder(
            MetadataClient(endpoint, clock), clock, keep=kept.append, tell=note, last=kept.last
        )
        with _interruptible():
            recorder.run(RecordingRequest(version=version, every=every, lasts=lasts))
    documents = "1 document" if kept.count == 1 else f"{kept.count} documents"
    note(f"{documents} in {durations.for_people(clock.elapsed() - began)}, kept in {output or 'stdout'}")


class Recording:
    """Where documents are kept, each of them whole and at once."""

    def __init__(self, file: TextIO, last: RecordedDocument | None) -> None:
        self._file = file
        self.last = last
        self.count = 0

    def append(self, one: RecordedDocument) -> None:
        """Keep another document."""
        self._file.write(format_line(one) + "\n")
        self._file.flush()
        self.count += 1


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let the block end early and in peace, by Ctrl-C or by what a service manager sends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _recording(output: Path | None) -> Iterator[Recording]:
    if output is None:
        yield Recording(sys.stdout, None)
        return
    earlier = _earlier(output)
    with _opened(output) as file:
        yield Recording(file, earlier[-1] if earlier else None)


def _earlier(output: Path) -> tuple[RecordedDocument, ...]:
    try:
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        if text and not text.endswith("\n"):
            raise FailureError(f"{output} is no recording: its last line is cut off")
        return parse_recording(text)
    except RecordingError as problem:
        raise FailureError(f"{output} is no recording: {problem}", "choose another file with -o") from problem
    except (OSError, ValueError) as problem:
        raise FailureError(f"{output} cannot be read: {problem}") from problem


def _opened(output: Path) -> TextIO:
    try:
        return output.open("a", encoding="utf-8")
    except OSError as problem:
        raise FailureError(f"{output} cannot be written: {problem.strerror}") from problem
