"""A node under audit: an engine whose requests, answers and installed objects are checked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from fairwarning.core.changes import Change, touched
from fairwarning.core.errors import ContendedError, FairWarningError, StorageError
from fairwarning.core.model import Scope, ScopeId
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.directory import IndexedBy
from fairwarning.engine.engine import BATCH_SIZE, Engine
from fairwarning.engine.feed import Feed
from fairwarning.engine.follower import Follower
from fairwarning.engine.ports import Aggregate, AggregateKind, Driver, Entry, FleetSnapshot
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Build, Caller, NoteRefusal, Plan, Result, View, no_note
from tests.conftest import NOON
from tests.deciders.audit import Asked, AuditedStore
from tests.deciders.link import Link
from tests.deciders.serial import SerialState, keys


class LoopClock:
    """The time of the event loop, moved on by ``ahead()``."""

    def __init__(self, ahead: Callable[[], timedelta] = timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return NOON + timedelta(seconds=asyncio.get_running_loop().time()) + self._ahead()


class WatchedFeed(Feed):
    """A feed that checks which objects a batch has replaced."""

    def __init__(
        self, scopes: Callable[[], Mapping[ScopeId, Scope]], link: Link, store: AuditedStore
    ) -> None:
        super().__init__()
        self._scopes = scopes
        self._link = link
        self._store = store
        self._known: dict[ScopeId, Scope] = {}

    def publish(self, entries: Sequence[Entry]) -> None:
        with self._store.watching():
            self._check_objects(entries)
        self._known = dict(self._scopes())
        super().publish(entries)

    def start_over(self) -> None:
        self._known = dict(self._scopes())
        super().start_over()

    def _check_objects(self, entries: Sequence[Entry]) -> None:
        now, own = self._scopes(), self._link.expecting(entries[-1].stamp)
        named = set(touched([entry.change for entry in entries if isinstance(entry.change, Change)]))
        for scope_id in self._known.keys() | now.keys():
            replaced = self._known.get(scope_id) is not now.get(scope_id)
            assert replaced == (scope_id in named), f"{scope_id} is another object, or should be"
            if own is not None and scope_id in own.after:
                assert now.get(scope_id) is own.after[scope_id], f"{scope_id} is not the decision's object"


class Node(Engine):
    """An engine on a link to an audited store."""

    def __init__(
        self,
        store: AuditedStore,
        link: Link,
        clock: LoopClock,
        new_stamp: Callable[[], int],
        batch_size: int = BATCH_SIZE,
        driver: Driver | None = None,
        node_id: str = "node",
    ) -> None:
        super().__init__(
            link,
            clock,
            driver or SimulatedDriver(),
            store.policy,
            new_stamp=new_stamp,
            new_node_id=lambda: node_id,
            batch_size=batch_size,
        )
        self.link = link
        self.feed = WatchedFeed(self.scopes, link, store)
        self.callers: set[asyncio.Future[Result]] = set()
        self.following: asyncio.Task[None] | None = None
        self._audited = store

    @property
    def follower(self) -> Follower:
        """What applies the lines of other nodes."""
        return self._follower

    @property
    def replica(self) -> Replica:
        """The node's replica, for comparisons."""
        return self._replica

    async def submit(self, caller: Caller, build: Build, note_refusal: NoteRefusal = no_note) -> Result:
        store = self._audited
        asked = Asked(caller, build, note_refusal, store.position)
        store.asked[caller.request] = asked

        def observed(view: View) -> Plan:
            asked.at, asked.plan = self.clock.now(), None
            asked.plan = build(view)
            return asked.plan

        try:
            result = await super().submit(caller, observed, note_refusal)
        except (ContendedError, StorageError) as problem:
            store.counts[type(problem).__name__] += 1
            store.check_failure(asked, problem)
            raise
        except FairWarningError as refusal:
            store.counts[type(refusal).__name__] += 1
            store.check_refusal(asked, refusal, self.position)
            raise
        store.check_result(asked, result, self.position)
        store.counts["changed" if asked.ended else "unchanged"] += 1
        return result


def check_equal(replica: Replica, snapshot: FleetSnapshot) -> None:
    """A replica holds exactly what a snapshot says, in the same order."""
    assert replica.position == snapshot.position
    assert list(replica.scopes) == list(snapshot.scopes)
    for scope_id, scope in snapshot.scopes.items():
        same = replica.scopes[scope_id]
        assert same == scope
        assert list(same.machines) == list(scope.machines)
        assert list(same.events) == list(scope.events)
        assert replica.stamp(Aggregate(AggregateKind.SCOPE, scope_id)) == snapshot.scope_stamps[scope_id]
        assert replica.polled_at(scope_id) == snapshot.polled.get(scope_id)
    for set_id, name in snapshot.sets.items():
        assert replica.stamp(Aggregate(AggregateKind.SET, set_id)) == name.stamp
        assert replica.last_incarnation(set_id) == name.incarnation
    assert list(replica.texts.items()) == list(snapshot.texts.items())
    for key, stamp in snapshot.text_stamps.items():
        assert replica.stamp(Aggregate(AggregateKind.TEXT, key)) == stamp


def check_indexes(replica: Replica, state: SerialState) -> None:
    """A replica finds the scopes that a look at every scope finds."""
    for by in IndexedBy:
        for key in {key for scope in state.scopes.values() for key in keys(by, scope)}:
            assert sorted(replica.find(by, key)) == list(state.find(by, key)), f"{by} {key}"
