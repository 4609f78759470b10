"""The commands of the guide to recordings work as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from fairwarning.core.document.recording import format_line, parse_recording, record_document
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import call, up
from tests.fleet_harness import NOON
from tests.pages import Page

GUIDE = Page("docs/guides/record-and-replay.md")
PRINTED = "http://127.0.0.1:8101"


@pytest.mark.runs("docs/guides/record-and-replay.md", "fairwarning record ")
def test_the_guide_records(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    (record,) = GUIDE.commands("fairwarning record ")
    with endpoint(Answer(), Answer(body=b"web_0")) as script, record.running() as command:
        here = command.replace(PRINTED, script.url).replace("10m", "0s").replace(file.name, str(file))
        done = call(*shlex.split(here)[1:])

    assert done.code == 0, done.stderr
    assert [one.machine for one in parse_recording(file.read_text())] == ["web_0"]


@pytest.mark.runs("docs/guides/record-and-replay.md", "fairwarning up ")
def test_the_guide_replays(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    one = record_document(NOON, "web_0", "2020-07-01", {"DocumentIncarnation": 7, "Events": []})
    file.write_text(f"{format_line(one)}\n")
    outputs = []

    for replay in GUIDE.commands("fairwarning up "):
        with replay.running() as command:
            _, _, *words = shlex.split(command.replace(file.name, str(file)))
            with up(tmp_path, "--no-arm", *words) as server:
                outputs.append(server.complained())

    assert len(outputs) == 3
    assert all(re.search(r"replaying 1 document in 0s to web_[01]", output) for output in outputs)


def test_the_line_in_the_guide_is_a_line_of_a_recording() -> None:
    (example,) = re.findall(r"^\{.*\}$", GUIDE.text, re.MULTILINE)

    assert format_line(*parse_recording(example)) == example
