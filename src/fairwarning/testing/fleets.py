"""A fleet whose endpoints are answered in this process, by a thread of their own."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Self

from fairwarning import config
from fairwarning.core import history, model
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import EventChanged, MachineChanged
from fairwarning.core.commands import Approve, Cancel, Command, CreateSet, Schedule
from fairwarning.core.document.render import EVENTS_PATH, Json
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import InvalidError, UnknownEventError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import EventId, MachineRef, ScopeKind
from fairwarning.core.policy import PROFILES, Profile, whole_second
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError
from fairwarning.engine.time_control import advance_to
from fairwarning.formats import durations
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Rate
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.listeners import Listeners, ListenPlan
from fairwarning.store.memory import MemoryStore
from fairwarning.testing.events import FleetEvent, id_of, shown, told
from fairwarning.testing.thread import THREAD

#: Requests per second that no handler reaches.
_UNHURRIED = 1e9
#: A handler that is still being answered when its test ends does not hold up the next one.
_LIMITS = Limits(grace=0.05, steps=Rate(_UNHURRIED, _UNHURRIED))
#: Any free port for each machine, so that tests can run side by side, shared by no two machines.
_PLAN = ListenPlan(port=0, own=MOST_MACHINES * 10)


class Fleet:
    """Machines to warn, and the hand on their clock; every method may be called from any thread."""

    def __init__(self, profile: Profile) -> None:
        self._clock = ManualClock(whole_second(SystemClock().now()))
        self._engine = Engine(MemoryStore(), self._clock, SimulatedDriver(), profile.policy)
        self._app = MetadataApp(self._engine, profile)
        self._server = HttpServer[MachineRef](self._answer, self._clock.now, _LIMITS)
        self._doors = Listeners(self._server, _PLAN, self._engine.store)
        self._requests = Counter[MachineRef]()

    # -- what there is

    def scale_set(
        self, name: str, count: int, *, spot: bool = False, terminate_notice: str | None = None
    ) -> tuple[str, ...]:
        """Bring up a scale set and return the names of its machines: ``web_0``, ``web_1`` and so on."""
        notice = None if terminate_notice is None else parse_duration(terminate_notice, "terminate_notice")
        return self.make(Blueprint(name=name, count=count, spot=spot, terminate_notice=notice))

    def availability_set(self, name: str, count: int) -> tuple[str, ...]:
        """Bring up an availability set and return the names of its machines: ``app-0`` and so on."""
        return self.make(Blueprint(name=name, count=count, kind=ScopeKind.AVAILABILITY_SET))

    def vm(self, name: str) -> str:
        """Bring up a machine that stands alone."""
        return self.make(Blueprint(name=name, kind=ScopeKind.STANDALONE))[0]

    def spot_vm(self, name: str) -> str:
        """Bring up a Spot machine, which can be evicted."""
        return self.make(Blueprint(name=name, kind=ScopeKind.STANDALONE, spot=True))[0]

    def make(self, blueprint: Blueprint) -> tuple[str, ...]:
        """Bring up whatever a blueprint describes and return the names of its machines."""
        return THREAD.run(self._make(blueprint))

    def endpoint(self, machine: str) -> str:
        """Return the base URL that stands for http://169.254.169.254 on a machine."""
        url = self._doors.url(self._ref(machine))
        if url is None:
            raise InvalidError("machine", f"{machine} has no endpoint")
        return url

    def env(self, machine: str, *, proxy: bool = False) -> dict[str, str]:
        """Return this process's environment for a handler, with the machine's FAIRWARNING_ENDPOINT in it.

        With ``proxy``, whatever the handler asks of an http address is asked of the machine's endpoint: for
        handlers that heed http_proxy and have 169.254.169.254 built in.
        """
        url = self.endpoint(machine)
        proxies = {"http_proxy": url, "HTTP_PROXY": url, "no_proxy": "", "NO_PROXY": ""} if proxy else {}
        return config.environment({"FAIRWARNING_ENDPOINT": url, **proxies})

    def document(self, machine: str, api_version: str = NEWEST) -> dict[str, Json]:
        """Return what a machine is told, in the shape of an api-version; this counts as a poll."""
        return THREAD.run(self._document(machine, api_version))

    def requests(self, machine: str) -> int:
        """Return how often a machine's endpoint was asked anything over the wire."""
        return self._requests[self._ref(machine)]

    # -- what happens

    @property
    def now(self) -> datetime:
        """What time it is for the fleet."""
        return self._clock.now()

    def advance(self, by: str | timedelta) -> None:
        """Let time pass; everything that falls due on the way happens at its time, in its order."""
        THREAD.run(self._advance(_length(by, "by")))

    def restart(self, machine: str, *, notice: str | None = None) -> FleetEvent:
        """Restart a machine as a user would, with the warning that calls for."""
        return self.cause("restart", machine, notice=notice)

    def cause(self, cause: str, *machines: str, notice: str | None = None, force: bool = False) -> FleetEvent:
        """Do something to machines that leads to one event; ``fairwarning cause --help`` lists the causes."""
        refs = tuple(self._ref(name) for name in machines)
        alone = cause in CAUSES and CAUSES[cause].alone
        if len(refs) > 1 and (alone or len({ref.scope for ref in refs}) > 1):
            raise InvalidError(
                "machines", f"{cause} gives each of these an event of its own; cause one at a time"
            )
        length = None if notice is None else parse_duration(notice, "notice")
        asked = Schedule(id=new_event_id(), cause=cause, machines=refs, notice=length, force=force)
        return self._about(asked, asked.id)

    def approve(self, event: FleetEvent | str, *, by: str) -> FleetEvent:
        """Approve an event as one of the machines of its scope, and return it as it is then."""
        event_id = id_of(event)
        machine = self._ref(by)
        asked = Approve(scope=machine.scope, ids=(event_id,), machine=machine.name, by=machine.name)
        return self._about(asked, event_id)

    def cancel(self, event: FleetEvent | str) -> FleetEvent:
        """Withdraw an event that has not started, and return it as it is then."""
        scope, event_id = THREAD.call(lambda: self._engine.directory.event(id_of(event)))
        return self._about(Cancel(scope=scope, id=event_id), event_id)

    # -- what became of it

    def event(self, event: FleetEvent | str) -> FleetEvent:
        """Return an event as it is now, Gone if it is over."""
        return shown(THREAD.run(self._latest(id_of(event))))

    def events(self) -> tuple[FleetEvent, ...]:
        """Return the pending events, scope by scope, in order of creation."""
        scopes = THREAD.call(lambda: tuple(self._engine.scopes().values()))
        return tuple(shown(event) for scope in scopes for event in scope.events.values())

    def history(self, event: FleetEvent | str) -> tuple[str, ...]:
        """Return what happened to an event, a line each, as people read it."""
        return tuple(THREAD.run(self._told(id_of(event))))

    def assert_approved(
        self, event: FleetEvent | str, *, by: str | None = None, within: str | timedelta = "10s"
    ) -> FleetEvent:
        """Wait for an approval, in real time and while the fleet's own stands still, and return the event.

        Raises:
            AssertionError: nobody approved it in time, another machine did, or it began or ended without.
        """
        __tracebackhide__ = True
        found = THREAD.run(self._decided(id_of(event), _length(within, "within")))
        if found.approved_by is None or by not in (None, found.approved_by):
            raise AssertionError(self._disappointment(found, by, within))
        return shown(found)

    def assert_not_approved(self, event: FleetEvent | str, *, during: str | timedelta = "0s") -> FleetEvent:
        """Return the event if nobody has approved it, nor does in the real time it is watched for.

        Raises:
            AssertionError: somebody approved it.
        """
        __tracebackhide__ = True
        found = THREAD.run(self._decided(id_of(event), _length(during, "during")))
        if found.approved_by is not None:
            raise AssertionError(f"{shown(found)} was approved by {found.approved_by}{self._story(found)}")
        return shown(found)

    # -- in the thread of the fleets

    async def open(self) -> Self:
        """Begin; to be awaited in the thread of the fleets."""
        await self._engine.open()
        return self

    async def close(self) -> None:
        """Hang up on everybody; to be awaited in the thread of the fleets."""
        await self._server.close()
        await self._engine.close()

    def _answer(self, machine: MachineRef | None, request: Request) -> Reply:
        if machine is not None:
            self._requests[machine] += 1
        return self._app.answer(machine, request)

    def _ref(self, machine: str) -> MachineRef:
        return THREAD.call(lambda: self._engine.directory.machine(machine))

    def _about(self, command: Command, event_id: EventId) -> FleetEvent:
        THREAD.run(self._carry_out(command))
        return self.event(event_id)

    async def _make(self, blueprint: Blueprint) -> tuple[str, ...]:
        changes = await self._engine.handle(CreateSet(seed=new_event_id(), blueprint=blueprint))
        refs = [change.machine.ref for change in changes if isinstance(change, MachineChanged)]
        await self._doors.open(refs)
        return tuple(ref.name for ref in refs)

    async def _carry_out(self, command: Command) -> None:
        await self._engine.handle(command)
        await self._shut_doors()

    async def _advance(self, by: timedelta) -> None:
        await advance_to(self._engine, self._clock, self._clock.now() + by)
        await self._shut_doors()

    async def _shut_doors(self) -> None:
        """Close the doors of machines that are no more; only a hand on the clock makes any go."""
        there = set(self._engine.refs())
        for gone in self._doors.machines() - there:
            await self._doors.close(gone)
            self._app.forget(gone)

    async def _document(self, machine: str, api_version: str) -> dict[str, Json]:
        headers = {"metadata": ("true",)}
        query = f"api-version={api_version}"
        request = Request("GET", EVENTS_PATH, query, headers, b"", True)
        reply = self._app.answer(self._engine.directory.machine(machine), request)
        response = reply if isinstance(reply, Response) else await reply
        if response.status != 200:
            raise InvalidError("document", f"answered {response.status}: {response.body.decode()}")
        document: dict[str, Json] = json.loads(response.body)
        return document

    async def _latest(self, event_id: EventId) -> model.Event:
        entries = await self._engine.store.journal(event=event_id)
        changes = [entry.change for entry in entries if isinstance(entry.change, EventChanged)]
        if not changes:
            raise UnknownEventError(event_id)
        return changes[-1].event

    async def _decided(self, event_id: EventId, within: timedelta) -> model.Event:
        """Return an event once it is approved or waits no longer, or as it is when time is up."""
        with self._engine.feed.subscribe() as listener, suppress(TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                while (found := await self._latest(event_id)).waiting and found.approved_by is None:
                    with suppress(LaggingError):
                        await listener.next()
        return await self._latest(event_id)

    async def _told(self, event_id: EventId) -> list[str]:
        entries = await self._engine.store.journal(event=event_id)
        lines = (history.to_history_entry(entry.seq, entry.at, entry.change) for entry in entries)
        return [told(line, self.now) for line in lines if line is not None]

    # -- what a failed test says

    def _disappointment(self, found: model.Event, by: str | None, within: str | timedelta) -> str:
        event = shown(found)
        if found.approved_by is not None:
            return f"{event} was approved by {found.approved_by}, not by {by}{self._story(found)}"
        if not found.waiting:
            return f"{event} is {event.status}, and nobody approved it{self._story(found)}"
        wanted = "" if by is None else f" by {by}"
        length = durations.for_people(_length(within, "within"))
        return f"{event} was not approved{wanted} within {length}{self._story(found)}"

    def _story(self, found: model.Event) -> str:
        asked = (
            f"requests to the endpoint of {name}: {self._requests[MachineRef(found.scope, name)]}"
            for name in found.resources
        )
        return "\n  ".join(("; what happened:", *self.history(found.id), *asked))


@contextmanager
def fleet(
    *,
    scale_set: int | None = None,
    availability_set: int | None = None,
    vm: str | None = None,
    spot_vm: str | None = None,
    polled: bool = True,
    throttled: bool = False,
) -> Iterator[Fleet]:
    """Give a fleet for as long as the block lasts.

    A scale set asked for here is called ``web``, an availability set ``app``. Machines are warned from the
    start, as if somebody had asked for events before (R-21), unless ``polled`` is false. A handler may ask as
    often as it likes, unless ``throttled``.
    """
    profile = PROFILES["azure"]
    profile = replace(profile, policy=replace(profile.policy, start_enabled=polled))
    if not throttled:
        profile = replace(profile, requests_per_second=_UNHURRIED, burst=_UNHURRIED)
    found = THREAD.run(_opened(profile))
    try:
        if scale_set is not None:
            found.scale_set("web", scale_set)
        if availability_set is not None:
            found.availability_set("app", availability_set)
        if vm is not None:
            found.vm(vm)
        if spot_vm is not None:
            found.spot_vm(spot_vm)
        yield found
    finally:
        THREAD.run(found.close())


async def _opened(profile: Profile) -> Fleet:
    return await Fleet(profile).open()


def _length(length: str | timedelta, field: str) -> timedelta:
    return length if isinstance(length, timedelta) else parse_duration(length, field)
