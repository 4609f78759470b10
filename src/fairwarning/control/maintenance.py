"""What callers can ask for about maintenance, and what is known of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fairwarning.control.draft import Draft
from fairwarning.control.hosts import Host, all_hosts, find_host
from fairwarning.control.names import machines_or_host
from fairwarning.control.results import changed_events
from fairwarning.core import barrier
from fairwarning.core.announce import unpolled_hint
from fairwarning.core.causes import MAINTENANCE as PLANNED
from fairwarning.core.errors import IllegalTransitionError, InvalidError, UnknownMaintenanceError
from fairwarning.core.maintenance.values import Hold, Maintenance, OnSilence
from fairwarning.core.model import PLATFORM, BarrierId, Event, HostId, Principal
from fairwarning.core.policy import Action
from fairwarning.core.stored.kinds import HOLD, HOLD_OF_HOST, MAINTENANCE, PENDING
from fairwarning.core.stored.releases import DataRelease
from fairwarning.engine.engine import Engine
from fairwarning.engine.requests import Result, View

if TYPE_CHECKING:
    from fairwarning.control.control import Control


#: How many maintenances one request removes at most.
FORGOTTEN_AT_ONCE = 100


class Maintained(NamedTuple):
    """A maintenance, and its events that are not over."""

    maintenance: Maintenance
    events: tuple[Event, ...]
    #: Names the scopes without a polling guest; None if there are none.
    hint: str | None = None


class Maintenances:
    """The maintenances of a fleet, and its holds."""

    def __init__(self, control: "Control") -> None:
        self._control = control
        self._engine: Engine = control.engine

    # -- requests

    async def announce(
        self,
        principal: Principal,
        cause: str,
        machines: Sequence[str] = (),
        *,
        host: str | None = None,
        notice: timedelta | None = None,
        opens: datetime | None = None,
        closes: datetime | None = None,
        key: str = "",
        on_silence: OnSilence = OnSilence.PROCEED,
        over_budget: bool = False,
        dry_run: bool = False,
    ) -> Maintained:
        """Announce a maintenance of a host, or of machines.

        With a key, a repetition changes nothing and returns the same maintenance (M-11).
        """

        def fill(draft: Draft) -> BarrierId:
            on_host = None if host is None else HostId(host)
            id = None if not key else barrier.by_key(on_host, key)
            # What is known by its key is known even if no machine is on the host any more.
            known = id is not None and MAINTENANCE.find(draft.view.text, id) is not None
            return draft.maintain(
                cause,
                () if known else machines_or_host(draft.view, machines, host),
                id=id,
                host=on_host,
                notice=notice,
                opens=opens,
                closes=closes,
                on_silence=on_silence,
                over_budget=over_budget,
            )

        if dry_run:
            id, result = self._control.preview(principal, cause, fill)
            texts, changed = result.texts, changed_events(result.changes)
            maintenance = MAINTENANCE.find(texts.get, id)
            if maintenance is not None:
                behind = (event for event in changed.values() if event.barrier == id)
                return self._with_hint(Maintained(maintenance, tuple(behind)))
        else:
            id, _ = await self._control.submit(principal, cause, fill)
        return self._with_hint(_maintained(self._engine.view(), id))

    async def complete(
        self, principal: Principal, host: str, moved: Mapping[str, str] | None = None
    ) -> tuple[Event, ...]:
        """Report all that has started on a host as done; ``moved`` says which machines are elsewhere now."""

        def fill(draft: Draft) -> tuple[Event, ...]:
            pending = _events(draft.view, _pending_ids(draft.view, host))
            started = [event for event in pending if not event.waiting]
            if not started:
                raise IllegalTransitionError(pending[0], "completed")
            draft.complete_all(started, moved or {}, self._control.reported_driver().reported)
            return tuple(started)

        events, result = await self._control.submit(principal, Action.REPORT, fill)
        return _as_left(events, result)

    async def cancel(self, principal: Principal, host: str) -> tuple[Event, ...]:
        """Cancel what is scheduled for a host; what has started goes on."""

        def fill(draft: Draft) -> tuple[Event, ...]:
            events = _events(draft.view, _pending_ids(draft.view, host))
            waiting = [event for event in events if event.waiting]
            if not waiting:
                raise IllegalTransitionError(events[0], "cancelled")
            for event in waiting:
                draft.cancel(event.scope, event.id)
            return tuple(waiting)

        events, result = await self._control.submit(principal, Action.CANCEL, fill)
        return _as_left(events, result)

    async def postpone(self, principal: Principal, name: str, until: datetime) -> tuple[Event, ...]:
        """Give what is scheduled for a host, or an event and those behind its barrier, a later NotBefore."""

        def fill(draft: Draft) -> BarrierId:
            ids = (PENDING.find(draft.view.text) or {}).get(HostId(name), ())
            if len(ids) > 1:
                raise InvalidError("name", f"{name} has {len(ids)} maintenances; name an event")
            id = ids[0] if ids else draft.view.event(name).barrier
            draft.postpone(id, draft.view.scopes_behind(id), until)
            return id

        id, _ = await self._control.submit(principal, Action.POSTPONE, fill)
        return tuple(event for event in _events(self._engine.view(), [id]) if event.waiting)

    async def hold(self, principal: Principal, reason: str = "", host: str | None = None) -> Hold:
        """Let nothing of the platform start, in the fleet or on one host, until ``unhold``."""
        hold = Hold(reason=reason, by=str(principal), since=self._engine.clock.now())
        await self._control.carry_out(principal, lambda draft: draft.set_hold(hold, host), Action.HOLD)
        return hold

    async def unhold(self, principal: Principal, host: str | None = None) -> None:
        """End a hold; what is ready starts."""
        await self._control.carry_out(principal, lambda draft: draft.set_hold(None, host), Action.HOLD)

    async def forget(self, before: datetime) -> None:
        """Remove the maintenances that were over before an instant, a hundred in one request."""
        ended = [one.id for one in self.all() if one.ended_at is not None and one.ended_at < before]
        for start in range(0, len(ended), FORGOTTEN_AT_ONCE):
            some = ended[start : start + FORGOTTEN_AT_ONCE]
            forget = partial(Draft.forget_maintenances, ids=some, before=before)
            await self._control.carry_out(PLATFORM, forget, Action.MAINTAIN)

    # -- what there is

    def has(self, cause: str) -> bool:
        """Whether what happens to a host by this cause is stored as a maintenance.

        Nodes of release 0.2 cannot read one; until ``db migrate --finish``, a host has events alone.
        """
        return cause in PLANNED and self._engine.store.oldest_reader >= DataRelease.V0_3

    def find(self, id: BarrierId) -> Maintained | None:
        """Return a maintenance by its id, over or not; None if there is none."""
        view = self._engine.view()
        return None if MAINTENANCE.find(view.text, id) is None else _maintained(view, id)

    def of(self, event: Event) -> Maintenance | None:
        """Return the maintenance that an event is part of; None if it is part of none."""
        return MAINTENANCE.find(self._engine.stored, event.barrier)

    def all(self) -> Iterator[Maintenance]:
        """Yield all maintenances, those that are over included."""
        view = self._engine.view()
        for key in view.keys_under(MAINTENANCE.prefix):
            maintenance = MAINTENANCE.find(view.text, key.removeprefix(MAINTENANCE.prefix))
            if maintenance is not None:
                yield maintenance

    def host(self, name: str) -> Host:
        """Return a host, or raise ``UnknownHostError``."""
        return find_host(self._engine.view(), name)

    def hosts(self) -> Iterator[Host]:
        """Yield all hosts, by name."""
        return all_hosts(self._engine.view())

    def pending(self, host: str) -> tuple[Maintenance, ...]:
        """Return the maintenances of a host that are not over."""
        text = self._engine.stored
        ids = (PENDING.find(text) or {}).get(HostId(host), ())
        return tuple(found for id in ids if (found := MAINTENANCE.find(text, id)) is not None)

    def hold_of(self, host: str | None = None) -> Hold | None:
        """Return the hold on the fleet, or on a host alone."""
        text = self._engine.stored
        return HOLD.find(text) if host is None else HOLD_OF_HOST.find(text, host)

    def _with_hint(self, maintained: Maintained) -> Maintained:
        hint = unpolled_hint(self._engine.scopes(), maintained.events, self._engine.policy)
        return maintained._replace(hint=hint)


def _as_left(events: Iterable[Event], result: Result) -> tuple[Event, ...]:
    """Return events as a request left them."""
    after = changed_events(result.changes)
    return tuple(after.get(event.id, event) for event in events)


def _pending_ids(view: View, host: str) -> tuple[BarrierId, ...]:
    """Return the ids of a host's maintenances that are not over."""
    ids = (PENDING.find(view.text) or {}).get(HostId(host), ())
    if not ids:
        raise UnknownMaintenanceError(host)
    return ids


def _events(view: View, ids: Iterable[BarrierId]) -> list[Event]:
    """Return the events behind some barriers, by scope and then in order of creation."""
    return [
        event
        for id in ids
        for scope_id in view.scopes_behind(id)
        for event in view.scope(scope_id).events.values()
        if event.barrier == id
    ]


def _maintained(view: View, id: BarrierId) -> Maintained:
    maintenance = MAINTENANCE.find(view.text, id)
    if maintenance is None:
        raise UnknownMaintenanceError(id)
    return Maintained(maintenance, tuple(_events(view, [id])))
