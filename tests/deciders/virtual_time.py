"""An event loop in which waiting takes no time: time jumps to the next timer when nothing is ready."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")

#: How long one turn of the loop takes, in seconds: whoever is busy does not stop time.
TURN = 0.0001

#: The longest story, in seconds of its own time.
LONGEST = 3600.0


class DeadlockError(RuntimeError):
    """Every task is waiting, and nothing will ever wake one."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("every task is waiting, and nothing will wake one")
        self.now += max(TURN, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with its own time; the jobs of threads are done at once, in the loop's own thread."""

    def __init__(self) -> None:
        self._timers = _Selector()
        super().__init__(self._timers)

    def time(self) -> float:
        return self._timers.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future


class RealLoop(asyncio.SelectorEventLoop):
    """An event loop in real time that begins at 0, for a store in another process."""

    def __init__(self) -> None:
        self._began = 0.0
        super().__init__()
        self._began = super().time()

    def time(self) -> float:
        return super().time() - self._began


def run(story: Coroutine[object, object, T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Run a story to its end, in virtual time unless told, and return its result.

    What still runs then is cancelled.
    """
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(story, LONGEST))
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
