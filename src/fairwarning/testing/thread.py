"""The one thread in which all fleets of this process run.

Starting and stopping an event loop for every test would take longer than starting a fleet.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Run a coroutine in the loop's thread and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._start_loop()).result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop's thread and return its result; nothing else runs there meanwhile."""

        async def call() -> T:
            return function()

        return self.run(call())

    def stop(self) -> None:
        """Stop the loop and its thread."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork, the child has the objects but not the thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="fairwarning-fleets", daemon=True
                )
                self._thread.start()
            return self._loop


THREAD = LoopThread()
atexit.register(THREAD.stop)
