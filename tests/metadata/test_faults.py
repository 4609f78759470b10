"""Endpoint faults, and what a guest sees of each."""

import asyncio
import json
from collections.abc import Callable, Iterator
from math import inf

import pytest

from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import Request, Response
from fairwarning.http1.server import HttpServer
from tests.guest import E1, EVENTS, METADATA, NEWEST, Cloud, cloud, start

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
E2 = EventId("C7061BAC-AFDC-4513-B24B-AA5F13A16123")


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


@pytest.fixture
def pass_time(web: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give a function that moves the clock of the loop, which faults use."""
    loop = web.runner.get_loop()
    passed = [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + sum(passed))
    return passed.append


@pytest.mark.parametrize(
    ("endpoint_fault", "status"),
    [
        (EndpointFault.TOO_MANY, 429),
        (EndpointFault.GONE, 410),
        (EndpointFault.BROKEN, 500),
        (EndpointFault.EMPTY, 200),
    ],
)
def test_a_machine_that_is_to_be_refused_is_refused_and_no_other(
    web: Cloud, endpoint_fault: EndpointFault, status: int
) -> None:
    web.engine.faults.put(WEB_0, ActiveFault(endpoint_fault, inf))

    ill, well = web.get("web_0"), web.get("web_1")

    assert ill.status == status
    assert well.body.startswith(b'{"DocumentIncarnation"')
    assert endpoint_fault is not EndpointFault.EMPTY or ill.body == b""


@pytest.mark.rule("C-15")
def test_an_endpoint_may_call_its_documents_plain_text(web: Cloud) -> None:
    well = web.get("web_0")
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.PLAIN_TEXT, inf))

    ill = web.get("web_0")

    assert (ill.status, ill.body, ill.content_type) == (200, well.body, "text/plain; charset=utf-8")


@pytest.mark.rule("C-16")
def test_an_endpoint_may_leave_events_out_of_its_documents(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.NO_EVENTS, inf))

    ill = web.get("web_0")

    assert (ill.status, ill.body, ill.headers) == (200, b'{"DocumentIncarnation":2}', ())


@pytest.mark.rule("C-17")
def test_an_endpoint_may_send_half_of_its_documents(web: Cloud) -> None:
    well = web.get("web_0")
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.PARTIAL, inf))

    ill = web.get("web_0")

    assert well.body.startswith(ill.body)
    assert 0 < len(ill.body) < len(well.body) == len(ill.body) + ill.missing


@pytest.mark.parametrize(
    "endpoint_fault", [EndpointFault.PLAIN_TEXT, EndpointFault.NO_EVENTS, EndpointFault.PARTIAL]
)
def test_a_distorted_document_is_shown_to_a_guest_that_has_the_real_one(
    web: Cloud, endpoint_fault: EndpointFault
) -> None:
    (tag,) = (value for name, value in web.get("web_0").headers if name == "ETag")
    web.engine.faults.put(WEB_0, ActiveFault(endpoint_fault, inf))
    request = Request("GET", EVENTS, NEWEST, {**METADATA, "if-none-match": (tag,)}, b"", True)

    ill = web.ask("web_0", request)

    assert (ill.status, web.post(start(web.cause("restart", "web_0"))).status) == (200, 200)


def test_an_endpoint_that_answers_polls_with_nothing_still_takes_approvals(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.EMPTY, inf))

    assert web.post(start(E1)).status == 200
    assert web.events("web_1")[0]["EventStatus"] == "Started"


def test_a_fault_that_has_run_its_time_is_over(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.BROKEN, until=0.0))

    assert web.get().status == 200


def test_a_fault_can_be_healed(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.BROKEN, inf))

    web.engine.faults.drop(WEB_0)

    assert web.get().status == 200


def test_a_slow_endpoint_answers_in_the_end(web: Cloud) -> None:
    web.engine.faults.put(WEB_0, ActiveFault(EndpointFault.SLOW, inf, delay=0.05))
    before = web.run(_time())

    reply = web.get()

    assert reply.status == 200
    assert web.run(_time()) - before >= 0.05


def test_a_late_endpoint_shows_a_change_only_after_its_delay(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    fault(web, EndpointFault.LATE, delay=100.0)
    web.cause("restart", "web_0")

    at_once = number(web), len(web.events()), len(web.events("web_1"))
    pass_time(99.0)
    early = number(web), len(web.events())
    pass_time(1.0)
    late = number(web), len(web.events())

    assert (at_once, early, late) == ((1, 0, 1), (1, 0), (2, 1))


def test_a_late_endpoint_shows_every_document_in_its_turn(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    fault(web, EndpointFault.LATE, delay=100.0)
    web.cause("restart", "web_0")
    pass_time(60.0)
    web.post(start(E1), "web_1")
    pass_time(40.0)

    first = web.events()[0]["EventStatus"]
    pass_time(60.0)
    second = web.events()[0]["EventStatus"]

    assert (first, second) == ("Scheduled", "Started")


def test_an_endpoint_that_was_restarted_counts_its_documents_from_one_again(web: Cloud) -> None:
    web.cause("restart", "web_0")
    before = web.events()

    fault(web, EndpointFault.RESTART)
    restarted, same = number(web), web.events()
    web.cause("restart", "web_1", id=E2)

    assert (restarted, same) == (1, before)
    assert (number(web), len(web.events())) == (2, 2)
    assert number(web, "web_1") == 3


@pytest.mark.parametrize("endpoint_fault", [EndpointFault.LATE, EndpointFault.RESTART])
def test_what_is_shown_is_the_truth_again_once_the_fault_is_over(
    web: Cloud, endpoint_fault: EndpointFault, pass_time: Callable[[float], None]
) -> None:
    web.cause("restart", "web_0")
    fault(web, endpoint_fault, lasts=30.0, delay=100.0)
    web.cause("restart", "web_1", id=E2)
    during = web.get().body

    pass_time(30.0)

    assert during != web.get("web_1").body
    assert web.get().body == web.get("web_1").body


@pytest.mark.parametrize("endpoint_fault", [EndpointFault.LATE, EndpointFault.RESTART])
def test_a_machine_that_is_shown_something_else_can_approve_all_the_same(
    web: Cloud, endpoint_fault: EndpointFault
) -> None:
    web.cause("restart", "web_0")
    fault(web, endpoint_fault, delay=100.0)

    reply = web.post(start(E1))

    assert reply.status == 200
    assert web.events("web_1")[0]["EventStatus"] == "Started"


@pytest.mark.parametrize("endpoint_fault", [EndpointFault.LATE, EndpointFault.RESTART])
def test_the_etag_is_that_of_the_document_that_is_shown(web: Cloud, endpoint_fault: EndpointFault) -> None:
    web.cause("restart", "web_0")
    fault(web, endpoint_fault, delay=100.0)
    web.cause("restart", "web_1", id=E2)

    shown = web.get()
    again = web.get(headers=has(web.get()))
    truth = web.get(headers=has(web.get("web_1")))

    assert shown.headers == (("ETag", f'"{number(web)}"'),)
    assert (again.status, truth.status) == (304, 200)


def test_who_waits_at_a_late_endpoint_is_answered_when_the_change_is_shown(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    fault(web, EndpointFault.LATE, delay=100.0)
    waiting = wait_for_change(web)
    web.cause("restart", "web_0")

    held = not waiting.done()
    pass_time(100.0)
    answer = web.run(asyncio.wait_for(waiting, 10))

    assert held
    assert answer.status == 200
    assert json.loads(answer.body)["DocumentIncarnation"] == 2


def test_who_waits_is_answered_when_the_endpoint_is_restarted_and_when_that_is_over(web: Cloud) -> None:
    web.cause("restart", "web_0")

    waiting = wait_for_change(web)
    fault(web, EndpointFault.RESTART)
    restarted = web.run(asyncio.wait_for(waiting, 10))
    waiting = wait_for_change(web)
    web.engine.faults.drop(WEB_0)
    cleared = web.run(asyncio.wait_for(waiting, 10))

    assert (restarted.headers, cleared.headers) == ((("ETag", '"1"'),), (("ETag", '"2"'),))


def test_who_waits_is_answered_when_a_fault_has_run_its_time(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    web.cause("restart", "web_0")
    fault(web, EndpointFault.RESTART, lasts=100.0)
    waiting = wait_for_change(web)

    pass_time(100.0)
    answer = web.run(asyncio.wait_for(waiting, 10))

    assert answer.headers == (("ETag", '"2"'),)


def test_a_late_machine_that_is_gone_is_forgotten(web: Cloud) -> None:
    fault(web, EndpointFault.LATE, delay=100.0)

    web.app.forget(WEB_0)
    web.cause("restart", "web_0")

    assert len(web.events()) == 1


@pytest.mark.parametrize("portable", [False, True])
def test_a_connection_that_is_kept_shows_a_fault_as_it_comes_and_goes(web: Cloud, portable: bool) -> None:
    poll = f"GET {EVENTS}?{NEWEST} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n".encode()

    async def story() -> list[bytes]:
        server = HttpServer[MachineRef](web.app.answer, web.clock.now, fast_path=web.app, portable=portable)
        listener = await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)
        reader, writer = await asyncio.open_connection(*listener.address)
        seen = []
        for fault in (
            None,
            None,
            ActiveFault(EndpointFault.RESTART, inf),
            None,
            ActiveFault(EndpointFault.GONE, inf),
            None,
        ):
            web.engine.faults.drop(WEB_0) if fault is None else web.engine.faults.put(WEB_0, fault)
            writer.write(poll)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            seen.append((await reader.readexactly(length))[:24])
        writer.close()
        await server.close()
        return seen

    web.cause("restart", "web_0")
    truth, restarted = b'{"DocumentIncarnation":2', b'{"DocumentIncarnation":1'

    assert web.run(story()) == [truth, truth, restarted, truth, b'{"error":"Gone. The serv', truth]


@pytest.mark.parametrize("endpoint_fault", [EndpointFault.RESET, EndpointFault.TIMEOUT])
def test_a_connection_is_cut_without_a_word(web: Cloud, endpoint_fault: EndpointFault) -> None:
    async def story() -> bytes:
        server = HttpServer[MachineRef](web.app.answer, web.clock.now)
        listener = await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)
        until = asyncio.get_running_loop().time() + 0.05
        web.engine.faults.put(
            WEB_0, ActiveFault(endpoint_fault, until if endpoint_fault is EndpointFault.TIMEOUT else inf)
        )
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b"GET /metadata/versions HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()
            await server.close()

    with pytest.raises(ConnectionResetError):
        web.run(story())


def fault(web: Cloud, endpoint_fault: EndpointFault, lasts: float = inf, delay: float = 0.0) -> None:
    async def put() -> None:
        now = asyncio.get_running_loop().time()
        web.engine.faults.put(WEB_0, ActiveFault(endpoint_fault, now + lasts, delay))

    web.run(put())


def number(web: Cloud, machine: str = "web_0") -> int:
    found: int = json.loads(web.get(machine).body)["DocumentIncarnation"]
    return found


def has(response: Response) -> dict[str, tuple[str, ...]]:
    (_, tag), *_ = response.headers
    return {**METADATA, "if-none-match": (tag,)}


def wait_for_change(web: Cloud) -> asyncio.Task[Response]:
    """Start a long poll of a guest that has the current document, and return once it is held."""
    request = Request("GET", EVENTS, f"{NEWEST}&wait=300", has(web.get()), b"", True)

    async def begin() -> asyncio.Task[Response]:
        reply = web.app.answer(WEB_0, request)
        assert not isinstance(reply, Response)
        waiting = asyncio.ensure_future(reply)
        await asyncio.sleep(0)
        return waiting

    return web.run(begin())


async def _time() -> float:
    return asyncio.get_running_loop().time()
