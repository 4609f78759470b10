"""Templates are evaluated in a thread, one at a time: whatever they cost, the loop keeps its turn.

While one is evaluated threads take turns more often than usual: a busy thread then delays the loop by about a
millisecond, where it would be ten.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fairwarning.arm.errors import AzureError
from fairwarning.arm.templates.budget import Budget
from fairwarning.core.document.render import Json
from fairwarning.engine.clock import cpu_seconds

#: How long a thread may keep others waiting while a template is evaluated, in seconds.
SWITCH_INTERVAL = 0.0005

#: How many evaluations may wait for their turn before no new deployment is taken.
MOST_WAITING = 16

T = TypeVar("T")


class Evaluator:
    """Evaluates templates beside the loop; ``cpu`` returns the CPU seconds of the calling thread."""

    def __init__(self, cpu: Callable[[], float] = cpu_seconds) -> None:
        self._cpu = cpu
        self._turn = asyncio.Lock()
        self._waiting = 0

    def budget(self) -> Budget:
        """Return what a new deployment may cost."""
        return Budget(self._cpu)

    def admit(self) -> None:
        """Refuse a new deployment while too many wait.

        Raises:
            AzureError: too many wait.
        """
        if self._waiting >= MOST_WAITING:
            message = f"{self._waiting} templates wait to be evaluated; try again in a moment."
            raise AzureError(429, "TooManyRequests", message, headers=(("Retry-After", "1"),))

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, once its turn has come."""
        self._waiting += 1
        try:
            async with self._turn:
                with _switching_often():
                    return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


@contextmanager
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def in_loop(find: Callable[[str], Json | None]) -> Callable[[str], Json | None]:
    """Return ``find`` for other threads: what changes in the loop is looked at in the loop alone."""
    loop = asyncio.get_running_loop()

    async def found(key: str) -> Json | None:
        return find(key)

    return lambda key: asyncio.run_coroutine_threadsafe(found(key), loop).result()
