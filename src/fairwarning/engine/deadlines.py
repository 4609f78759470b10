"""The next deadline of every scope, in one heap.

A heap cannot remove an entry from its middle. When a deadline changes, the new entry is pushed and the old
entry stays; ``_current`` says which entry of a scope counts. Outdated entries are dropped when they reach
the top.

A scope that changes often leaves many outdated entries far from the top. The heap is rebuilt
from ``_current`` when they outnumber the current entries, so its size stays proportional to the number of
scopes and ``put`` stays at amortised O(log n).
"""

import heapq
from datetime import datetime

from fairwarning.core.model import ScopeId

#: The number of outdated entries that never causes a rebuild.
LEAST = 64


class Deadlines:
    """The next deadline of every scope that has one."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, ScopeId]] = []
        self._current: dict[ScopeId, datetime] = {}

    def __len__(self) -> int:
        """Return the number of entries in the heap, including outdated ones."""
        return len(self._heap)

    def put(self, scope: ScopeId, deadline: datetime | None) -> bool:
        """Set a scope's deadline, or clear it if None; return whether it is the first entry of the heap.

        Only then does the timer have to wake up earlier: it never sleeps beyond the first entry, even if that
        entry is outdated.
        """
        if self._current.get(scope) == deadline:
            return False
        if deadline is None:
            del self._current[scope]
            return False
        self._current[scope] = deadline
        entry = deadline, scope
        heapq.heappush(self._heap, entry)
        if len(self._heap) > LEAST + 2 * len(self._current):
            self._rebuild()
        return self._heap[0] == entry

    def next(self) -> datetime | None:
        """Return the earliest deadline of all scopes."""
        while self._heap:
            deadline, scope = self._heap[0]
            if self._current.get(scope) == deadline:
                return deadline
            heapq.heappop(self._heap)
        return None

    def take(self, now: datetime) -> list[ScopeId]:
        """Remove and return the scopes whose deadline is reached, earliest first."""
        due: list[ScopeId] = []
        while self._heap and self._heap[0][0] <= now:
            deadline, scope = heapq.heappop(self._heap)
            if self._current.get(scope) == deadline:
                del self._current[scope]
                due.append(scope)
        return due

    def _rebuild(self) -> None:
        self._heap = [(deadline, scope) for scope, deadline in self._current.items()]
        heapq.heapify(self._heap)
