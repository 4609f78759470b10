"""Templates are evaluated outside the event loop."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmResponse
from fairwarning.arm.templates.evaluator import MOST_WAITING, SWITCH_INTERVAL, Evaluator
from tests.arm.azure import ROOT, Azure
from tests.arm.cloud import resource, template
from tests.arm.deploying import ONE, body, deployable
from tests.fleet_harness import run

SMALL = body(template(resource("net", properties={"k": "[toUpper('a')]"})))


class Held:
    """A CPU clock that blocks its readers until it is released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.intervals: set[float] = set()
        self._go = threading.Event()

    def __call__(self) -> float:
        self.intervals.add(sys.getswitchinterval())
        self.reached.set()
        self._go.wait()
        return 0.0

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the readers after the block, even if it fails."""
        try:
            yield
        finally:
            self._go.set()


def held() -> tuple[Azure, Held]:
    azure, clock = deployable(), Held()
    azure.context.evaluator = Evaluator(clock)
    return azure, clock


def test_other_requests_are_answered_while_a_template_is_evaluated() -> None:
    azure, clock = held()

    async def sequence() -> tuple[ArmResponse, bool, ArmResponse]:
        with clock.released():
            deploying = asyncio.create_task(azure.answer("PUT", ONE, SMALL))
            await asyncio.to_thread(clock.reached.wait)
            meanwhile = await azure.answer("GET", ROOT)
            under_way = not deploying.done()
        return meanwhile, under_way, await deploying

    meanwhile, under_way, deployed = run(sequence())

    assert meanwhile.status == 200
    assert under_way
    assert deployed.status == 201


def test_threads_take_turns_more_often_only_while_a_template_is_evaluated() -> None:
    azure, clock = held()
    usual = sys.getswitchinterval()

    with clock.released():
        pass
    azure.put(ONE, SMALL)

    assert [round(one, 6) for one in clock.intervals] == [SWITCH_INTERVAL]
    assert sys.getswitchinterval() == usual


def test_templates_are_evaluated_one_at_a_time_and_too_many_are_told_to_come_back() -> None:
    evaluator, go = Evaluator(), threading.Event()
    running: list[int] = []
    most: list[int] = []

    def work() -> None:
        running.append(1)
        most.append(len(running))
        go.wait()
        running.pop()

    async def sequence() -> AzureError:
        try:
            waiting = [asyncio.create_task(evaluator.run(work)) for _ in range(MOST_WAITING)]
            await asyncio.sleep(0)
            with pytest.raises(AzureError) as refused:
                evaluator.admit()
        finally:
            go.set()
        await asyncio.gather(*waiting)
        evaluator.admit()
        return refused.value

    refusal = run(sequence())

    assert set(most) == {1}
    assert (refusal.status, refusal.code) == (429, "TooManyRequests")
    assert ("Retry-After", "1") in refusal.headers
