"""What all conversations of a server share, and who is let in."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar
from zlib import crc32

from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import CacheableGet, Reply, Request
from fairwarning.http1.metrics import Counters
from fairwarning.http1.request_cache import RequestCache
from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.http1.throttle import Account
from fairwarning.wakeups import Wakeups

if TYPE_CHECKING:
    from fairwarning.http1.connection import Connection

C = TypeVar("C", bound=Hashable)
K = TypeVar("K", bound=Hashable, contravariant=True)

#: How many of those who wait for their turn are answered before everybody else gets one.
AT_ONCE = 16
#: Accounts that are kept at a time, and how many there are for those whom nobody knows.
_ACCOUNTS = 16_384
_STRANGERS = 64

#: Says what to answer to a caller; None is a caller whom the listener does not know.
Answer: TypeAlias = Callable[[C | None, Request], Reply]


class FastPath(Protocol):
    """Answers the cacheable requests of one caller from rendered responses."""

    def answer(self, get: CacheableGet, moment: Moment) -> bytes | None:
        """Return the response as it is sent; None if the application has to make it."""
        ...


class FastPathRoutes(Protocol[K]):
    """Knows which requests are plain polls, and who can be answered at once."""

    def prepare(self, request: Request) -> CacheableGet | None:
        """Return what a request always asks for, if that is a plain poll."""
        ...

    def poller(self, caller: K) -> FastPath:
        """Return what is known of a caller."""
        ...


class ServerState(Generic[C]):
    """The answers, the limits and the clocks of one server, and how many callers there are."""

    def __init__(
        self, answer: Answer[C], almanac: RequestClock, limits: Limits, shortcuts: FastPathRoutes[C] | None
    ) -> None:
        self.answer = answer
        self.almanac = almanac
        self.limits = limits
        self.tally = Counters()
        self.heads = RequestCache(None if shortcuts is None else shortcuts.prepare)
        #: Listeners need descriptors as connections do.
        self.listeners = 0
        self._shortcuts = shortcuts
        self._callers: dict[C | None, int] = {}
        self._accounts: dict[C, Account] = {}
        self._strangers = tuple(self._new_account() for _ in range(_STRANGERS))

    @cached_property
    def turns(self) -> Wakeups:
        """Where requests wait that came together: each connection has one of them answered in a turn."""
        return Wakeups(asyncio.get_running_loop(), AT_ONCE)

    def poller(self, caller: C | None) -> FastPath | None:
        """Return who can be answered at once."""
        return None if caller is None or self._shortcuts is None else self._shortcuts.poller(caller)

    def account(self, caller: C | None, address: str) -> Account:
        """Return what a caller is charged to; those whom nobody knows are told apart by their address."""
        if caller is None:
            return self._strangers[crc32(address.encode()) % _STRANGERS]
        found = self._accounts.get(caller)
        if found is None:
            if len(self._accounts) >= _ACCOUNTS:
                self._accounts.clear()
            found = self._accounts[caller] = self._new_account()
        return found

    def rest(self, account: Account, conversation: "Connection[C]") -> None:
        """Take a conversation up again when its caller's rest is over."""
        if not account.resting:
            self.tally.rests += 1
            asyncio.get_running_loop().call_at(account.until, self._rested, account)
        account.resting += (conversation,)

    def _rested(self, account: Account) -> None:
        resting, account.resting = account.resting, ()
        self.turns.add(resting)

    def _new_account(self) -> Account:
        return Account(self.limits.steps, self.limits.rest)

    def shuts_out(self, caller: C | None, account: Account, now: float) -> bool:
        """Say whether a caller has no room for one more connection and rests, and so is not even told."""
        if now >= account.until or self._room(caller):
            return False
        self.tally.taken += 1
        self.tally.turned_away += 1
        return True

    def admit(self, caller: C | None) -> bool:
        """Count one more connection of a caller, and say whether there was room for it."""
        room = self._room(caller)
        self.tally.taken += 1
        self.tally.connections += 1
        self._callers[caller] = self._callers.get(caller, 0) + 1
        if not room:
            self.tally.turned_away += 1
        return room

    def _room(self, caller: C | None) -> bool:
        limits = self.limits
        return (
            self._callers.get(caller, 0) < limits.each
            and self.tally.connections < limits.connections - self.listeners
        )

    def dismiss(self, caller: C | None) -> None:
        """Count one connection less."""
        self.tally.connections -= 1
        own = self._callers.pop(caller) - 1
        if own:
            self._callers[caller] = own


@dataclass(slots=True, eq=False)
class ListenerConnections(Generic[C]):
    """The open conversations of one listener."""

    reception: ServerState[C]
    open: "set[Connection[C]]" = field(default_factory=set)
    _gone: asyncio.Event | None = None

    def remove(self, conversation: "Connection[C]") -> None:
        """Forget a conversation that is over."""
        self.open.discard(conversation)
        if self._gone is not None and not self.open:
            self._gone.set()

    async def gone(self) -> None:
        """Return once every conversation is over."""
        self._gone = self._gone or asyncio.Event()
        if self.open:
            await self._gone.wait()
