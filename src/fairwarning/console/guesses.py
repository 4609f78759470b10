"""Wrong tokens take their time, so that nobody can try many."""

import asyncio
from collections.abc import Awaitable, Callable

from fairwarning.core.errors import FairWarningError

#: How long each wrong token in a row is considered, in seconds; the last counts for all that follow.
PAUSES = (0.0, 0.25, 0.5, 1.0, 2.0)

#: How many may wait for their turn; more would only be somebody who guesses.
MOST_WAITING = 10


class TooMany(FairWarningError):
    """Too many others are trying tokens."""

    status_hint = 429

    def __init__(self) -> None:
        super().__init__("too many are logging in; try again in a moment")


class Guesses:
    """Judges one token at a time, the more slowly the more of them were wrong."""

    def __init__(
        self, opens: Callable[[str], bool], rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._opens = opens
        self._rest = rest
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._wrong = 0

    async def right(self, token: str) -> bool:
        """Whether this is the token; whoever comes while others are judged waits for their turn."""
        if self._waiting >= MOST_WAITING:
            raise TooMany
        self._waiting += 1
        try:
            async with self._turn:
                return await self._judged(token)
        finally:
            self._waiting -= 1

    async def _judged(self, token: str) -> bool:
        if self._opens(token):
            self._wrong = 0
            return True
        pause = PAUSES[min(self._wrong, len(PAUSES) - 1)]
        self._wrong += 1
        await self._rest(pause)
        return False
