"""The leases of one node: the right to do alone what only one node may do at a time.

A lease is held for as long as its owner keeps asking for it. A node that dies loses its leases when they end,
and a node that was suspended finds at its next call that another node has a larger fence.

A process that has its store to itself needs no claim: nothing else could hold a lease, so every lease is
granted at once, with fence 0, and nothing is stored.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from fairwarning.core.errors import StorageError
from fairwarning.engine.ports import Lease, Store

#: How long a lease lasts. A lease that ``hold`` returns lasts at least half of it.
LASTS = timedelta(seconds=20)


class Leases(Protocol):
    """Holds leases for one owner."""

    async def hold(self, key: str) -> Lease | None:
        """Return a lease, claimed or renewed if need be; None while another node holds it."""
        ...

    async def release(self, key: str) -> None:
        """End a lease before its time, if this owner has it."""
        ...

    async def release_all(self) -> None:
        """End all leases of this owner, so that the others need not wait for their end."""
        ...


class SoleHolder:
    """Holds every lease: no other process uses the store."""

    def __init__(self, owner: str, now: Callable[[], datetime]) -> None:
        self._owner = owner
        self._now = now

    async def hold(self, key: str) -> Lease | None:
        """Return a lease."""
        return Lease(key, self._owner, 0, self._now() + LASTS)

    async def release(self, key: str) -> None:
        """Do nothing: nothing is stored."""

    async def release_all(self) -> None:
        """Do nothing: nothing is stored."""


class LeaseHolder:
    """Claims and renews leases for one owner; ``now`` is the time that all owners agree on."""

    def __init__(
        self, store: Store, owner: str, now: Callable[[], datetime], lasts: timedelta = LASTS
    ) -> None:
        self._owner = owner
        self._store = store
        self._now = now
        self._lasts = lasts
        self._leases: dict[str, Lease] = {}
        #: A second claim of the same owner would make the lease of the first one old.
        self._claiming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def hold(self, key: str) -> Lease | None:
        """Return a lease, claimed or renewed if need be; None while another node holds it."""
        async with self._claiming.setdefault(key, asyncio.Lock()):
            lease, now = self._leases.pop(key, None), self._now()
            if lease is not None and lease.until - now < self._lasts / 2:
                lease = await self._store.renew(lease, now, self._lasts)
            if lease is None:
                lease = await self._store.claim(key, self._owner, now, self._lasts)
            if lease is not None:
                self._leases[key] = lease
            return lease

    async def release(self, key: str) -> None:
        """End a lease before its time, if this owner has it."""
        async with self._claiming.setdefault(key, asyncio.Lock()):
            lease = self._leases.pop(key, None)
            if lease is not None:
                # A lease that cannot be released ends by itself.
                with suppress(StorageError):
                    await self._store.release(lease)

    async def release_all(self) -> None:
        """End all leases of this owner, so that the others need not wait for their end."""
        for key in tuple(self._leases):
            await self.release(key)
