"""Evaluates templates in a thread, one at a time, so that the event loop stays responsive.

A template may need up to a second of CPU time (see ``budget``). In the event loop that second would delay
every guest and every client. In a thread it does not, but the thread competes for the interpreter's lock: at
Python's usual switch interval a busy thread delays the loop by about ten milliseconds at a time. The switch
interval is therefore lowered while a template is evaluated; the delay is then about one millisecond.

A thread must not read the fleet, which changes in the loop. ``run_in_loop`` wraps a lookup so that the thread
waits while the loop runs it. At most ``MOST_WAITING`` evaluations wait for their turn; beyond that a new
deployment is refused with 429.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

from fairwarning.arm.errors import AzureError
from fairwarning.arm.templates.budget import Budget
from fairwarning.core.document.render import Json
from fairwarning.engine.clock import cpu_seconds

#: How long a thread may run before others get the interpreter, in seconds, while a template is evaluated.
SWITCH_INTERVAL = 0.0005

#: How many evaluations may wait before new deployments are refused.
MOST_WAITING = 16

T = TypeVar("T")


class Evaluator:
    """Evaluates templates outside the event loop; ``cpu`` returns the CPU seconds of the calling thread."""

    def __init__(self, cpu: Callable[[], float] = cpu_seconds) -> None:
        self._cpu = cpu
        self._lock = asyncio.Lock()
        self._waiting = 0

    def budget(self) -> Budget:
        """Return the budget of a new deployment."""
        return Budget(self._cpu)

    def admit(self) -> None:
        """Admit a new deployment.

        Raises:
            AzureError: too many evaluations are waiting.
        """
        if self._waiting >= MOST_WAITING:
            message = f"{self._waiting} templates wait to be evaluated; try again in a moment."
            raise AzureError(429, "TooManyRequests", message, headers=(("Retry-After", "1"),))

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread, after all earlier work, and return its result."""
        self._waiting += 1
        try:
            async with self._lock:
                usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_INTERVAL)
                try:
                    return await asyncio.to_thread(work)
                finally:
                    sys.setswitchinterval(usual)
        finally:
            self._waiting -= 1


def run_in_loop(find: Callable[[str], Json | None]) -> Callable[[str], Json | None]:
    """Return ``find`` for use in other threads; it still runs in the event loop."""
    loop = asyncio.get_running_loop()

    async def lookup(key: str) -> Json | None:
        return find(key)

    return lambda key: asyncio.run_coroutine_threadsafe(lookup(key), loop).result()
