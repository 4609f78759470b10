"""ai4s-jobq, a queue from PyPI whose workers stop when their machine is about to be evicted."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import Pair, Single
from tests.real.namespaces import Namespace

# The first run on a machine installs the programs.
pytestmark = [pytest.mark.netns, pytest.mark.timeout(600)]

EVENTS = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

WORKER = """
import asyncio
from ai4s.jobq.scheduled_events import PreemptionEventHandler

async def work():
    stop = asyncio.Event()
    async with PreemptionEventHandler(stop):
        await stop.wait()
        print("stopped")

asyncio.run(work())
"""

# It polls, says what it saw, and waits for a line before it polls again.
POLLER = """
import asyncio
from ai4s.jobq.scheduled_events import ScheduledEventHandler

async def tell(events):
    for event in events:
        print(event.EventType, event.EventStatus, *event.Resources, event.NotBefore[-3:])
    print("polled", flush=True)
    await asyncio.to_thread(input)

async def poll():
    async with ScheduledEventHandler(tell) as handler:
        await handler._polling_task

asyncio.run(poll())
"""


@contextmanager
def running(space: Namespace, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Give a program that runs meanwhile, and end it."""
    environment = {**os.environ, "AZ_BATCH_TASK_ID": "1"}  # without it jobq believes it is at home
    pipe = subprocess.PIPE
    with subprocess.Popen(
        space.command(*words), env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def seen(poller: subprocess.Popen[str]) -> list[str]:
    """Return what the poller says until it has polled once."""
    assert poller.stdout is not None
    lines: list[str] = []
    for line in poller.stdout:
        if line == "polled\n":
            return lines
        lines.append(line.strip())
    raise AssertionError(f"the poller ended after {lines}")


def next_seen(poller: subprocess.Popen[str]) -> list[str]:
    assert poller.stdin is not None
    poller.stdin.write("\n")
    poller.stdin.flush()
    return seen(poller)


def test_a_worker_stops_when_its_machine_is_to_be_evicted(single: Single, client_python: str) -> None:
    single.batch.run("curl", "-sS", "-H", "Metadata:true", EVENTS)  # the first poll switches it on

    with running(single.batch, client_python, "-c", WORKER) as worker:
        single.server.tell("cause", "evict", "batch")
        output, _ = worker.communicate(timeout=60)

    assert output == "stopped\n"
    assert single.server.kinds("batch") == ["scheduled"]


@pytest.mark.rule("V-03", "L-01", "L-03")
def test_its_poller_follows_an_event_from_the_warning_to_the_end(pair: Pair, client_python: str) -> None:
    with running(pair.web_0, client_python, "-c", POLLER) as poller:
        before = seen(poller)
        pair.server.tell("cause", "restart", "web_1")
        warned = next_seen(poller)
        pair.server.tell("approve", pair.server.history()[0]["event"])
        under_way = next_seen(poller)
        pair.server.tell("clock", "advance", "1m")
        after = next_seen(poller)

    assert before == []
    assert warned == ["Reboot Scheduled web_1 GMT"]
    assert under_way == ["Reboot Started web_1"]
    assert after == []
