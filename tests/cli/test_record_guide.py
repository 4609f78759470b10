"""The commands of the guide to recordings work as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from fairwarning.core.document.recording import format_line, parse_recording, record_document
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import call, up
from tests.fleet_harness import NOON

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "record-and-replay.md"
COMMANDS = re.findall(r"^\$ fairwarning (.*)$", GUIDE.read_text(), re.MULTILINE)
(RECORD,) = (command for command in COMMANDS if command.startswith("record "))
REPLAYS = [command for command in COMMANDS if command.startswith("up ")]
PRINTED = "http://127.0.0.1:8101"


def test_the_guide_records(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    with endpoint(Answer(), Answer(body=b"web_0")) as script:
        command = RECORD.replace(PRINTED, script.url).replace("10m", "0s").replace(file.name, str(file))
        done = call(*shlex.split(command))

    assert done.code == 0, done.stderr
    assert [one.machine for one in parse_recording(file.read_text())] == ["web_0"]


@pytest.mark.parametrize("command", REPLAYS)
def test_the_guide_replays(tmp_path: Path, command: str) -> None:
    file = tmp_path / "recording.jsonl"
    one = record_document(NOON, "web_0", "2020-07-01", {"DocumentIncarnation": 7, "Events": []})
    file.write_text(f"{format_line(one)}\n")
    _, *words = shlex.split(command.replace(file.name, str(file)))

    with up(tmp_path, "--no-arm", *words) as server:
        said = server.complained()

    assert re.search(r"replaying 1 document in 0s to web_[01]", said)


def test_the_line_in_the_guide_is_a_line_of_a_recording() -> None:
    (example,) = re.findall(r"^\{.*\}$", GUIDE.read_text(), re.MULTILINE)

    assert format_line(*parse_recording(example)) == example
