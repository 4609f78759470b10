"""When to look at which scope again: one heap, and entries that were overtaken are skipped when met."""

import heapq
from datetime import datetime

from fairwarning.core.model import ScopeId


class Agenda:
    """The next deadline of every scope that has one."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, ScopeId]] = []
        self._current: dict[ScopeId, datetime] = {}

    def put(self, scope: ScopeId, deadline: datetime | None) -> None:
        """Set or clear a scope's deadline."""
        if self._current.get(scope) == deadline:
            return
        if deadline is None:
            del self._current[scope]
        else:
            self._current[scope] = deadline
            heapq.heappush(self._heap, (deadline, scope))

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

    def _holds(self, entry: tuple[datetime, ScopeId]) -> bool:
        deadline, scope = entry
        return self._current.get(scope) == deadline
