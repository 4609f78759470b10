"""The one thread in which the fleets of this process live.

A loop that starts and stops with every test would cost each of them more than its fleet does.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Return what ``work`` comes to in the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def call(self, look: Callable[[], T]) -> T:
        """Return what ``look`` finds in the loop's thread, while nothing else moves there."""

        async def looking() -> T:
            return look()

        return self.run(looking())

    def stop(self) -> None:
        """End the loop."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A fork leaves threads behind.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="fairwarning-fleets", daemon=True
                )
                self._thread.start()
            return self._loop


THREAD = LoopThread()
atexit.register(THREAD.stop)
