"""The fast path answers a poll exactly as the slow path would."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName, derive_id
from fairwarning.core.policy import FirstCall, Profile
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.connection import Connection
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.request_clock import RequestClock
from fairwarning.http1.server_state import ListenerConnections, ServerState
from fairwarning.http1.throttle import Rate
from tests.guest import E1, UNHURRIED, Cloud, cloud
from tests.http1.server_client import FREE

WEB = ScopeId("web")
WEB_0, WEB_1 = (MachineRef(WEB, VmName(f"web_{number}")) for number in range(2))
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def head(*lines: str, target: str = EVENTS, version: str = "1.1") -> bytes:
    metadata = ["Host: h", "Metadata: true"]
    return "\r\n".join([f"GET {target} HTTP/{version}", *metadata, *lines, "", ""]).encode()


PLAIN = head()


class RecordingTransport:
    """A transport that keeps what is written."""

    writable = True

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def set_reading(self, wanted: bool) -> None:
        """Nothing is read here."""

    def write_eof(self) -> None:
        self.closed = True

    close = abort = reset = write_eof


class Guests:
    """Guests of a fleet whose connections need no sockets."""

    def __init__(self, web: Cloud, *, fast: bool, steps: Rate = FREE) -> None:
        self.web = web
        self.clock = RequestClock(web.runner.get_loop().time, web.clock.now)
        routes = web.app if fast else None
        self.server = ServerState[MachineRef](web.app.answer, self.clock, Limits(steps=steps), routes)
        self._connections = ListenerConnections(self.server)
        self._open: dict[MachineRef, tuple[RecordingTransport, Connection[MachineRef]]] = {}

    def send(self, machine: MachineRef, data: bytes) -> tuple[list[bytes], bool]:
        """Return what is answered, and whether the connection is closed then."""
        return self.web.run(self._send(machine, data))

    async def _send(self, machine: MachineRef, data: bytes) -> tuple[list[bytes], bool]:
        transport, connection = self._open.get(machine) or self.connect(machine)
        before = len(transport.written)
        connection.received(data, self.clock.moment())
        while len(transport.written) == before and not transport.closed:
            await asyncio.sleep(0)
        if transport.closed:
            del self._open[machine]
        return transport.written[before:], transport.closed

    def connect(self, machine: MachineRef) -> tuple[RecordingTransport, Connection[MachineRef]]:
        transport = RecordingTransport()
        connection = Connection(self._connections, machine, self.server.account(machine, ""))
        connection.begin(transport, self.clock.moment())
        self._open[machine] = transport, connection
        return transport, connection


@contextmanager
def serving(*blueprints: Blueprint, profile: Profile = UNHURRIED, fast: bool = True) -> Iterator[Guests]:
    with cloud(*blueprints, profile=profile) as web:
        yield Guests(web, fast=fast)


def statuses(answers: Iterable[tuple[list[bytes], bool]]) -> list[int]:
    return [int(raw[9:12]) for written, _ in answers for raw in written]


HEADS = {
    "a plain poll": PLAIN,
    "a poll with the first document": head('If-None-Match: "1"'),
    "a poll with some documents": head('If-None-Match: W/"2", 3'),
    "a poll with any document": head("If-None-Match: *"),
    "an older version": head(target="/metadata/scheduledevents?api-version=2017-11-01"),
    "an unsupported version": head(target="/metadata/scheduledevents?api-version=2020-07-02"),
    "a path in another case": head(target="/Metadata/ScheduledEvents/?api-version=2020-07-01"),
    "a poll through a proxy": head("X-Forwarded-For: 10.0.0.1"),
    "a last poll": head("Connection: close"),
    "a poll of HTTP/1.0": head("Connection: keep-alive", version="1.0"),
    "two polls": PLAIN + PLAIN,
    "another category": head(target="/metadata/instance/compute/name?api-version=2021-02-01&format=text"),
    "an approval": b"POST %b HTTP/1.1\r\nHost: h\r\nMetadata: true\r\nContent-Length: 2\r\n\r\n{}"
    % EVENTS.encode(),
}


def asks(machine: MachineRef, data: bytes) -> Callable[[Guests], object]:
    return lambda guests: guests.send(machine, data)


def set_fault(machine: MachineRef, endpoint_fault: EndpointFault) -> Callable[[Guests], object]:
    return lambda guests: guests.web.run(_put(guests.web, machine, endpoint_fault))


async def _put(web: Cloud, machine: MachineRef, endpoint_fault: EndpointFault) -> None:
    web.engine.faults.put(machine, ActiveFault(endpoint_fault, inf))


async def _clear(web: Cloud, machine: MachineRef) -> None:
    web.engine.faults.drop(machine)


def happens(cause: str, machine: MachineRef) -> Callable[[Guests], object]:
    def happen(guests: Guests) -> None:
        number = guests.web.engine.scopes()[WEB].version
        event = derive_id(cause, str(number))
        with suppress(FairWarningError):
            guests.web.handle(Schedule(id=event, cause=cause, machines=(machine,)))

    return happen


STEPS: Mapping[str, Callable[[Guests], object]] = {
    **{f"{name} by web_0": asks(WEB_0, data) for name, data in HEADS.items()},
    **{f"{name} by web_1": asks(WEB_1, data) for name, data in HEADS.items()},
    "web_0 is restarted": happens("restart", WEB_0),
    "web_1 is frozen": happens("freeze", WEB_1),
    "web_1 is deleted": happens("delete", WEB_1),
    "a minute passes": lambda guests: guests.web.advance(minutes=1),
    "two hours pass": lambda guests: guests.web.advance(hours=2),
    "two days pass": lambda guests: guests.web.advance(days=2),
    "the endpoint of web_0 breaks": set_fault(WEB_0, EndpointFault.BROKEN),
    "the endpoint of web_0 says nothing": set_fault(WEB_0, EndpointFault.EMPTY),
    "the endpoint of web_0 restarts its incarnations": set_fault(WEB_0, EndpointFault.RESTART),
    "the endpoint of web_0 works again": lambda guests: guests.web.run(_clear(guests.web, WEB_0)),
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=25))
def test_whatever_happens_both_paths_give_the_same_answers(steps: list[str]) -> None:
    check_both_paths(steps)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=25))
def test_in_many_histories_both_paths_give_the_same_answers(steps: list[str]) -> None:
    check_both_paths(steps)


def check_both_paths(steps: list[str]) -> None:
    """Check that a server with the fast path answers as one without, and knows who has read which event."""
    with serving(fast=True) as fast, serving(fast=False) as slow:
        for step in steps:
            assert STEPS[step](fast) == STEPS[step](slow)
            assert first_reads(fast) == first_reads(slow)


def first_reads(guests: Guests) -> Mapping[EventId, Mapping[VmName, datetime]]:
    engine = guests.web.engine
    return {event.id: engine.first_reads(event) for event in engine.scope(WEB).events.values()}


def test_a_poll_that_was_answered_before_is_answered_without_asking_the_app() -> None:
    with serving() as guests:
        asked: list[MachineRef | None] = []
        answer = guests.server.answer

        def note(machine: MachineRef | None, request: Request) -> Reply:
            asked.append(machine)
            return answer(machine, request)

        guests.server.answer = note
        answers = [guests.send(WEB_0, PLAIN) for _ in range(5)]

    assert asked == [WEB_0]
    assert statuses(answers) == [200] * 5


@pytest.mark.rule("R-22")
def test_polls_on_the_fast_path_keep_events_enabled() -> None:
    with serving() as guests:
        for _ in range(30):
            guests.send(WEB_0, PLAIN)
            guests.web.advance(hours=1)

        assert guests.web.engine.scope(WEB).enabled
        guests.web.advance(hours=24)
        assert not guests.web.engine.scope(WEB).enabled


@pytest.mark.rule("R-10")
def test_a_machine_has_one_allowance_on_both_paths() -> None:
    profile = replace(UNHURRIED, requests_per_second=1e-9, burst=4.0)
    with serving(profile=profile) as guests:
        other = head(target="/metadata/versions?api-version=2021-02-01")

        answers = [guests.send(WEB_0, data) for data in (PLAIN, PLAIN, other, PLAIN, PLAIN, other)]

        assert statuses(answers) == [200, 200, 200, 200, 429, 429]
        assert statuses([guests.send(WEB_1, PLAIN)]) == [200]


@pytest.mark.rule("R-26")
def test_a_poll_that_is_admitted_costs_no_steps_and_one_too_many_does() -> None:
    profile = replace(UNHURRIED, requests_per_second=1e-9, burst=50.0)
    with cloud(profile=profile) as web:
        guests = Guests(web, fast=True, steps=Rate(1e-9, 5.0))

        answers = [guests.send(WEB_0, PLAIN) for _ in range(52)]
        transport, connection = guests.connect(WEB_0)

        async def ask_again() -> None:
            connection.received(PLAIN * 9, guests.clock.moment())

        web.run(ask_again())

    # One step for each connection, one for the first poll, and two for those that came too soon.
    assert statuses(answers) == [200] * 50 + [429] * 2
    assert transport.written == []


@pytest.mark.rule("R-03")
def test_a_machine_that_is_gone_is_told_so_on_a_connection_it_still_has() -> None:
    with serving() as guests:
        before = [guests.send(WEB_1, PLAIN) for _ in range(2)]
        guests.web.handle(Schedule(id=E1, cause="delete", machines=(WEB_1,), force=True))
        guests.web.advance(minutes=30)

        after = [guests.send(WEB_1, PLAIN) for _ in range(2)]

    assert statuses(before) == [200, 200]
    assert statuses(after) == [403, 403]


@pytest.mark.rule("S-03")
def test_where_machines_see_their_own_events_alone_nobody_is_shown_those_of_another() -> None:
    with serving(Blueprint(name="web", count=2, broadcast=False)) as guests:
        guests.web.cause("restart", "web_0")

        seen = [guests.send(machine, PLAIN)[0][0] for machine in (WEB_0, WEB_1) * 3]

    assert [E1.encode() in raw for raw in seen] == [True, False] * 3


@pytest.mark.rule("R-25")
def test_no_machine_is_shown_a_document_before_events_are_enabled() -> None:
    profile = replace(UNHURRIED, first_call=FirstCall.EMPTY_BODY, first_call_delay=timedelta(hours=1))
    with cloud(profile=profile, polled=False) as web:
        guests = Guests(web, fast=True)

        seen = [guests.send(machine, PLAIN)[0][0] for machine in (WEB_0, WEB_1) * 3]

    assert all(raw.endswith(b"Content-Length: 0\r\n\r\n") for raw in seen)


def test_after_a_request_timeout_nothing_more_is_processed() -> None:
    with serving() as guests:
        asked: list[Request] = []

        def note(machine: MachineRef | None, request: Request) -> Reply:
            asked.append(request)
            return Response(200)

        guests.server.answer = note
        transport, connection = guests.connect(WEB_0)
        late = guests.clock.moment()
        connection.received(PLAIN[:-2], late)
        connection.expire(late._replace(time=late.time + 60))
        connection.received(PLAIN[-2:] + PLAIN, late)

    assert [raw[9:12] for raw in transport.written] == [b"408"]
    assert asked == []
