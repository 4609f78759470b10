"""A fleet whose metadata endpoints are served in this process, by a thread of their own."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Self, TypeVar

from fairwarning import config
from fairwarning.control.control import Control
from fairwarning.core import history, model
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import EventChanged
from fairwarning.core.document.render import EVENTS_PATH, Json
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import InvalidError, UnknownEventError, UnknownMachineError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import OPERATOR, EventId, MachineRef, ScopeKind, guest
from fairwarning.core.policy import PROFILES, Profile, whole_second
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError
from fairwarning.engine.time_control import advance_to
from fairwarning.formats import durations
from fairwarning.formats.suggestions import did_you_mean
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Rate
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.listeners import Listeners, ListenPlan
from fairwarning.store.memory import MemoryStore
from fairwarning.testing.events import FleetEvent, fleet_event, format_line, id_of
from fairwarning.testing.frames import hide_frames
from fairwarning.testing.thread import THREAD

T = TypeVar("T")

#: Requests per second that no handler reaches.
_UNLIMITED = 1e9
#: Short, so that a handler with an open request does not delay the end of its test.
_LIMITS = Limits(grace=0.05, steps=Rate(_UNLIMITED, _UNLIMITED))
#: Every machine gets a free port of its own, so that tests can run in parallel.
_PLAN = ListenPlan(port=0, own=MOST_MACHINES * 10)


@hide_frames
class Fleet:
    """Simulated machines and their manual clock; every method may be called from any thread."""

    def __init__(self, profile: Profile) -> None:
        self._clock = ManualClock(whole_second(SystemClock().now()))
        self._engine = Engine(MemoryStore(), self._clock, SimulatedDriver(), profile.policy)
        self._control = Control(self._engine, self._open_endpoints)
        self._app = MetadataApp(self._control, profile)
        self._server = HttpServer[MachineRef](self._answer, self._clock.now, _LIMITS)
        self._listeners = Listeners(self._server, _PLAN, self._engine.store)
        self._requests = Counter[MachineRef]()
        self._read = set[tuple[MachineRef, EventId]]()
        self._polled = asyncio.Event()

    # -- machines

    def scale_set(
        self, name: str, count: int, *, spot: bool = False, terminate_notice: str | None = None
    ) -> tuple[str, ...]:
        """Create a scale set and return the names of its machines: ``web_0``, ``web_1`` and so on."""
        notice = None if terminate_notice is None else parse_duration(terminate_notice, "terminate_notice")
        return self.make(Blueprint(name=name, count=count, spot=spot, terminate_notice=notice))

    def availability_set(self, name: str, count: int) -> tuple[str, ...]:
        """Create an availability set and return the names of its machines: ``app-0`` and so on."""
        return self.make(Blueprint(name=name, count=count, kind=ScopeKind.AVAILABILITY_SET))

    def vm(self, name: str) -> str:
        """Create a standalone machine and return its name."""
        return self.make(Blueprint(name=name, kind=ScopeKind.STANDALONE))[0]

    def spot_vm(self, name: str) -> str:
        """Create a standalone Spot machine, which can be evicted, and return its name."""
        return self.make(Blueprint(name=name, kind=ScopeKind.STANDALONE, spot=True))[0]

    def make(self, blueprint: Blueprint) -> tuple[str, ...]:
        """Create the set of a blueprint and return the names of its machines."""
        created = THREAD.run(self._control.create_set(OPERATOR, blueprint))
        return tuple(machine.name for machine in created.machines)

    def endpoint(self, machine: str) -> str:
        """Return the base URL that replaces http://169.254.169.254 on a machine."""
        url = self._listeners.url(self._ref(machine))
        if url is None:
            raise InvalidError("machine", f"{machine} has no endpoint")
        return url

    def env(self, machine: str, *, proxy: bool = False) -> dict[str, str]:
        """Return an environment for a handler: this process's, plus the machine's FAIRWARNING_ENDPOINT.

        With ``proxy``, the machine's endpoint is also the handler's http_proxy. Use it for handlers that have
        169.254.169.254 built in and honour http_proxy.
        """
        url = self.endpoint(machine)
        proxies = {"http_proxy": url, "HTTP_PROXY": url, "no_proxy": "", "NO_PROXY": ""} if proxy else {}
        return config.environment({"FAIRWARNING_ENDPOINT": url, **proxies})

    def document(self, machine: str, api_version: str = NEWEST) -> dict[str, Json]:
        """Return the document that a machine sees, in an api-version; this counts as a poll."""
        return THREAD.run(self._document(machine, api_version))

    def requests(self, machine: str) -> int:
        """Return the number of HTTP requests to a machine's endpoint."""
        return self._requests[self._ref(machine)]

    # -- time and events

    @property
    def now(self) -> datetime:
        """The fleet's time."""
        return self._clock.now()

    def advance(self, by: str | timedelta) -> None:
        """Move the clock forward; everything due on the way happens at its time and in order."""
        to = self._clock.now() + _length(by, "by")
        self._run(advance_to(self._engine, self._clock, to))

    def restart(self, machine: str, *, notice: str | None = None) -> FleetEvent:
        """Restart a machine as a user would, with Azure's notice unless ``notice`` is given."""
        return self.cause("restart", machine, notice=notice)

    def cause(self, cause: str, *machines: str, notice: str | None = None, force: bool = False) -> FleetEvent:
        """Cause one event on one or more machines; ``fairwarning cause --help`` lists the causes."""
        refs = tuple(self._ref(name) for name in machines)
        alone = cause in CAUSES and CAUSES[cause].alone
        if len(refs) > 1 and (alone or len({ref.scope for ref in refs}) > 1):
            raise InvalidError(
                "machines", f"{cause} causes an event of its own for each of these; use one call per machine"
            )
        length = None if notice is None else parse_duration(notice, "notice")
        names = [ref.full for ref in refs]
        announced = self._run(self._control.cause(OPERATOR, cause, names, notice=length, force=force))
        if announced.events:
            return fleet_event(announced.events[0])
        # T-09: a forced delete of a machine whose delete is pending starts that event.
        pending = THREAD.call(lambda: self._engine.scope(refs[0].scope)).events.values()
        return next(
            fleet_event(event)
            for event in pending
            if event.cause == cause and refs[0].name in event.resources
        )

    def approve(self, event: FleetEvent | str, *, by: str) -> FleetEvent:
        """Approve an event as one of the machines of its scope, and return its new state."""
        (approved,) = self._run(self._control.approve(guest(self._ref(by)), id_of(event))).events
        return fleet_event(approved)

    def cancel(self, event: FleetEvent | str) -> FleetEvent:
        """Cancel an event that has not started, and return its new state."""
        return fleet_event(self._run(self._control.cancel(OPERATOR, id_of(event))))

    # -- results

    def event(self, event: FleetEvent | str) -> FleetEvent:
        """Return the current state of an event; its status is Gone if it is over."""
        return fleet_event(THREAD.run(self._latest(id_of(event))))

    def events(self) -> tuple[FleetEvent, ...]:
        """Return the pending events, by scope and then in order of creation."""
        scopes = THREAD.call(lambda: tuple(self._engine.scopes().values()))
        return tuple(fleet_event(event) for scope in scopes for event in scope.events.values())

    def history(self, event: FleetEvent | str) -> tuple[str, ...]:
        """Return the history of an event, one text per line."""
        return tuple(THREAD.run(self._history(id_of(event))))

    def assert_approved(
        self, event: FleetEvent | str, *, by: str | None = None, within: str | timedelta = "10s"
    ) -> FleetEvent:
        """Wait for an approval, in real time while the fleet's clock stands still, and return the event.

        Raises:
            AssertionError: the approval did not come in time or came from another machine, or the event
                started or ended without an approval.
        """
        latest = THREAD.run(self._decided(id_of(event), _length(within, "within")))
        if latest.approved_by is None or by not in (None, latest.approved_by):
            raise AssertionError(self._not_approved(latest, by, within))
        return fleet_event(latest)

    def assert_not_approved(
        self,
        event: FleetEvent | str,
        *,
        during: str | timedelta = "0s",
        poll_within: str | timedelta = "10s",
    ) -> FleetEvent:
        """Return the event if a machine that may approve it has read of it, and it gets no approval.

        The poll of that machine may have been before this call; if not, it is waited for, in real time. After
        the poll, an approval has as long as ``during`` says, also in real time.

        Raises:
            AssertionError: the event was approved, or nobody asked.
        """
        bound = _length(poll_within, "poll_within")
        asked = THREAD.run(self._is_read(id_of(event), bound))
        latest = THREAD.run(self._decided(id_of(event), _length(during, "during") if asked else timedelta(0)))
        if latest.approved_by is not None:
            what = f"{fleet_event(latest)} was approved by {latest.approved_by}"
            raise AssertionError(f"{what}{self._what_happened(latest)}")
        if not asked:
            what = f"{fleet_event(latest)} was not approved, but nobody asked"
            where = f"no machine of {latest.scope} read of it within {durations.for_people(bound)}"
            raise AssertionError(f"{what}: {where}{self._what_happened(latest)}")
        return fleet_event(latest)

    # -- in the thread of all fleets

    async def open(self) -> Self:
        """Open the engine; await this in the thread of all fleets."""
        await self._engine.open()
        return self

    async def close(self) -> None:
        """Close all connections and the engine; await this in the thread of all fleets."""
        await self._server.close()
        await self._engine.close()

    def _answer(self, machine: MachineRef | None, request: Request) -> Reply:
        reply = self._app.answer(machine, request)
        if machine is None:
            return reply
        self._requests[machine] += 1
        if request.method != "GET":
            return reply
        return (
            self._noted(machine, reply) if isinstance(reply, Response) else self._noted_later(machine, reply)
        )

    async def _noted_later(self, machine: MachineRef, reply: Awaitable[Response]) -> Response:
        return self._noted(machine, await reply)

    def _noted(self, machine: MachineRef, response: Response) -> Response:
        """Note which events a machine reads of."""
        if response.status == 200 and self._engine.has_machine(machine):
            pending = self._engine.scope(machine.scope).events
            self._read |= {(machine, event) for event in pending if event.encode() in response.body}
            self._polled.set()
        return response

    def _ref(self, machine: str) -> MachineRef:
        return THREAD.call(lambda: self._find(machine))

    def _find(self, machine: str) -> MachineRef:
        try:
            return self._engine.directory.machine(machine)
        except UnknownMachineError:
            known = (name for ref in self._engine.refs() for name in (ref.name, ref.full))
            raise UnknownMachineError(machine, did_you_mean(machine, known)) from None

    def _run(self, work: Coroutine[object, None, T]) -> T:
        """Do what may delete machines, and close the endpoints of deleted machines."""

        async def run() -> T:
            result = await work
            await self._close_endpoints()
            return result

        return THREAD.run(run())

    async def _open_endpoints(self, machines: Sequence[MachineRef]) -> None:
        await self._listeners.open(machines)

    async def _close_endpoints(self) -> None:
        for deleted in self._listeners.machines() - set(self._engine.refs()):
            await self._listeners.close(deleted)
            self._app.forget(deleted)

    async def _document(self, machine: str, api_version: str) -> dict[str, Json]:
        headers = {"metadata": ("true",)}
        query = f"api-version={api_version}"
        request = Request("GET", EVENTS_PATH, query, headers, b"", True)
        reply = self._app.answer(self._find(machine), request)
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

    async def _is_read(self, event_id: EventId, within: timedelta) -> bool:
        """Return whether a machine has read of an event, or does so in this time, unless it is approved."""
        approved = (await self._latest(event_id)).approved_by is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if approved else within.total_seconds()):
                while not self._readers(event_id):
                    self._polled.clear()
                    await self._polled.wait()
        return bool(self._readers(event_id))

    def _readers(self, event_id: EventId) -> set[MachineRef]:
        return {machine for machine, read in self._read if read == event_id}

    async def _decided(self, event_id: EventId, within: timedelta) -> model.Event:
        """Return an event once it is approved or has started or ended, or when the time is up."""
        with self._engine.feed.subscribe() as subscription, suppress(TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                while (latest := await self._latest(event_id)).waiting and latest.approved_by is None:
                    with suppress(LaggingError):
                        await subscription.next()
        return await self._latest(event_id)

    async def _history(self, event_id: EventId) -> list[str]:
        entries = await self._engine.store.journal(event=event_id)
        lines = (history.to_history_entry(entry.seq, entry.at, entry.change) for entry in entries)
        return [format_line(line, self.now) for line in lines if line is not None]

    # -- messages of failed assertions

    def _not_approved(self, latest: model.Event, by: str | None, within: str | timedelta) -> str:
        event, details = fleet_event(latest), self._what_happened(latest)
        if latest.approved_by is not None:
            return f"{event} was approved by {latest.approved_by}, not by {by}{details}"
        if not latest.waiting:
            return f"{event} is {event.status} without an approval{details}"
        machine = "" if by is None else f" by {by}"
        length = durations.for_people(_length(within, "within"))
        return f"{event} was not approved{machine} within {length}{details}"

    def _what_happened(self, latest: model.Event) -> str:
        readers, targets = self._readers(latest.id), {MachineRef(latest.scope, n) for n in latest.resources}
        others = {machine for machine in self._requests if machine.scope == latest.scope}
        requests = (
            f"requests to the endpoint of {machine.name}: {self._requests[machine]}"
            f"{', and it read of the event' if machine in readers else ''}"
            for machine in sorted(targets | others)
        )
        return "\n  ".join(("; what happened:", *self.history(latest.id), *requests))


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
    """Yield a fleet that lasts as long as the block.

    The scale set is called ``web``, the availability set ``app``. Machines are warned from the start, as if a
    guest had polled before (R-21), unless ``polled`` is false. With ``throttled``, requests are throttled.
    """
    profile = PROFILES["azure"]
    profile = replace(profile, policy=replace(profile.policy, start_enabled=polled))
    if not throttled:
        profile = replace(profile, requests_per_second=_UNLIMITED, burst=_UNLIMITED)
    new = THREAD.run(_open(profile))
    try:
        if scale_set is not None:
            new.scale_set("web", scale_set)
        if availability_set is not None:
            new.availability_set("app", availability_set)
        if vm is not None:
            new.vm(vm)
        if spot_vm is not None:
            new.spot_vm(spot_vm)
        yield new
    finally:
        THREAD.run(new.close())


async def _open(profile: Profile) -> Fleet:
    return await Fleet(profile).open()


def _length(length: str | timedelta, field: str) -> timedelta:
    return length if isinstance(length, timedelta) else parse_duration(length, field)
