"""What all connections of a server share: the application, limits, clock, caches, and counts per caller.

A caller is whatever the listener identifies; here it is only a hashable key. Each caller has an ``Account``
for the work done on its behalf (``throttle.py``). The account outlives the connections, so a caller gains
nothing by opening a new connection. Unknown callers share a fixed number of accounts, chosen by their
address; each account also stands for its address when connections are counted.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable
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

#: Waiting connections that are served in one loop iteration.
WAKEUPS_PER_ITERATION = 16
#: Accounts that are kept, and accounts that unknown callers share.
_MAX_ACCOUNTS = 16_384
_UNKNOWN_ACCOUNTS = 64

#: Answers a request of a caller; None is a caller that the listener does not know.
Answer: TypeAlias = Callable[[C | None, Request], Reply]


class FastPath(Protocol):
    """Answers the cacheable requests of one caller from rendered responses."""

    def answer(self, get: CacheableGet, moment: Moment) -> bytes | None:
        """Return the response as it is sent; None if the application has to make it."""
        ...


class FastPathRoutes(Protocol[K]):
    """Decides which requests are cacheable, and gives each caller its fast path."""

    @property
    def headers(self) -> Collection[str]:
        """The headers that the answer to a cacheable request depends on, in lower case."""
        ...

    def prepare(self, request: Request) -> CacheableGet | None:
        """Return the cacheable form of a request, if it has one."""
        ...

    def fast_path(self, caller: K) -> FastPath:
        """Return the fast path of a caller."""
        ...


class ServerState(Generic[C]):
    """The shared state of one server."""

    def __init__(
        self, answer: Answer[C], clock: RequestClock, limits: Limits, routes: FastPathRoutes[C] | None
    ) -> None:
        self.answer = answer
        self.clock = clock
        self.limits = limits
        self.counters = Counters()
        self.cache = RequestCache(None) if routes is None else RequestCache(routes.prepare, routes.headers)
        #: Open listeners; each needs a descriptor, as a connection does.
        self.listeners = 0
        #: The server closes: every response ends its connection, and none is held back.
        self.closing = False
        self._routes = routes
        self._connections: dict[C | Account, int] = {}
        #: Connections of unknown callers.
        self._strangers = 0
        self._accounts: dict[C, Account] = {}

    @cached_property
    def _unknown_accounts(self) -> tuple[Account, ...]:
        """The accounts of unknown callers."""
        return tuple(self._new_account() for _ in range(_UNKNOWN_ACCOUNTS))

    @cached_property
    def wakeups(self) -> Wakeups:
        """The queue of connections with buffered requests; a connection handles one of them per turn."""
        return Wakeups(asyncio.get_running_loop(), WAKEUPS_PER_ITERATION)

    def fast_path(self, caller: C | None) -> FastPath | None:
        """Return the fast path of a known caller."""
        return None if caller is None or self._routes is None else self._routes.fast_path(caller)

    def account(self, caller: C | None, address: str) -> Account:
        """Return the account that a caller is charged to; unknown callers are distinguished by address."""
        if caller is None:
            return self._unknown_accounts[crc32(address.encode()) % _UNKNOWN_ACCOUNTS]
        account = self._accounts.get(caller)
        if account is None:
            if len(self._accounts) >= _MAX_ACCOUNTS:
                self._accounts.clear()
            account = self._accounts[caller] = self._new_account()
        return account

    def wake_after_rest(self, account: Account, connection: "Connection[C]") -> None:
        """Wake a connection when the rest of its caller ends."""
        if not account.resting:
            self.counters.rests += 1
            asyncio.get_running_loop().call_at(account.until, self._end_rest, account)
        account.resting += (connection,)

    def _end_rest(self, account: Account) -> None:
        resting, account.resting = account.resting, ()
        self.wakeups.add(resting)

    def _new_account(self) -> Account:
        return Account(self.limits.steps, self.limits.rest)

    def rejects_silently(self, caller: C | None, account: Account, now: float) -> bool:
        """Whether to close a new connection without a response: its caller is at its limit, and rests."""
        if now >= account.until or self._has_capacity(caller, account):
            return False
        self.counters.accepted += 1
        self.counters.rejected += 1
        return True

    def add_connection(self, caller: C | None, account: Account) -> bool:
        """Count a connection of a caller; False if it exceeds a limit."""
        has_capacity = self._has_capacity(caller, account)
        self.counters.accepted += 1
        self.counters.connections += 1
        self._strangers += caller is None
        counted = account if caller is None else caller
        self._connections[counted] = self._connections.get(counted, 0) + 1
        if not has_capacity:
            self.counters.rejected += 1
        return has_capacity

    def _has_capacity(self, caller: C | None, account: Account) -> bool:
        limits = self.limits
        if self.counters.connections >= limits.connections - self.listeners:
            return False
        if caller is not None:
            return self._connections.get(caller, 0) < limits.per_caller
        return self._strangers < limits.strangers and self._connections.get(account, 0) < limits.per_stranger

    def remove_connection(self, caller: C | None, account: Account) -> None:
        """Count a closed connection of a caller."""
        self.counters.connections -= 1
        self._strangers -= caller is None
        counted = account if caller is None else caller
        remaining = self._connections.pop(counted) - 1
        if remaining:
            self._connections[counted] = remaining


@dataclass(slots=True, eq=False)
class ListenerConnections(Generic[C]):
    """The open connections of one listener."""

    server: ServerState[C]
    open: "set[Connection[C]]" = field(default_factory=set)
    _all_closed: asyncio.Event | None = None

    def remove(self, connection: "Connection[C]") -> None:
        """Forget a closed connection."""
        self.open.discard(connection)
        if self._all_closed is not None and not self.open:
            self._all_closed.set()

    async def wait_closed(self) -> None:
        """Return once every connection is closed."""
        self._all_closed = self._all_closed or asyncio.Event()
        if self.open:
            await self._all_closed.wait()
