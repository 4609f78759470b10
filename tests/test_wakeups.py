"""Sleepers that are woken together leave time for everything else."""

import asyncio

import pytest

from fairwarning.wakeups import SLICE, Wakeups
from tests.fleet_harness import run


class Counted:
    """A sleeper that records when it was woken."""

    def __init__(self, woken: list[str], name: str = "sleeper") -> None:
        self._woken = woken
        self._name = name

    def wake(self) -> None:
        self._woken.append(self._name)


class Broken:
    """A sleeper that cannot be woken."""

    def wake(self) -> None:
        raise LookupError("no such thing")


def test_many_are_woken_a_slice_at_a_time() -> None:
    async def story() -> list[int]:
        woken: list[str] = []
        Wakeups(asyncio.get_running_loop()).add(Counted(woken) for _ in range(2 * SLICE + 1))
        seen = [len(woken)]
        while seen[-1] < 2 * SLICE + 1:
            await asyncio.sleep(0)
            seen.append(len(woken))
        return seen

    assert run(story()) == [0, SLICE, 2 * SLICE, 2 * SLICE + 1]


def test_sleepers_are_woken_in_the_order_they_were_added() -> None:
    async def story() -> list[str]:
        woken: list[str] = []
        wakeups = Wakeups(asyncio.get_running_loop())
        wakeups.add([Counted(woken, "one"), Counted(woken, "two")])
        wakeups.add([Counted(woken, "three")])
        await asyncio.sleep(0)
        return woken

    assert run(story()) == ["one", "two", "three"]


def test_a_sleeper_that_fails_does_not_keep_others_asleep(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[str]:
        woken: list[str] = []
        Wakeups(asyncio.get_running_loop()).add([Broken(), Counted(woken)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return woken

    assert run(story()) == ["sleeper"]
    assert "LookupError" in caplog.text
