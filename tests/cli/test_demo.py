"""The demo shows every step, and is quick."""

import asyncio

from tests.cli.server import run


def test_the_demo_takes_less_than_thirty_seconds() -> None:
    loop = asyncio.new_event_loop()
    began = loop.time()
    done = run("demo")
    took = loop.time() - began
    loop.close()

    story = iter(line[10:] for line in done.stdout.splitlines())
    assert done.code == 0, done.stderr
    assert done.stderr == ""
    assert took < 30
    for step in (
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
    ):
        assert any(line.strip().startswith(step) for line in story), f"{step} is missing: {done.stdout}"
