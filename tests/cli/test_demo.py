"""The demo tells the whole story, and soon."""

import asyncio

from tests.cli.server import run


def test_the_demo_tells_the_story_in_under_thirty_seconds() -> None:
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
        "web_0     is ready and approves",
        "web_0     sees Reboot Started",
        "web_0     asks again: the event is gone",
        "web_1     sees Reboot Scheduled",
        "web_1     does nothing",
        "web_1     sees Reboot Started: the notice is over",
        "batch     sees Preempt Scheduled",
        "operator  fairwarning vms: batch is stopped",
    ):
        assert any(line.strip().startswith(step) for line in story), f"{step} is missing: {done.stdout}"
