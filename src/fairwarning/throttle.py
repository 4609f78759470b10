"""Slows down guesses of tokens: the response to a wrong token waits.

All APIs that ask for a token share one throttle. Each further wrong token of a caller waits longer, one
after the other; a wrong token is refused at once if too many wait already. A right token is never delayed
nor refused, whatever other programs try from the same address: a guesser on this machine must not lock its
operator out.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import ClassVar

from fairwarning.core.errors import FairWarningError

#: The delay of each wrong token of a caller, in seconds; the last holds for all that follow.
DELAYS = (0.0, 0.25, 0.5, 1.0, 2.0)

#: Wrong tokens that may wait, of one caller and of all callers; more are refused at once.
MAX_WAITING, MAX_WAITING_TOTAL = 10, 200

#: Callers that are remembered, and for how many seconds after their last wrong token.
MAX_CALLERS, MEMORY = 1024, 60.0


class TooManyGuessesError(FairWarningError):
    """Too many wrong tokens wait for their response."""

    status_hint = 429
    retry_after: ClassVar[str] = "2"

    def __init__(self) -> None:
        super().__init__("too many wrong tokens were tried; try again in a moment")


@dataclass(slots=True)
class _Caller:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    wrong: int = 0
    waiting: int = 0
    last: float = 0.0


class Throttle:
    """Delays wrong tokens; ``now`` returns monotonic seconds."""

    def __init__(
        self,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now = now or _loop_seconds
        self._sleep = sleep
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        self._waiting = 0

    @property
    def remembered(self) -> int:
        """How many callers are remembered."""
        return len(self._callers)

    async def wrong_token(self, address: str) -> None:
        """Return when the response to a wrong token from an address may be sent.

        Raises:
            TooManyGuessesError: too many wait already.
        """
        caller = self._caller(network_of(address))
        if caller.waiting >= MAX_WAITING or self._waiting >= MAX_WAITING_TOTAL:
            raise TooManyGuessesError
        caller.waiting += 1
        self._waiting += 1
        try:
            async with caller.turn:
                delay = DELAYS[min(caller.wrong, len(DELAYS) - 1)]
                caller.wrong += 1
                await self._sleep(delay)
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
        if len(self._callers) > MAX_CALLERS:
            self._callers.popitem(last=False)
        return caller


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()


def network_of(address: str) -> str:
    """Return the part of an address that one caller controls: all of IPv4, the first 64 bits of IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    # A socket for both families has all IPv4 clients in one IPv6 network.
    return str(parsed.ipv4_mapped or int(parsed) >> 64)
