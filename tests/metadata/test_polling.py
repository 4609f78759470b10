"""First polls, repeated polls, long polls and approvals."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import ScopePropertiesChanged
from fairwarning.core.commands import Schedule
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.core.policy import FirstCall
from fairwarning.engine.ports import Batch, Entry
from fairwarning.engine.time_control import advance_to
from fairwarning.http1.messages import Request, Response
from fairwarning.store.errors import StoreFailedError
from fairwarning.store.memory import MemoryStore
from tests.guest import E1, EVENTS, METADATA, NEWEST, UNHURRIED, Cloud, cloud, error_of, start

TWO = EventId("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        pytest.param('"1"', 304, id="the tag as it was sent"),
        pytest.param("1", 304, id="without its quotes"),
        pytest.param('W/"1"', 304, id="marked as weak"),
        pytest.param('"0", "1"', 304, id="in a list"),
        pytest.param("*", 304, id="anything at all"),
        pytest.param("0", 200, id="the number a client starts with"),
        pytest.param('"2"', 200, id="another number"),
    ],
)
def test_a_guest_that_has_the_document_is_not_sent_it_again(web: Cloud, tag: str, status: int) -> None:
    reply = web.get(headers={**METADATA, "if-none-match": (tag,)})

    assert reply.status == status
    assert (reply.body == b"") == (status == 304)


def test_a_tag_has_no_effect_on_an_approval(web: Cloud) -> None:
    web.cause("restart", "web_0")

    assert web.post(start(), headers={**METADATA, "if-none-match": ("2",)}).status == 200


@pytest.mark.rule("R-12")
@pytest.mark.rule("R-18")
def test_an_approval_is_answered_with_nothing_and_starts_the_event(web: Cloud) -> None:
    web.cause("restart", "web_0")

    reply = web.post(start(), "web_1")

    assert (reply.status, reply.body) == (200, b"")
    assert web.events()[0]["EventStatus"] == "Started"


@pytest.mark.rule("R-12")
def test_an_approval_returns_the_document_where_that_is_asked_for() -> None:
    with cloud(profile=replace(UNHURRIED, post_returns_document=True)) as web:
        web.cause("restart", "web_0")

        assert b'"Started"' in web.post(start()).body


@pytest.mark.rule("R-12")
def test_several_events_are_started_by_one_request(web: Cloud) -> None:
    web.cause("restart", "web_0")
    web.cause("restart", "web_1", id=TWO)

    reply = web.post({"StartRequests": [{"EventId": E1}, {"EventId": TWO}]})

    assert reply.status == 200
    assert [event["EventStatus"] for event in web.events()] == ["Started", "Started"]


@pytest.mark.rule("R-13")
@pytest.mark.rule("R-14")
@pytest.mark.rule("R-20")
@pytest.mark.rule("V-09")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(
            f'{{"DocumentIncarnation":"5", "StartRequests": [{{"EventId": "{E1}"}}]}}'.encode(),
            "application/x-www-form-urlencoded",
            id="curl -d with an incarnation as text",
        ),
        pytest.param(
            f'{{\r\n    "StartRequests":  [\r\n        {{\r\n            "EventId":  "{E1}"\r\n'
            f'        }}\r\n    ],\r\n    "DocumentIncarnation":  2\r\n}}'.encode(),
            "application/x-www-form-urlencoded",
            id="PowerShell's Invoke-RestMethod with ConvertTo-Json",
        ),
        pytest.param(
            b"\xef\xbb\xbf" + json.dumps(start()).encode(),
            "application/json; charset=utf-8",
            id="a byte order mark",
        ),
        pytest.param(json.dumps(start()).encode(), "text/plain; charset=iso-8859-1", id="another charset"),
        pytest.param(json.dumps(start()).encode(), None, id="no content type at all"),
        pytest.param(json.dumps(start(E1.lower())).encode(), None, id="an id in lower case"),
        pytest.param(
            json.dumps({"StartRequests": [{"EventId": E1, "Why": "now"}], "More": [1]}).encode(),
            None,
            id="unknown members",
        ),
        pytest.param(
            json.dumps({"DocumentIncarnation": 99, "StartRequests": [{"EventId": E1}] * 2}).encode(),
            None,
            id="a stale incarnation and the same event twice",
        ),
    ],
)
def test_an_approval_is_read_as_json_whatever_it_is_called(
    web: Cloud, body: bytes, content_type: str | None
) -> None:
    web.cause("restart", "web_0")
    headers = dict(METADATA) if content_type is None else {**METADATA, "content-type": (content_type,)}

    assert web.post(body, headers=headers).status == 200
    assert web.events()[0]["EventStatus"] == "Started"


@pytest.mark.rule("R-15")
@pytest.mark.rule("R-20")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"StartRequests=1", id="a form"),
        pytest.param(b"[" * 60_000, id="brackets without end"),
        pytest.param(b'{"StartRequests": 1e999999}', id="a number beyond reason"),
        pytest.param(b"\xff\xfe{}", id="another encoding"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no StartRequests"),
        pytest.param(b'{"startrequests":[{"EventId":"x"}]}', id="the wrong case"),
        pytest.param(b'{"StartRequests":{}}', id="StartRequests that are no list"),
        pytest.param(b'{"StartRequests":[]}', id="an empty list"),
        pytest.param(b'{"StartRequests":["x"]}', id="an entry that is no object"),
        pytest.param(b'{"StartRequests":[{}]}', id="an entry without an id"),
        pytest.param(b'{"StartRequests":[{"EventId":7}]}', id="an id that is no text"),
        pytest.param(b'{"StartRequests":[{"EventId":""}]}', id="an id that is empty"),
    ],
)
def test_a_malformed_approval_is_refused_in_words(web: Cloud, body: bytes) -> None:
    web.cause("restart", "web_0")

    reply = web.post(body)

    assert reply.status == 400
    assert error_of(reply).startswith("Bad request. ")
    assert web.events()[0]["EventStatus"] == "Scheduled"


@pytest.mark.rule("R-16")
def test_one_bad_id_and_nothing_is_approved(web: Cloud) -> None:
    web.cause("restart", "web_0")

    reply = web.post({"StartRequests": [{"EventId": E1}, {"EventId": TWO}]})

    assert reply.status == 400
    assert TWO in error_of(reply)
    assert web.events()[0]["EventStatus"] == "Scheduled"


@pytest.mark.rule("R-16")
@pytest.mark.rule("R-17")
def test_approving_again_is_fine_until_the_event_is_gone(web: Cloud) -> None:
    web.cause("restart", "web_0")

    started = [web.post(start()).status for _ in range(3)]
    web.advance(minutes=1)

    assert started == [200, 200, 200]
    assert web.post(start()).status == 400


@pytest.mark.rule("R-21")
@pytest.mark.rule("R-23")
def test_the_first_poll_of_anybody_switches_events_on_for_the_scope() -> None:
    with cloud(polled=False) as web:
        web.cause("restart", "web_0")
        unseen = web.events()
        web.advance(minutes=1)

        web.cause("restart", "web_1", id=TWO)

        assert unseen == []
        assert [event["EventId"] for event in web.events("web_2")] == [TWO]


@pytest.mark.rule("R-22")
def test_a_day_without_polls_switches_events_off() -> None:
    with cloud(polled=False) as web:
        web.get()
        web.advance(seconds=30)
        web.get("web_1")

        web.advance(hours=23, minutes=59, seconds=59)
        still = web.engine.scope(ScopeId("web")).enabled
        web.advance(seconds=1)

        assert still
        assert not web.engine.scope(ScopeId("web")).enabled


@pytest.mark.rule("R-21")
@pytest.mark.rule("R-25")
def test_the_first_call_can_be_made_to_take_its_time() -> None:
    profile = replace(UNHURRIED, first_call=FirstCall.DELAY, first_call_delay=timedelta(milliseconds=50))
    with cloud(profile=profile, polled=False) as web:
        began = web.run(_time())
        first = web.get()
        after_first = web.run(_time())

    assert first.status == 200
    assert json.loads(first.body)["Events"] == []
    assert after_first - began >= 0.05


@pytest.mark.rule("R-25")
def test_the_first_call_can_be_made_to_find_an_empty_body() -> None:
    profile = replace(UNHURRIED, first_call=FirstCall.EMPTY_BODY, first_call_delay=timedelta(hours=1))
    with cloud(profile=profile, polled=False) as web:
        replies = [web.get(), web.get("web_1")]

    assert [(reply.status, reply.body) for reply in replies] == [(200, b""), (200, b"")]


async def _time() -> float:
    return asyncio.get_running_loop().time()


def waiting(web: Cloud, seconds: str, tag: str = '"1"') -> Request:
    headers = {**METADATA, "if-none-match": (tag,)}
    return Request("GET", EVENTS, f"{NEWEST}&wait={seconds}", headers, b"", True)


def test_a_guest_that_waits_is_answered_when_the_document_changes(web: Cloud) -> None:
    ref = MachineRef(ScopeId("web"), VmName("web_1"))

    async def story() -> Response:
        reply = web.app.answer(ref, waiting(web, "60"))
        assert not isinstance(reply, Response)
        held = asyncio.ensure_future(reply)
        await asyncio.sleep(0)
        assert not held.done()
        await web.engine.handle(_restart())
        return await held

    reply = web.run(story())

    assert reply.status == 200
    assert json.loads(reply.body)["DocumentIncarnation"] == 2


def _restart() -> Schedule:
    return Schedule(id=E1, cause="restart", machines=(MachineRef(ScopeId("web"), VmName("web_0")),))


@pytest.mark.parametrize(
    ("seconds", "tag", "status"),
    [
        pytest.param("0.01", '"1"', 304, id="nothing changed in that time"),
        pytest.param("60", '"0"', 200, id="the guest has another document, so nothing holds the answer"),
        pytest.param("soon", '"1"', 400, id="not a number"),
        pytest.param("-1", '"1"', 400, id="less than nothing"),
        pytest.param("nan", '"1"', 400, id="not a number by name"),
        pytest.param("inf", '"1"', 400, id="for ever"),
    ],
)
def test_a_wait_ends(web: Cloud, seconds: str, tag: str, status: int) -> None:
    assert web.ask("web_0", waiting(web, seconds, tag)).status == status


def test_a_wait_without_a_tag_is_a_plain_poll(web: Cloud) -> None:
    assert web.get(query=f"{NEWEST}&wait=60").status == 200


@pytest.mark.rule("R-19")
def test_an_approval_held_by_a_barrier_changes_nothing_a_guest_can_see() -> None:
    profile_minutes = timedelta(minutes=5)
    with cloud(Blueprint(name="web", count=3, terminate_notice=profile_minutes)) as fleet:
        fleet.cause("delete", "web_1")
        fleet.cause("delete", "web_2", id=TWO)
        before = json.loads(fleet.get().body)

        assert fleet.post(start(TWO), "web_2").status == 200
        assert json.loads(fleet.get().body) == before
        fleet.run(advance_to(fleet.engine, fleet.clock, fleet.clock.now() + profile_minutes))
        assert [event["EventStatus"] for event in fleet.events()] == ["Started", "Started"]


@pytest.mark.rule("R-25")
def test_an_approval_takes_as_long_to_switch_on_as_a_poll() -> None:
    profile = replace(UNHURRIED, first_call=FirstCall.DELAY, first_call_delay=timedelta(milliseconds=50))
    with cloud(profile=profile, polled=False) as web:
        began = web.run(_time())
        web.post(start())

        assert web.run(_time()) - began >= 0.05


def test_a_guest_that_repeats_itself_is_told_every_time_and_the_history_once_a_minute(web: Cloud) -> None:
    statuses = [web.post(start(TWO)).status for _ in range(3)]
    lines = web.run(web.engine.store.journal())

    assert statuses == [400, 400, 400]
    assert len([entry for entry in lines if isinstance(entry.change, CommandRefused)]) == 1


@pytest.mark.parametrize(
    "event_id", ["x" * 65, "\x1b[2J", "a\nb", "\u00e9"], ids=["too long", "an escape", "a line", "not ASCII"]
)
def test_an_id_that_nobody_should_have_to_read_is_not_written_down(web: Cloud, event_id: str) -> None:
    reply = web.post(start(event_id))

    assert reply.status == 400
    assert not [e for e in web.run(web.engine.store.journal()) if isinstance(e.change, CommandRefused)]


def test_a_guest_is_not_told_what_ails_the_server() -> None:
    class Full(MemoryStore):
        async def commit(self, batch: Batch) -> Sequence[Entry]:
            if any(isinstance(line, ScopePropertiesChanged) for part in batch.parts for line in part.lines):
                raise StoreFailedError(Path("/var/lib/secret.db"), "disk full")
            return await super().commit(batch)

    with cloud(polled=False, store=Full()) as web:
        reply = web.get()

    assert (reply.status, error_of(reply)) == (503, "Service unavailable")
    assert ("Retry-After", "5") in reply.headers
