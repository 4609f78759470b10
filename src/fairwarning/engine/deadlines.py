"""When to look at which scope again: one heap; entries that were overtaken are skipped when met.

Should they become the most of it, the heap is built anew, so that it never outgrows what is in it by much.
"""

import heapq
from datetime import datetime

from fairwarning.core.model import ScopeId

#: A heap this small is not worth building anew.
LEAST = 64


class Deadlines:
    """The next deadline of every scope that has one."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, ScopeId]] = []
        self._current: dict[ScopeId, datetime] = {}

    def __len__(self) -> int:
        """How many entries are held, overtaken ones among them."""
        return len(self._heap)

    def put(self, scope: ScopeId, deadline: datetime | None) -> None:
        """Set or clear a scope's deadline."""
        if self._current.get(scope) == deadline:
            return
        if deadline is None:
            del self._current[scope]
        else:
            self._current[scope] = deadline
            heapq.heappush(self._heap, (deadline, scope))
            if len(self._heap) > LEAST + 2 * len(self._current):
                self._rebuild()

    def next(self) -> datetime | None:
        """Return the earliest deadline of all."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: datetime) -> list[ScopeId]:
        """Remove and return the scopes whose deadline has come, earliest first."""
        due: list[ScopeId] = []
        while (deadline := self.next()) is not None and deadline <= now:
            _, scope = heapq.heappop(self._heap)
            del self._current[scope]
            due.append(scope)
        return due

    def _rebuild(self) -> None:
        self._heap = [(deadline, scope) for scope, deadline in self._current.items()]
        heapq.heapify(self._heap)

    def _holds(self, entry: tuple[datetime, ScopeId]) -> bool:
        deadline, scope = entry
        return self._current.get(scope) == deadline
