"""What a hook prints is in the log of the agent."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.agent import jobs
from fairwarning.agent.hooks import HookOutcome, parse
from fairwarning.agent.hooks.program import OUTPUT_LIMIT
from fairwarning.agent.journal import Journal
from fairwarning.agent.plan import EventStep
from fairwarning.agent.telemetry import JsonLines
from tests.agent.events import record, seen
from tests.agent.hooks.contexts import noon, prepare, recover
from tests.agent.rig import RecordingHook
from tests.pages import Page

EVENT = seen()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path) as journal:
        journal.write(record(EVENT, EventStep.PREPARING))
        yield journal


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "fairwarning.agent")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """Return the lines about hooks, without their times."""
    read = [json.loads(JsonLines().format(line)) for line in log.records if "hook_" in line.message]
    return [{name: value for name, value in line.items() if name != "at"} for line in read]


def text_of(script: str, journal: Journal, log: pytest.LogCaptureFixture) -> str:
    """Run a program as a hook, and return what the log says of it."""
    hook = parse({"exec": ["/bin/sh", "-c", script]}, {"PATH": os.environ["PATH"]})
    jobs.prepare((hook,), prepare(EVENT), journal, noon)
    (line,) = lines(log)
    return str(line["text"])


def test_the_output_of_a_hook_that_succeeds_is_in_the_log(
    journal: Journal, log: pytest.LogCaptureFixture
) -> None:
    hook = parse({"exec": ["/bin/sh", "-c", "echo draining; echo 2 left >&2"]}, {"PATH": os.environ["PATH"]})

    jobs.prepare((hook,), prepare(EVENT), journal, noon)

    assert lines(log) == [
        {
            "level": "info",
            "event": "hook_ok",
            "event_id": EVENT.key,
            "phase": "prepare",
            "step": 1,
            "hook": "exec",
            "text": "draining\n2 left",
        }
    ]


def test_the_output_of_a_hook_that_fails_is_in_the_log(
    journal: Journal, log: pytest.LogCaptureFixture
) -> None:
    text = text_of("echo no room; exit 3", journal, log)

    assert text == "/bin/sh exits 3: no room"
    assert [(line["level"], line["event"]) for line in lines(log)] == [("warning", "hook_failed")]


def test_every_step_of_a_recovery_is_in_the_log(log: pytest.LogCaptureFixture) -> None:
    broken = RecordingHook([], breaks=ValueError("a bug"), name="broken one")
    working = RecordingHook([], answer=HookOutcome(True, "back"), name="working one")

    jobs.recover((broken, working), recover(EVENT), {}, noon)

    assert [(line["step"], line["hook"], line["event"], line["text"]) for line in lines(log)] == [
        (1, "broken", "hook_failed", "broken one raised ValueError('a bug')"),
        (2, "working", "hook_ok", "back"),
    ]


def test_the_end_of_a_long_output_is_kept(journal: Journal, log: pytest.LogCaptureFixture) -> None:
    text = text_of("yes line | head -n 10000; echo the end", journal, log)

    assert len(text.encode()) <= OUTPUT_LIMIT
    assert text.endswith("the end")


def test_control_characters_are_escaped(journal: Journal, log: pytest.LogCaptureFixture) -> None:
    text = text_of(r"printf 'a\033[2J\tb\ncaf\303\251\342\200\256'", journal, log)

    assert text == "a\\x1b[2J\tb\ncafé\\u202e"


def test_a_child_that_keeps_the_output_open_is_not_waited_for(
    journal: Journal, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    script = f"echo drained; (while [ ! -e {stop} ]; do sleep 0.05; done) &"

    try:
        assert text_of(script, journal, log) == "drained"
    finally:
        stop.touch()


def test_the_guide_promises_it() -> None:
    assert f"at most {OUTPUT_LIMIT} bytes" in Page("docs/guides/hooks.md").text.replace("\n", " ")
