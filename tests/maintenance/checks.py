"""What rules M-01 to M-15 promise, counted from the changes in the journal and at each change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from fairwarning.core.changes import Change, EventChanged, EventMilestone, Scopes, TextChanged, apply
from fairwarning.core.maintenance.budgets import Budgets
from fairwarning.core.maintenance.values import MaintenancePhase, OnSilence, Places
from fairwarning.core.model import (
    GONE,
    STARTED,
    BarrierId,
    Event,
    EventId,
    EventSource,
    HostId,
    Machine,
)
from fairwarning.core.stored.kinds import BUDGETS, HOLD, HOLD_OF_HOST, MAINTENANCE, PENDING, PLACES
from fairwarning.engine.ports import Entry
from tests.maintenance.counting import by_group, concerned, down, fits, most, needs_places, taken
from tests.maintenance.world import World


class Checks:
    """Reads the journal from its beginning and checks every line against the lines before it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scopes: Scopes = {}
        self._texts: dict[str, str] = {}
        #: The machines that were warned of each maintenance.
        self._warned: dict[BarrierId, set[str]] = {}
        #: Why each waiting event is blocked.
        self._reasons: dict[EventId, str] = {}

    def check(self) -> None:
        """Check the lines written since the last call, and what they have led to."""
        for _, lines in groupby(self._world.news(), lambda entry: (entry.stamp, entry.request)):
            self._check_request(list(lines))
        self._check_rest()

    def check_nothing_is_left(self) -> None:
        """Check a fleet without events."""
        left = [key for key in self._texts if PLACES.has(key) or PENDING.has(key)]
        assert not left, f"{left} are left of maintenance that is over"

    # -- one request

    def _check_request(self, lines: Sequence[Entry]) -> None:
        texts = {line.change.key: line.change.text for line in lines if isinstance(line.change, TextChanged)}
        # Budgets are written after what they lead to.
        after = {**self._texts, **texts}
        budgets = (_budgets(self._texts), _budgets(after))
        known = [event for event in self._events() if event.waiting]
        looked_at = {
            line.change.event.id: line.change.reason
            for line in lines
            if isinstance(line.change, EventChanged) and line.change.what is EventMilestone.BLOCKED
        }
        started: set[BarrierId] = set()
        for line in lines:
            change = line.change
            if not isinstance(change, Change):
                continue
            waited = isinstance(change, EventChanged) and any(change.event.id == e.id for e in self._events())
            self._scopes = apply(self._scopes, (change,))
            if isinstance(change, EventChanged):
                self._note(change)
                if waited and change.what is EventMilestone.STARTED:
                    started.add(change.event.barrier)
                    self._check_start(change.event, line.at, budgets)
                    self._check_order(change.event, known, looked_at, budgets[1], line.at)
        self._texts = {key: text for key, text in after.items() if text is not None}
        for barrier in started & self._world.promises.keys():
            late = [event for event in self._behind(barrier) if event.waiting]
            assert not late, f"M-02: half of {barrier} has started"
        self._check_places()
        self._check_maintenances()

    def _note(self, change: EventChanged) -> None:
        event = change.event
        if change.what is EventMilestone.SCHEDULED:
            names = {f"{event.scope}/{name}" for name in event.resources}
            self._warned.setdefault(event.barrier, set()).update(names)
        if change.what is EventMilestone.BLOCKED:
            assert event.id not in self._reasons, f"M-09: it is said twice what {event.id} waits for"
            assert change.reason, f"M-09: nobody knows what {event.id} waits for"
            self._reasons[event.id] = change.reason
            self._world.met[f"blocked by {change.reason.split(' ')[0].rstrip(':')}"] += 1
        elif not event.blocked:
            self._reasons.pop(event.id, None)
        if event.status is GONE:
            self._world.met[f"{change.what} {event.source}"] += 1

    def _check_start(self, event: Event, now: datetime, budgets: tuple[Budgets, ...]) -> None:
        promise = self._world.promises.get(event.barrier)
        self._world.met["started"] += 1
        assert event.approved_by or event.not_before <= now, f"L-02: {event.id} started before its NotBefore"
        if event.source is not EventSource.PLATFORM:
            return
        hosts = {machine.host for machine in self._concerned(event)}
        assert not self._is_held([event]), f"M-08: {event.id} started on hold"
        if needs_places(event):
            over = promise is not None and promise.over_budget
            fit = (fits(self._scopes, event, each, over_budget=over) for each in budgets)
            assert any(fit), f"M-05: over budget with {event.id}"
        if promise is None:
            return
        assert promise.opens is None or promise.opens <= now, f"M-03: started before {promise.opens}"
        assert promise.closes is None or now < promise.closes, f"M-04: started after {promise.closes}"
        silent = promise.on_silence is not OnSilence.PROCEED and event.approved_by is None
        assert not silent, f"M-13: {event.id} started without consent"
        if promise.host is not None:
            there = {machine.ref.full for machine in self._machines() if machine.host == promise.host}
            unwarned = there - self._warned[event.barrier]
            assert not unwarned, f"M-12: {unwarned} is on {promise.host} and was not warned"
            assert hosts <= {promise.host}, f"M-12: {event.id} hits what has left {promise.host}"

    def _check_order(
        self,
        event: Event,
        known: Sequence[Event],
        looked_at: Mapping[EventId, str],
        budgets: Budgets,
        now: datetime,
    ) -> None:
        """M-06: nothing younger passes what waits for places, or is looked at in the same decision."""
        if not needs_places(event):
            return
        groups = by_group(self._concerned(event), budgets).keys()
        turn = max(mate.not_before for mate in self._behind(event.barrier))
        for barrier in {other.barrier for other in known if other.barrier != event.barrier}:
            behind = [other for other in self._behind(barrier) if other.waiting]
            before = [other for other in known if other.barrier == barrier]
            ready = bool(behind) and self._is_ready(behind, now) and self._is_ready(before, now)
            older = ready and max(other.not_before for other in behind) < turn
            if not older or not all(map(needs_places, behind)) or self._is_held(behind):
                continue
            mine = by_group((machine for other in behind for machine in self._concerned(other)), budgets)
            for group in groups & mine.keys():
                queued = any(waiting.barrier == barrier for waiting in self._places(group).queue)
                seen = any(looked_at.get(other.id, "").startswith("budget") for other in behind)
                assert not queued, f"M-06: {event.barrier} passes {barrier} in the queue of {group}"
                assert not seen, f"M-06: {event.barrier} passes {barrier} in {group}"

    # -- after a request

    def _check_places(self) -> None:
        """M-14: the stored places are what the events say."""
        all_taken = taken(self._scopes, _budgets(self._texts))
        stored = {key.removeprefix(PLACES.prefix) for key in self._texts if PLACES.has(key)}
        for group in all_taken.keys() | stored:
            places = self._places(group)
            expected = {event: tuple(sorted(names)) for event, names in all_taken.get(group, {}).items()}
            assert dict(places.taken) == expected, f"M-14: {group} has {places.taken}, not {expected}"
            assert list(places.queue) == sorted(places.queue), f"M-06: {group} has the queue {places.queue}"

    def _check_maintenances(self) -> None:
        """M-01: phases follow the events, and the list of pending maintenances follows the phases."""
        pending: dict[HostId, set[BarrierId]] = {}
        for key in self._texts:
            if not MAINTENANCE.has(key):
                continue
            maintenance = MAINTENANCE.find(self._texts.get, key.removeprefix(MAINTENANCE.prefix))
            assert maintenance is not None
            events = self._behind(maintenance.id)
            if not events:
                assert maintenance.phase.over, f"M-01: {maintenance} has no event and is not over"
                assert maintenance.ended_at is not None
                continue
            started = any(event.status is STARTED for event in events)
            expected = MaintenancePhase.STARTED if started else MaintenancePhase.SCHEDULED
            assert maintenance.phase is expected, f"M-01: {maintenance} is {expected}"
            assert self._warned[maintenance.id] == set(maintenance.machines), f"M-12: {maintenance}"
            if maintenance.host is not None:
                pending.setdefault(maintenance.host, set()).add(maintenance.id)
        stored = {host: set(ids) for host, ids in (PENDING.find(self._texts.get) or {}).items()}
        assert stored == pending, f"M-01: pending are {pending}, not {stored}"
        for host, ids in pending.items():
            dated = any(self._world.promises[id].dated for id in ids if id in self._world.promises)
            assert not dated or len(ids) == 1, f"M-01: {host} has {ids}"

    # -- once nothing is due

    def _check_rest(self) -> None:
        engine, now = self._world.fleet.engine, self._world.fleet.now
        assert dict(engine.scopes()).keys() == self._scopes.keys()
        assert {event.id for event in self._events()} == {event.id for event in self._world.events()}
        deadline = engine.next_deadline()
        assert deadline is None or deadline > now, f"something is due since {deadline} and is not done"
        queues: dict[str, set[BarrierId]] = {}
        waiting: dict[BarrierId, list[Event]] = {}
        for event in self._events():
            if event.waiting:
                waiting.setdefault(event.barrier, []).append(event)
                if event.not_before <= now:
                    assert event.blocked, f"M-09: {event.id} is due and not blocked"
                    assert self._world.fleet.control.waits_for([event]), f"M-09: {event.id} waits for nothing"
        for events in waiting.values():
            for group in self._check_waits(events, now):
                queues.setdefault(group, set()).add(events[0].barrier)
        for key in self._texts:
            if PLACES.has(key):
                group = key.removeprefix(PLACES.prefix)
                queue = {turn.barrier for turn in self._places(group).queue}
                expected = queues.get(group, set())
                assert queue == expected, f"M-14: {queue} waits for {group}, not {expected}"

    def _check_waits(self, events: Sequence[Event], now: datetime) -> Iterable[str]:
        """Check that something keeps events from starting; return the groups in whose queues they are."""
        barrier = events[0].barrier
        if not self._is_ready(events, now):
            return ()
        assert events[0].source is EventSource.PLATFORM, f"L-02: {barrier} is ready and waits"
        if self._is_held(events):
            return ()
        assert all(map(needs_places, events)), f"M-09: {barrier} waits for nothing"
        budgets, promise = _budgets(self._texts), self._world.promises.get(barrier)
        mine = by_group((machine for event in events for machine in self._concerned(event)), budgets)
        over_budget = promise is not None and promise.over_budget
        if any(len(names) > most(group, budgets) for group, names in mine.items()) and not over_budget:
            assert promise is None, f"M-05: {barrier} can never have its places and waits"
            return ()
        turn = max(event.not_before for event in events), barrier
        others = {group: down(self._scopes, group, budgets) for group in mine}
        full = any(
            others[group] - names and len(others[group] | names) > most(group, budgets)
            for group, names in mine.items()
        )
        first = any((turn_of := self._places(group).queue) and turn_of[0] < turn for group in mine)
        assert full or first, f"M-09: {barrier} has its places and waits"
        return mine

    # -- the state as the journal tells it

    def _events(self) -> Iterator[Event]:
        return (event for scope in self._scopes.values() for event in scope.events.values())

    def _behind(self, barrier: BarrierId) -> list[Event]:
        return [event for event in self._events() if event.barrier == barrier]

    def _machines(self) -> Iterator[Machine]:
        return (machine for scope in self._scopes.values() for machine in scope.machines.values())

    def _concerned(self, event: Event) -> list[Machine]:
        return concerned(self._scopes, event)

    def _places(self, group: str) -> Places:
        return PLACES.find(self._texts.get, group) or Places()

    def _is_held(self, events: Sequence[Event]) -> bool:
        hosts = {machine.host for event in events for machine in self._concerned(event)}
        return any(key in self._texts for key in (HOLD.key(), *map(HOLD_OF_HOST.key, hosts)))

    def _is_ready(self, events: Sequence[Event], now: datetime) -> bool:
        """Whether all events behind a barrier are approved or due, and their window is open."""
        promise = self._world.promises.get(events[0].barrier)
        if promise is not None and promise.opens is not None and promise.opens > now:
            return False
        asks = promise is not None and promise.on_silence is not OnSilence.PROCEED
        return all(event.approved_by or (event.not_before <= now and not asks) for event in events)


def _budgets(texts: Mapping[str, str | None]) -> Budgets:
    return BUDGETS.find(texts.get) or ()
