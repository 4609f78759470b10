"""A poll that is answered at once is answered as it would have been the long way."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef, ScopeId, VmName, derive_id
from fairwarning.core.policy import FirstCall, Profile
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.connection import Connection
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.request_clock import RequestClock
from fairwarning.http1.server_state import ListenerConnections, ServerState
from fairwarning.http1.throttle import Rate
from tests.guest import E1, UNHURRIED, Cloud, cloud
from tests.http1.wire import FREE

WEB = ScopeId("web")
WEB_0, WEB_1 = (MachineRef(WEB, VmName(f"web_{number}")) for number in range(2))
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def head(*lines: str, target: str = EVENTS, version: str = "1.1") -> bytes:
    metadata = ["Host: h", "Metadata: true"]
    return "\r\n".join([f"GET {target} HTTP/{version}", *metadata, *lines, "", ""]).encode()


PLAIN = head()


class Tape:
    """A line that keeps what is written."""

    writable = True

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def listen(self, wanted: bool) -> None:
        """Nothing is read here."""

    def end(self) -> None:
        self.closed = True

    close = abort = reset = end


class Talk:
    """Guests of a fleet that are answered over tapes."""

    def __init__(self, web: Cloud, *, quickly: bool, steps: Rate = FREE) -> None:
        self.web = web
        self.almanac = RequestClock(web.runner.get_loop().time, web.clock.now)
        shortcuts = web.app if quickly else None
        reception = ServerState[MachineRef](web.app.answer, self.almanac, Limits(steps=steps), shortcuts)
        self.reception = reception
        self._guests = ListenerConnections(reception)
        self._open: dict[MachineRef, tuple[Tape, Connection[MachineRef]]] = {}

    def send(self, machine: MachineRef, data: bytes) -> tuple[list[bytes], bool]:
        """Return what is answered, and whether the connection is closed then."""
        return self.web.run(self._send(machine, data))

    async def _send(self, machine: MachineRef, data: bytes) -> tuple[list[bytes], bool]:
        tape, conversation = self._open.get(machine) or self.connect(machine)
        before = len(tape.written)
        conversation.received(data, self.almanac.moment())
        while len(tape.written) == before and not tape.closed:
            await asyncio.sleep(0)
        if tape.closed:
            del self._open[machine]
        return tape.written[before:], tape.closed

    def connect(self, machine: MachineRef) -> tuple[Tape, Connection[MachineRef]]:
        tape = Tape()
        conversation = Connection(self._guests, machine, self.reception.account(machine, ""))
        conversation.begin(tape, self.almanac.moment())
        self._open[machine] = tape, conversation
        return tape, conversation


@contextmanager
def talk(*blueprints: Blueprint, profile: Profile = UNHURRIED, quickly: bool = True) -> Iterator[Talk]:
    with cloud(*blueprints, profile=profile) as web:
        yield Talk(web, quickly=quickly)


def statuses(answers: Iterable[tuple[list[bytes], bool]]) -> list[int]:
    return [int(raw[9:12]) for written, _ in answers for raw in written]


HEADS = {
    "a plain poll": PLAIN,
    "a poll by somebody who has the first document": head('If-None-Match: "1"'),
    "a poll by somebody who has some documents": head('If-None-Match: W/"2", 3'),
    "a poll by somebody who has any document": head("If-None-Match: *"),
    "an older version": head(target="/metadata/scheduledevents?api-version=2017-11-01"),
    "a version nobody serves": head(target="/metadata/scheduledevents?api-version=2020-07-02"),
    "a path in another case": head(target="/Metadata/ScheduledEvents/?api-version=2020-07-01"),
    "a poll through a proxy": head("X-Forwarded-For: 10.0.0.1"),
    "a last poll": head("Connection: close"),
    "a poll of HTTP/1.0": head("Connection: keep-alive", version="1.0"),
    "two polls": PLAIN + PLAIN,
    "another category": head(target="/metadata/instance/compute/name?api-version=2021-02-01&format=text"),
    "an approval": b"POST %b HTTP/1.1\r\nHost: h\r\nMetadata: true\r\nContent-Length: 2\r\n\r\n{}"
    % EVENTS.encode(),
}


def asks(machine: MachineRef, data: bytes) -> Callable[[Talk], object]:
    return lambda talk: talk.send(machine, data)


def ails(machine: MachineRef, ailment: EndpointFault) -> Callable[[Talk], object]:
    return lambda talk: talk.web.run(_put(talk.web, machine, ailment))


async def _put(web: Cloud, machine: MachineRef, ailment: EndpointFault) -> None:
    web.engine.faults.put(machine, ActiveFault(ailment, inf))


async def _heal(web: Cloud, machine: MachineRef) -> None:
    web.engine.faults.drop(machine)


def happens(cause: str, machine: MachineRef) -> Callable[[Talk], object]:
    def happen(talk: Talk) -> None:
        number = talk.web.engine.scopes()[WEB].version
        event = derive_id(cause, str(number))
        with suppress(FairWarningError):
            talk.web.handle(Schedule(id=event, cause=cause, machines=(machine,)))

    return happen


STEPS: Mapping[str, Callable[[Talk], object]] = {
    **{f"{name} by web_0": asks(WEB_0, data) for name, data in HEADS.items()},
    **{f"{name} by web_1": asks(WEB_1, data) for name, data in HEADS.items()},
    "web_0 is restarted": happens("restart", WEB_0),
    "web_1 is frozen": happens("freeze", WEB_1),
    "web_1 is deleted": happens("delete", WEB_1),
    "a minute passes": lambda talk: talk.web.advance(minutes=1),
    "two hours pass": lambda talk: talk.web.advance(hours=2),
    "two days pass": lambda talk: talk.web.advance(days=2),
    "the endpoint of web_0 breaks": ails(WEB_0, EndpointFault.BROKEN),
    "the endpoint of web_0 says nothing": ails(WEB_0, EndpointFault.EMPTY),
    "the endpoint of web_0 counts anew": ails(WEB_0, EndpointFault.RESTART),
    "the endpoint of web_0 is healed": lambda talk: talk.web.run(_heal(talk.web, WEB_0)),
}


@settings(max_examples=150)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=25))
def test_whatever_happens_both_ways_lead_to_the_same_answers(steps: list[str]) -> None:
    with talk(quickly=True) as quick, talk(quickly=False) as slow:
        for step in steps:
            assert STEPS[step](quick) == STEPS[step](slow)


def test_a_poll_that_was_answered_before_is_answered_without_asking_the_app() -> None:
    with talk() as guests:
        asked: list[MachineRef | None] = []
        answer = guests.reception.answer

        def note(machine: MachineRef | None, request: Request) -> Reply:
            asked.append(machine)
            return answer(machine, request)

        guests.reception.answer = note
        answers = [guests.send(WEB_0, PLAIN) for _ in range(5)]

    assert asked == [WEB_0]
    assert statuses(answers) == [200] * 5


@pytest.mark.rule("R-22")
def test_polls_that_are_answered_at_once_keep_events_switched_on() -> None:
    with talk() as guests:
        for _ in range(30):
            guests.send(WEB_0, PLAIN)
            guests.web.advance(hours=1)

        assert guests.web.engine.scope(WEB).enabled
        guests.web.advance(hours=24)
        assert not guests.web.engine.scope(WEB).enabled


@pytest.mark.rule("R-10")
def test_a_machine_has_one_allowance_whichever_way_it_is_answered() -> None:
    profile = replace(UNHURRIED, requests_per_second=1e-9, burst=4.0)
    with talk(profile=profile) as guests:
        other = head(target="/metadata/versions?api-version=2021-02-01")

        answers = [guests.send(WEB_0, data) for data in (PLAIN, PLAIN, other, PLAIN, PLAIN, other)]

        assert statuses(answers) == [200, 200, 200, 200, 429, 429]
        assert statuses([guests.send(WEB_1, PLAIN)]) == [200]


@pytest.mark.rule("R-26")
def test_a_poll_that_is_admitted_costs_no_steps_and_one_too_many_does() -> None:
    profile = replace(UNHURRIED, requests_per_second=1e-9, burst=50.0)
    with cloud(profile=profile) as web:
        guests = Talk(web, quickly=True, steps=Rate(1e-9, 5.0))

        answers = [guests.send(WEB_0, PLAIN) for _ in range(52)]
        tape, conversation = guests.connect(WEB_0)

        async def ask_again() -> None:
            conversation.received(PLAIN * 9, guests.almanac.moment())

        web.run(ask_again())

    # One step for each connection, one for the first poll, and two for those that came too soon.
    assert statuses(answers) == [200] * 50 + [429] * 2
    assert tape.written == []


@pytest.mark.rule("R-03")
def test_a_machine_that_is_gone_is_told_so_on_a_connection_it_still_has() -> None:
    with talk() as guests:
        before = [guests.send(WEB_1, PLAIN) for _ in range(2)]
        guests.web.handle(Schedule(id=E1, cause="delete", machines=(WEB_1,), force=True))
        guests.web.advance(minutes=30)

        after = [guests.send(WEB_1, PLAIN) for _ in range(2)]

    assert statuses(before) == [200, 200]
    assert statuses(after) == [403, 403]


@pytest.mark.rule("S-03")
def test_where_machines_see_their_own_events_alone_nobody_is_shown_those_of_another() -> None:
    with talk(Blueprint(name="web", count=2, broadcast=False)) as guests:
        guests.web.cause("restart", "web_0")

        seen = [guests.send(machine, PLAIN)[0][0] for machine in (WEB_0, WEB_1) * 3]

    assert [E1.encode() in raw for raw in seen] == [True, False] * 3


@pytest.mark.rule("R-25")
def test_nobody_is_shown_a_document_before_events_are_switched_on() -> None:
    profile = replace(UNHURRIED, first_call=FirstCall.EMPTY_BODY, first_call_delay=timedelta(hours=1))
    with cloud(profile=profile, polled=False) as web:
        guests = Talk(web, quickly=True)

        seen = [guests.send(machine, PLAIN)[0][0] for machine in (WEB_0, WEB_1) * 3]

    assert all(raw.endswith(b"Content-Length: 0\r\n\r\n") for raw in seen)


def test_who_was_told_that_a_request_came_too_slowly_is_not_heard_any_more() -> None:
    with talk() as guests:
        asked: list[Request] = []

        def note(machine: MachineRef | None, request: Request) -> Reply:
            asked.append(request)
            return Response(200)

        guests.reception.answer = note
        tape, conversation = guests.connect(WEB_0)
        late = guests.almanac.moment()
        conversation.received(PLAIN[:-2], late)
        conversation.expire(late._replace(time=late.time + 60))
        conversation.received(PLAIN[-2:] + PLAIN, late)

    assert [raw[9:12] for raw in tape.written] == [b"408"]
    assert asked == []
