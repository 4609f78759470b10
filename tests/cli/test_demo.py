"""The demo shows every step, and is quick."""

import time

import pytest

from tests.cli.server import run

STEPS = (
    "operator  fairwarning cause restart web_0",
    "web_0     sees Reboot Scheduled",
    "web_0     drains",
    "web_0     approves",
    "web_0     sees Reboot Started",
    "web_0     polls again: the event is gone",
    "web_1     sees Reboot Scheduled",
    "web_1     does nothing",
    "web_1     sees Reboot Started: the notice is over",
    "batch     sees Preempt Scheduled",
    "operator  fairwarning vms: batch is stopped",
)


@pytest.mark.slow
def test_the_demo_takes_less_than_thirty_seconds() -> None:
    for tries_left in (2, 1, 0):  # a busy machine may miss a notice of three seconds
        began = time.monotonic()
        done = run("demo")
        took = time.monotonic() - began
        if (took < 30 and missing_step(done.stdout) is None) or not tries_left:
            break

    assert done.code == 0, done.stderr
    assert done.stderr == ""
    assert took < 30
    assert missing_step(done.stdout) is None, done.stdout


def missing_step(printed: str) -> str | None:
    """Return the first step that the demo did not print in its place."""
    story = iter(line[10:].strip() for line in printed.splitlines())
    return next((step for step in STEPS if not any(line.startswith(step) for line in story)), None)
