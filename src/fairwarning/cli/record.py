"""The command that records the documents of a machine's endpoint."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TextIO

import click

from fairwarning.cli.options import DURATION, ENDPOINT, OutputFile, invalid
from fairwarning.cli.output import FailureError, print_note
from fairwarning.core.document.recording import RecordedDocument, RecordingError, format_line, parse_recording
from fairwarning.core.document.versions import NEWEST, well_formed
from fairwarning.formats import durations
from fairwarning.formats.counts import format_count

AZURE = "http://169.254.169.254"
SHORTEST_INTERVAL = timedelta(seconds=1)


@click.command()
@click.option("--endpoint", type=ENDPOINT, default=AZURE, show_default=True, help="The endpoint to record.")
@click.option("-o", "--output", type=OutputFile(), help="Append to this file.  [default: stdout]")
@click.option(
    "--for",
    "lasts",
    type=DURATION,
    default=durations.LONGEST_DURATION,
    help="How long to record.  [default: until Ctrl-C]",
)
@click.option("--every", type=DURATION, default="1s", show_default=True, help="Interval between polls.")
@click.option("--api-version", "version", default=NEWEST, show_default=True, help="api-version to request.")
def record(endpoint: str, output: Path | None, lasts: timedelta, every: timedelta, version: str) -> None:
    """Record the documents of a machine's endpoint.

    Each new document is a line of JSON, with its time. Nothing is ever approved. The endpoint must answer
    when the recording starts; if it stops answering later, the recording waits for it.

    \b
    Example:
      fairwarning record -o recording.jsonl
      fairwarning record --endpoint http://127.0.0.1:8101 --for 10m -o recording.jsonl
      fairwarning up --replay recording.jsonl
    """
    if every < SHORTEST_INTERVAL:
        raise click.BadParameter("must be 1s or more", param_hint="'--every'")
    if not well_formed(version):
        raise click.BadParameter(
            invalid("api-version", version, f"e.g. {NEWEST}"), param_hint="'--api-version'"
        )
    _record(endpoint, output, lasts, every, version)


def _record(endpoint: str, output: Path | None, lasts: timedelta, every: timedelta, version: str) -> None:
    from fairwarning.agent.client import MetadataClient, UnavailableError
    from fairwarning.agent.clock import AgentSystemClock
    from fairwarning.agent.recorder import Recorder, RecordingRequest

    clock = AgentSystemClock()
    began = clock.elapsed()
    request = RecordingRequest(version=version, every=every, lasts=lasts, wait_for_first=False)
    with _open_recording(output) as recording:
        client = MetadataClient(endpoint, clock)
        recorder = Recorder(client, clock, keep=recording.append, tell=print_note, last=recording.last)
        try:
            with _interruptible():
                recorder.run(request)
        except UnavailableError as problem:
            hint = "--endpoint must be the metadata endpoint of a machine, as up and vms print it"
            raise FailureError(f"{endpoint} cannot be recorded: {problem}", hint) from problem
    elapsed = durations.for_people(clock.elapsed() - began)
    print_note(f"{format_count(recording.count, 'document')} in {elapsed}, written to {output or 'stdout'}")


class RecordingFile:
    """The file of a recording; each document is written and flushed as one line."""

    def __init__(self, file: TextIO, last: RecordedDocument | None) -> None:
        self._file = file
        self.last = last
        self.count = 0

    def append(self, document: RecordedDocument) -> None:
        """Write a document."""
        self._file.write(format_line(document) + "\n")
        self._file.flush()
        self.count += 1


@contextmanager
def _interruptible() -> Iterator[None]:
    """End the block without an error on Ctrl-C or SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _open_recording(output: Path | None) -> Iterator[RecordingFile]:
    if output is None:
        yield RecordingFile(sys.stdout, None)
        return
    is_new = not output.exists()
    earlier = _read_earlier(output)
    try:
        with _open_file(output) as file:
            yield RecordingFile(file, earlier[-1] if earlier else None)
    finally:
        # An empty file is no recording: up --replay would refuse it.
        if is_new and output.exists() and not output.stat().st_size:
            output.unlink()


def _read_earlier(output: Path) -> tuple[RecordedDocument, ...]:
    try:
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        if text and not text.endswith("\n"):
            raise FailureError(f"{output} is not a recording: its last line is cut off")
        return parse_recording(text)
    except RecordingError as problem:
        raise FailureError(
            f"{output} is not a recording: {problem}", "choose another file with -o"
        ) from problem
    except (OSError, ValueError) as problem:
        raise FailureError(f"{output} cannot be read: {problem}") from problem


def _open_file(output: Path) -> TextIO:
    try:
        return output.open("a", encoding="utf-8")
    except OSError as problem:
        raise FailureError(f"{output} cannot be written: {problem.strerror}") from problem
