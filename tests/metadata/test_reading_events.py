"""When a machine first read an event: the first answer that has the event and goes to the machine."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.model import HostId, MachineRef, ScopeId, VmName, derive_id
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import Request, Response
from fairwarning.metadata.long_poll import LongPoll
from tests.guest import E1, EVENTS, METADATA, NEWEST, NOON, UNHURRIED, Cloud, cloud, start
from tests.metadata.test_fast_path import PLAIN, Guests, head

WEB = ScopeId("web")
WEB_0, WEB_1 = (MachineRef(WEB, VmName(f"web_{number}")) for number in range(2))
SECOND = timedelta(seconds=1)


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


def reads(web: Cloud, scope: str = "web") -> Mapping[VmName, datetime]:
    """Return the first reads of the only pending event."""
    (event,) = web.engine.scope(ScopeId(scope)).events.values()
    return web.engine.first_reads(event)


def tagged(*tags: str) -> Mapping[str, tuple[str, ...]]:
    return {**METADATA, "if-none-match": (", ".join(tags),)}


@pytest.mark.rule("R-30")
def test_the_first_answer_that_has_the_event_is_the_first_read_of_its_machine(web: Cloud) -> None:
    web.cause("restart", "web_0")
    unread = reads(web)

    for _ in range(3):
        web.advance(seconds=1)
        web.get("web_0")

    assert unread == {}
    assert reads(web) == {"web_0": NOON + SECOND}


@pytest.mark.rule("R-30")
def test_only_machines_that_the_event_lists_read_it(web: Cloud) -> None:
    web.cause("restart", "web_0")

    web.get("web_1")

    assert reads(web) == {}


@pytest.mark.rule("R-30")
def test_each_machine_of_an_event_has_a_first_read_of_its_own() -> None:
    with cloud(Blueprint(name="web", count=6, host=HostId("kvm-17"))) as web:
        web.cause("host-update", "web_0", "web_5")  # of one update domain
        web.get("web_5")
        web.advance(seconds=1)

        web.get("web_0")

        assert list(reads(web).items()) == [("web_0", NOON + SECOND), ("web_5", NOON)]


@pytest.mark.rule("R-30")
def test_a_change_of_the_event_is_no_other_first_read(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.get("web_0")
    web.advance(seconds=1)
    web.post(start())

    web.get("web_0")

    assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
def test_reading_an_event_changes_neither_its_scope_nor_its_document(web: Cloud) -> None:
    web.cause("restart", "web_0")
    scope = web.engine.scope(WEB)
    first = web.get("web_0")
    web.run(web.engine.flush_polls())

    second = web.get("web_0")

    assert web.engine.scope(WEB) is scope
    assert second == first


@pytest.mark.rule("R-30")
@pytest.mark.parametrize(
    "fault",
    [
        EndpointFault.TOO_MANY,
        EndpointFault.GONE,
        EndpointFault.BROKEN,
        EndpointFault.EMPTY,
        EndpointFault.NO_EVENTS,
        EndpointFault.PARTIAL,
        EndpointFault.RESET,
        EndpointFault.LATE,
    ],
)
def test_an_answer_of_a_broken_endpoint_that_lacks_the_event_is_no_read(
    web: Cloud, fault: EndpointFault
) -> None:
    async def put() -> None:
        web.engine.faults.put(WEB_0, ActiveFault(fault, inf, 60.0))

    web.run(put())
    web.cause("restart", "web_0")
    web.get("web_0")
    broken = reads(web)

    async def clear() -> None:
        web.engine.faults.drop(WEB_0)

    web.run(clear())
    web.get("web_0")

    assert broken == {}
    assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
@pytest.mark.parametrize("fault", [EndpointFault.PLAIN_TEXT, EndpointFault.RESTART])
def test_an_answer_of_a_broken_endpoint_that_has_the_event_is_a_read(
    web: Cloud, fault: EndpointFault
) -> None:
    async def put() -> None:
        web.engine.faults.put(WEB_0, ActiveFault(fault, inf))

    web.run(put())
    web.cause("restart", "web_0")

    web.get("web_0")

    assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
def test_a_document_in_a_version_without_the_type_of_the_event_is_no_read() -> None:
    old = head(target="/metadata/scheduledevents?api-version=2017-03-01")
    with cloud(Blueprint(name="web", count=2, spot=True)) as web:
        guests = Guests(web, fast=True)
        web.cause("evict", "web_0")
        guests.send(WEB_1, PLAIN)  # renders the newest version for every machine of the scope
        for _ in range(3):
            guests.send(WEB_0, old)
        unread, on_fast_path = reads(web), web.app.fast_path(WEB_0).rendered is not None

        guests.send(WEB_0, PLAIN)

        assert on_fast_path
        assert unread == {}
        assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
@pytest.mark.parametrize(
    ("tags", "known"),
    [
        pytest.param(('"1"',), {"web_0": NOON}, id="an older document: the answer has the new one"),
        pytest.param(('"2"',), {"web_0": NOON}, id="the document with the event: the guest has it"),
        pytest.param(("*",), {}, id="any document: the guest need not have the event"),
    ],
)
def test_a_conditional_poll_is_a_read_if_its_guest_has_the_document_afterwards(
    web: Cloud, tags: tuple[str, ...], known: Mapping[str, datetime]
) -> None:
    web.cause("restart", "web_0")

    web.get("web_0", headers=tagged(*tags))

    assert reads(web) == known


@pytest.mark.rule("R-30")
def test_a_poll_on_the_fast_path_is_never_the_first_read(web: Cloud) -> None:
    guests = Guests(web, fast=True)
    web.cause("restart", "web_0")
    guests.send(WEB_1, PLAIN)
    for _ in range(3):
        guests.send(WEB_0, head("If-None-Match: *"))
    on_slow_path = web.app.fast_path(WEB_0).rendered is None

    guests.send(WEB_0, PLAIN)

    assert on_slow_path
    assert web.app.fast_path(WEB_0).rendered is not None
    assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
def test_a_long_poll_reads_the_event_when_it_is_answered(web: Cloud) -> None:
    async def story() -> Response:
        held = web.app.answer(
            WEB_0, Request("GET", EVENTS, f"{NEWEST}&wait=60", tagged('"1"'), b"", keep_alive=True)
        )
        assert isinstance(held, LongPoll)
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        class Guest:
            def deliver(self, response: Response) -> None:
                answered.set_result(response)

        held.start(Guest())
        web.clock.set(NOON + SECOND)
        await web.engine.handle(Schedule(id=E1, cause="restart", machines=(WEB_0, WEB_1)))
        return await answered

    response = web.run(story())

    assert response.status == 200
    assert [dict(web.engine.first_reads(event)) for event in web.engine.scope(WEB).events.values()] == [
        {"web_0": NOON + SECOND},
        {},
    ]


@pytest.mark.rule("R-30")
def test_an_approval_that_is_answered_with_the_document_is_a_read() -> None:
    with cloud(profile=replace(UNHURRIED, post_returns_document=True)) as web:
        web.cause("restart", "web_0")

        web.post(start())

        assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
@pytest.mark.rule("S-03")
def test_without_broadcast_the_machines_that_see_the_event_read_it() -> None:
    with cloud(Blueprint(name="web", count=2, broadcast=False)) as web:
        web.cause("restart", "web_0")
        web.get("web_1")
        unread = reads(web)

        web.get("web_0")

        assert unread == {}
        assert reads(web) == {"web_0": NOON}


@pytest.mark.rule("R-30")
def test_each_of_several_events_is_read_when_it_is_first_shown(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.get("web_0")
    web.advance(seconds=1)
    later = web.cause("freeze", "web_0", id=derive_id("later"))

    web.get("web_0")

    events = web.engine.scope(WEB).events
    assert [dict(web.engine.first_reads(events[event_id])) for event_id in (E1, later)] == [
        {"web_0": NOON},
        {"web_0": NOON + SECOND},
    ]
