"""Wrong tokens are answered slowly, so that nobody can try many.

One throttle stands before every face that asks for a token. A right token is never slowed nor refused,
whatever others try from the same address: who guesses on this machine must not lock its operator out.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from fairwarning.core.errors import FairWarningError

#: How long each wrong token of a caller waits for its answer, in seconds; the last counts for all after it.
PAUSES = (0.0, 0.25, 0.5, 1.0, 2.0)

#: How many wrong tokens may wait for their answer, of one caller and of all; more are refused at once.
MOST_WAITING, MOST_WAITING_OF_ALL = 10, 200

#: How many callers are remembered, and for how many seconds after their last wrong token.
MOST_CALLERS, MEMORY = 1024, 60.0


class TooManyGuessesError(FairWarningError):
    """Too many wrong tokens wait for their answer."""

    status_hint = 429
    retry_after = "2"

    def __init__(self) -> None:
        super().__init__("too many wrong tokens were tried; try again in a moment")


@dataclass(slots=True)
class _Caller:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    wrong: int = 0
    waiting: int = 0
    last: float = 0.0


class Throttle:
    """Remembers who tries wrong tokens; ``now`` returns seconds that never go back."""

    def __init__(
        self,
        now: Callable[[], float] | None = None,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now = now or _loop_seconds
        self._rest = rest
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        self._waiting = 0

    @property
    def remembered(self) -> int:
        """How many callers are remembered."""
        return len(self._callers)

    async def wrong(self, address: str) -> None:
        """Let a wrong token from an address wait for its answer, behind those that came before it.

        Raises:
            TooManyGuessesError: too many wait already.
        """
        caller = self._caller(_network(address))
        if caller.waiting >= MOST_WAITING or self._waiting >= MOST_WAITING_OF_ALL:
            raise TooManyGuessesError
        caller.waiting += 1
        self._waiting += 1
        try:
            async with caller.turn:
                pause = PAUSES[min(caller.wrong, len(PAUSES) - 1)]
                caller.wrong += 1
                await self._rest(pause)
        finally:
            caller.waiting -= 1
            self._waiting -= 1

    def _caller(self, key: str) -> _Caller:
        now = self._now()
        caller = self._callers.pop(key, None)
        if caller is None or (now - caller.last > MEMORY and not caller.waiting):
            caller = _Caller()
        caller.last = now
        self._callers[key] = caller
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        return caller


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()


def _network(address: str) -> str:
    """Return what one caller commands: an address, or the 64 bits that make a network of IPv6."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(int(known) >> 64) if isinstance(known, IPv6Address) else address
