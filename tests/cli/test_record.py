"""Recording an endpoint, and replaying the recording."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from fairwarning.core.document.recording import (
    RecordedDocument,
    format_line,
    parse_recording,
    record_document,
)
from fairwarning.core.document.render import Json
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import FAIRWARNING, NOWHERE, Server, call, until, up
from tests.fleet_harness import NOON

NAME = Answer(body=b"web_0")
EMPTY: Json = {"DocumentIncarnation": 1, "Events": []}
REBOOT: Json = {
    "DocumentIncarnation": 2,
    "Events": [{"EventId": "E2", "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": ["web_0"]}],
}


def answer(document: Json) -> Answer:
    return Answer(body=json.dumps(document).encode())


def keep(path: Path, *documents: Json, machine: str | None = "web_0") -> Path:
    whole = (record_document(NOON, machine, "2020-07-01", document) for document in documents)
    path.write_text("".join(f"{format_line(one)}\n" for one in whole))
    return path


def summary(recording: str) -> list[tuple[str | None, int, list[tuple[Json, ...]]]]:
    """Return a recording without its times."""

    def event(one: RecordedDocument) -> list[tuple[Json, ...]]:
        return [tuple(value for name, value in e.items() if name != "NotBefore") for e in one.events]

    return [(one.machine, one.incarnation, event(one)) for one in parse_recording(recording)]


def test_a_document_is_a_line_on_stdout() -> None:
    with endpoint(answer(REBOOT), NAME) as script:
        done = call("record", "--endpoint", script.url, "--for", "0s")

    (one,) = parse_recording(done.stdout)
    assert (done.code, one.machine, one.incarnation) == (0, "web_0", 2)
    assert done.stderr == "1 document in 0s, written to stdout\n"


def test_another_api_version_can_be_requested() -> None:
    with endpoint(answer(EMPTY), NAME) as script:
        done = call("record", "--endpoint", script.url, "--for", "0s", "--api-version", "2017-08-01")

    assert script.asked[0].path.endswith("?api-version=2017-08-01")
    assert parse_recording(done.stdout)[0].version == "2017-08-01"


def test_an_existing_recording_is_continued(tmp_path: Path) -> None:
    file = keep(tmp_path / "recording.jsonl", EMPTY)
    words = ("record", "-o", str(file), "--for", "0s", "--endpoint")

    with endpoint(answer(EMPTY), NAME) as script:
        nothing_new = call(*words, script.url).stderr
    with endpoint(answer(REBOOT), NAME) as script:
        news = call(*words, script.url).stderr

    assert [one.incarnation for one in parse_recording(file.read_text())] == [1, 2]
    assert nothing_new == f"0 documents in 0s, written to {file}\n"
    assert news == f"1 document in 0s, written to {file}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("dear diary\n", "is not a recording: line 1: text: is not JSON", id="a diary"),
        pytest.param("dear diary", "is not a recording: its last line is cut off", id="half a line"),
        pytest.param("\xff", "cannot be read", id="no text at all"),
    ],
)
def test_a_file_that_is_not_a_recording_is_not_changed(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "diary.txt"
    file.write_bytes(text.encode("latin-1"))

    done = call("record", "-o", str(file), "--for", "0s")

    assert done.code == 1
    assert f"error: {file} {problem}" in done.stderr
    assert file.read_bytes() == text.encode("latin-1")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "recording.jsonl"

    done = call("record", "-o", str(file), "--for", "0s")

    assert done.code == 2
    reason = f"{file} cannot be written: {file.parent} is not a directory"
    assert done.stderr.endswith(f"Error: Invalid value for '-o' / '--output': {reason}\n")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--every", "0s"), id="more than once a second"),
        pytest.param(("--endpoint", "169.254.169.254"), id="an address without http"),
        pytest.param(("--endpoint", "http://127.0.0.1:0"), id="a port that is none"),
        pytest.param(("--api-version", "latest"), id="a version that is none"),
    ],
)
def test_invalid_options_are_refused(words: tuple[str, ...]) -> None:
    assert call("record", "--for", "0s", *words).code == 2


@pytest.mark.parametrize("lasts", [(), ("--for", "0s")])
def test_a_dead_endpoint_is_an_error(lasts: tuple[str, ...]) -> None:
    done = call("record", "--endpoint", "http://127.0.0.1:1", *lasts)

    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error: http://127.0.0.1:1 cannot be recorded: 127.0.0.1:1 does not answer: "
    )
    assert "hint: --endpoint must be the metadata endpoint of a machine" in done.stderr


def test_a_dead_endpoint_leaves_no_empty_recording_behind(tmp_path: Path) -> None:
    new, existing = tmp_path / "new.jsonl", keep(tmp_path / "existing.jsonl", EMPTY)
    content = existing.read_text()

    codes = {call("record", "--endpoint", NOWHERE, "-o", str(file)).code for file in (new, existing)}

    assert codes == {1}
    assert not new.exists()
    assert existing.read_text() == content


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Answer(404, b"nothing here"), id="no such page"),
        pytest.param(Answer(body=b"<html>"), id="a web page"),
        pytest.param(Answer(body=b"{}"), id="another document"),
    ],
)
def test_a_wrong_endpoint_is_an_error(reply: Answer) -> None:
    with endpoint(reply) as script:
        done = call("record", "--endpoint", script.url)

    assert (done.code, done.stdout) == (1, "")
    assert f"error: {script.url} cannot be recorded: the endpoint" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_recorder_that_is_stopped_prints_a_summary(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "recording.jsonl"
    with endpoint(answer(EMPTY), NAME, answer(EMPTY)) as script:
        words = [*FAIRWARNING, "record", "--endpoint", script.url, "-o", str(file)]
        recorder = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        until(lambda: file.exists() and file.read_text() != "", "the first document is kept")

        recorder.send_signal(how)
        _, said = recorder.communicate(timeout=20)

    assert recorder.returncode == 0
    assert said.startswith("1 document in ")


@contextmanager
def recording(server: Server, machine: str, file: Path) -> Iterator[None]:
    """Record a machine for as long as the block lasts."""
    words = [*FAIRWARNING, "record", "--endpoint", server.ready["metadata"][machine], "-o", str(file)]
    recorder = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        until(lambda: file.exists() and file.read_text() != "", "the first document is kept")
        yield
    finally:
        recorder.terminate()
        recorder.wait(timeout=20)


@pytest.mark.slow
def test_a_replay_can_be_recorded_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with (
        up(tmp_path, "--vm", "db", "--start-enabled", "--no-arm") as server,
        recording(server, "db", first),
    ):
        server.cause("restart", "db")
        until(lambda: len(summary(first.read_text())) == 2, "the event is recorded")
    truth = summary(first.read_text())

    with (
        up(tmp_path, "--replay", str(first), "--no-arm") as server,
        recording(server, "db", second),
    ):
        until(lambda: summary(second.read_text())[-1:] == truth[-1:], "the event is recorded again")
        said = server.complained()
        approved = approve(server, "db", first.read_text())
        until(lambda: "of the recording is approved by db" in server.printed(), "the approval is printed")
    echo = summary(second.read_text())

    assert approved == 200
    assert "replaying 2 documents in " in said
    # A recorder that comes late on a busy machine has missed the beginning.
    assert echo == truth[-len(echo) :]


def approve(server: Server, machine: str, recording: str) -> int:
    """Approve the last event of a recording and return the status that is answered."""
    (event,) = parse_recording(recording)[-1].events
    url = f"{server.ready['metadata'][machine]}/metadata/scheduledevents?api-version=2020-07-01"
    body = {"StartRequests": [{"EventId": event["EventId"]}]}
    return httpx2.post(url, json=body, headers={"Metadata": "true"}, trust_env=False).status_code


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{}\n", "{file} is not a recording: line 1: at: must be an instant", id="garbage"),
        pytest.param("", "{file}: the recording is empty", id="nothing"),
    ],
)
def test_a_file_that_is_not_a_recording_is_not_replayed(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(text)

    done = call("up", "--port-base", "0", "--replay", str(file))

    assert (done.code, done.stdout) == (2, "")
    assert f"Error: Invalid value for '--replay': {complaint.format(file=file)}" in done.stderr
    assert "hint" not in done.stderr


def test_a_recording_without_a_machine_name_needs_one(tmp_path: Path) -> None:
    file = keep(tmp_path / "recording.jsonl", EMPTY, machine=None)

    done = call("up", "--port-base", "0", "--replay", str(file))

    assert (done.code, done.stderr.splitlines()[-2:]) == (
        2,
        [
            f"Error: Invalid value for '--replay': {file}: the recording does not name its machine",
            f"hint: name the machine: --replay MACHINE={file}",
        ],
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(
            ("--replay", "{file}", "--clock", "manual"),
            "--replay needs the real clock",
            id="time stands still",
        ),
        pytest.param(("--replay", "{file}", "--replay", "web_0={file}"), "two recordings", id="one too many"),
        pytest.param(
            ("--replay", "={file}"), "(expected e.g. recording.jsonl", id="a machine without a name"
        ),
    ],
)
def test_contradicting_replays_are_refused(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    file = keep(tmp_path / "recording.jsonl", EMPTY)

    done = call("up", "--port-base", "0", *(word.format(file=file) for word in words))

    assert done.code == 2
    assert complaint in done.stderr


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    done = call("up", "--port-base", "0", "--replay", str(tmp_path / "none.jsonl"))

    assert done.code == 2
    assert "Error: Invalid value for '--replay': " in done.stderr
    assert "none.jsonl cannot be read: No such file or directory\n" in done.stderr
