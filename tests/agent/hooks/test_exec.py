"""The exec hook passes the event to the program and enforces the time limit."""

import json
import os
import select
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from fairwarning.agent.hooks import Hook, parse
from fairwarning.agent.hooks.program import OUTPUT_LIMIT
from tests.agent.hooks.contexts import EVENT, in_seconds, noon, prepare, recover

HERE = {"PATH": os.environ["PATH"]}


def shell(script: str) -> Hook:
    return parse({"exec": ["/bin/sh", "-c", script]}, HERE)


def ends(pid: int) -> bool:
    """Whether a process ends within ten seconds, or has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 10)[0])
    finally:
        os.close(watched)


def test_exit_code_zero_is_success_and_the_message_is_the_output() -> None:
    outcome = shell("echo drained; echo twice >&2").run(prepare(), None, noon)

    assert outcome.ok
    assert outcome.message == "drained\ntwice"


def test_any_other_exit_code_is_a_failure_that_carries_the_output() -> None:
    outcome = shell("echo 'no room'; exit 3").run(prepare(), None, noon)

    assert not outcome.ok
    assert outcome.message == "/bin/sh exits 3: no room"


def test_the_environment_tells_of_the_event(tmp_path: Path) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    hook = parse({"exec": [sys.executable, "-I", "-c", code]}, {"KEPT": "yes"})

    variables_seen: dict[str, str] = json.loads(hook.run(prepare(), None, noon).message)

    assert {name: value for name, value in variables_seen.items() if name.startswith("FAIRWARNING")} == {
        "FAIRWARNING_EVENT_ID": "602d9444-d2cd-49c7-8624-8643e7171297",
        "FAIRWARNING_EVENT_TYPE": "Reboot",
        "FAIRWARNING_EVENT_STATUS": "Scheduled",
        "FAIRWARNING_EVENT_SOURCE": "Platform",
        "FAIRWARNING_EVENT_RESOURCES": "web_0,web_1",
        "FAIRWARNING_EVENT_NOT_BEFORE": "2026-11-16T12:15:00+00:00",
        "FAIRWARNING_EVENT_DESCRIPTION": "Host server is undergoing maintenance.",
        "FAIRWARNING_EVENT_DURATION": "-1",
        "FAIRWARNING_EVENT_PHASE": "prepare",
        "FAIRWARNING_MACHINE": "web_0",
    }
    assert variables_seen["KEPT"] == "yes"


@pytest.mark.rule("C-09")
def test_what_the_document_does_not_say_is_empty() -> None:
    bare = replace(EVENT, not_before=None, duration=None, source="", description="")
    script = 'echo "[$FAIRWARNING_EVENT_NOT_BEFORE][$FAIRWARNING_EVENT_DURATION][$FAIRWARNING_EVENT_SOURCE]"'

    outcome = shell(script).run(prepare(bare, deadline=None), None, noon)

    assert outcome.message == "[][][]"


def test_the_event_comes_as_json_on_standard_input() -> None:
    outcome = parse({"exec": ["/bin/cat"]}).run(recover(), None, noon)

    assert json.loads(outcome.message) == {
        "id": "602d9444-d2cd-49c7-8624-8643e7171297",
        "type": "Reboot",
        "status": "Scheduled",
        "source": "Platform",
        "resources": ["web_0", "web_1"],
        "not_before": "2026-11-16T12:15:00+00:00",
        "description": "Host server is undergoing maintenance.",
        "duration": -1,
        "phase": "recover",
        "machine": "web_0",
    }


def test_no_shell_looks_at_the_words() -> None:
    outcome = parse({"exec": ["/bin/echo", "$HOME; exit 1", "*"]}).run(prepare(), None, noon)

    assert outcome.message == "$HOME; exit 1 *"


@pytest.mark.parametrize(
    "description",
    [
        pytest.param("a\0b", id="a NUL"),
        pytest.param("half \ud83d of a pair", id="half a surrogate pair"),
        pytest.param("x" * 1_000_000, id="a million letters"),
    ],
)
def test_an_odd_description_does_not_keep_the_program_from_running(description: str) -> None:
    outcome = shell("true").run(prepare(replace(EVENT, description=description)), None, noon)

    assert outcome.ok


def test_only_the_end_of_a_long_output_is_kept() -> None:
    outcome = shell("yes line | head -n 100000; echo the end").run(prepare(), None, noon)

    assert len(outcome.message) <= OUTPUT_LIMIT
    assert outcome.message.endswith("the end")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["/nonexistent/drain"], "program /nonexistent/drain not found", id="there is none"),
        pytest.param(["/etc/passwd"], "/etc/passwd cannot be run", id="it is no program"),
        pytest.param(["/"], "/ cannot be run", id="it is a folder"),
    ],
)
def test_a_program_that_cannot_be_run_is_a_failure(words: list[str], problem: str) -> None:
    outcome = parse({"exec": words}).run(prepare(), None, noon)

    assert not outcome.ok
    assert outcome.message.startswith(problem)


@pytest.mark.parametrize(
    ("step", "deadline"),
    [
        pytest.param({"timeout": "1s"}, EVENT.not_before, id="its own timeout is over"),
        pytest.param({}, in_seconds(1), id="the event is due"),
    ],
)
def test_a_program_and_its_children_are_killed_when_their_time_is_up(
    step: dict[str, str], deadline: datetime, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 300 & echo $$ $! > {pids}; echo begun; wait; sleep 300"
    hook = parse({"exec": {"command": ["/bin/sh", "-c", script], **step}}, HERE)

    outcome = hook.run(prepare(deadline=deadline), None, noon)

    assert not outcome.ok
    assert "/bin/sh was stopped after" in outcome.message
    assert outcome.message.endswith("begun")
    assert all(ends(int(pid)) for pid in pids.read_text().split())


def test_a_child_left_behind_does_not_hold_the_agent_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    outcome = shell(f"sleep 300 & echo $! > {pid}; echo done").run(prepare(), None, noon)
    os.kill(int(pid.read_text()), 9)

    assert outcome.ok
    assert outcome.message == "done"


@pytest.mark.rule("C-09")
def test_a_program_still_runs_when_the_event_has_begun_already() -> None:
    outcome = shell("echo better late").run(prepare(deadline=in_seconds(-60)), None, noon)

    assert outcome.ok


def test_a_dry_run_only_says_what_would_be_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    outcome = parse({"exec": ["touch", str(mark)]}).run(prepare(dry_run=True), None, noon)

    assert outcome.ok
    assert outcome.message == f"would run touch {mark}"
    assert not mark.exists()
