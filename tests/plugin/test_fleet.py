"""What a test can do with its fleet."""

import asyncio
import os
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.error import HTTPError

import pytest

from fairwarning.core.errors import FairWarningError
from fairwarning.testing import Event, Fleet, fleet

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def ask(endpoint: str, query: str = "", **headers: str) -> int:
    request = urllib.request.Request(endpoint + EVENTS + query, headers={"Metadata": "true", **headers})
    with urllib.request.urlopen(request, timeout=10) as answer:
        status: int = answer.status
    return status


def ask_often(endpoint: str) -> set[int]:
    return {ask(endpoint) for _ in range(50)}


def approve_soon(fairwarning: Fleet, event: Event, by: str) -> threading.Thread:
    """Approve from another thread after a poll."""

    def handler() -> None:
        ask(fairwarning.endpoint(by))
        fairwarning.approve(event, by=by)

    thread = threading.Thread(target=handler)
    thread.start()
    return thread


@pytest.fixture
def web(fairwarning: Fleet) -> Fleet:
    fairwarning.scale_set("web", 3)
    return fairwarning


def test_machines_are_named_as_on_azure(fairwarning: Fleet) -> None:
    assert fairwarning.scale_set("web", 2) == ("web_0", "web_1")
    assert fairwarning.availability_set("app", 2) == ("app-0", "app-1")
    assert fairwarning.vm("db") == "db"
    assert fairwarning.spot_vm("batch") == "batch"


def test_every_machine_has_an_endpoint_of_its_own(web: Fleet) -> None:
    endpoints = {web.endpoint(name) for name in ("web_0", "web_1", "web_2")}

    assert len(endpoints) == 3
    assert [ask(url) for url in endpoints] == [200, 200, 200]
    assert [web.requests(name) for name in ("web_0", "web_1", "web_2")] == [1, 1, 1]


def test_a_restart_is_announced_with_its_notice(web: Fleet) -> None:
    event = web.restart("web_0")

    assert (event.type, event.status, event.machines) == ("Reboot", "Scheduled", ("web_0",))
    assert event.not_before - web.now == timedelta(minutes=15)
    assert web.events() == (event,)


def test_a_document_has_the_shape_of_its_version(web: Fleet) -> None:
    event = web.restart("web_0")

    oldest, newest = web.document("web_0", api_version="2017-03-01"), web.document("web_0")

    assert "_web_0" in str(oldest)
    assert event.id in str(newest)
    assert "DurationInSeconds" in str(newest)
    assert "DurationInSeconds" not in str(oldest)


def test_a_version_that_is_not_served_is_refused(web: Fleet) -> None:
    with pytest.raises(FairWarningError, match="answered 404"):
        web.document("web_0", api_version="2031-01-01")


def test_time_stands_still_until_it_is_moved(web: Fleet) -> None:
    event, before = web.restart("web_0"), web.now

    web.advance("14m59s")
    waiting = web.event(event)
    web.advance(timedelta(seconds=1))

    assert waiting.status == "Scheduled"
    assert web.event(event).status == "Started"
    assert web.now - before == timedelta(minutes=15)


def test_an_approved_event_starts_and_is_gone_in_the_end(web: Fleet) -> None:
    event = web.restart("web_0")

    started = web.approve(event, by="web_0")
    web.advance("1m")

    assert (started.status, started.approved_by) == ("Started", "web_0")
    assert web.event(event).status == "Gone"
    assert web.events() == ()


def test_a_cancelled_event_is_gone(web: Fleet) -> None:
    event = web.cause("freeze", "web_0", "web_1")

    assert web.cancel(event).status == "Gone"


@pytest.mark.rule("T-09")
def test_a_forced_delete_of_a_machine_whose_delete_is_pending_returns_that_event() -> None:
    with fleet() as fairwarning:
        fairwarning.scale_set("db", 1, terminate_notice="5m")
        pending = fairwarning.cause("delete", "db_0")

        forced = fairwarning.cause("delete", "db_0", force=True)

        assert (pending.status, forced.status, forced.id) == ("Scheduled", "Started", pending.id)


def test_the_endpoint_of_a_deleted_machine_is_closed(web: Fleet) -> None:
    endpoint = web.endpoint("web_2")

    web.cause("delete", "web_2", force=True)
    web.advance("10m")

    with pytest.raises(OSError, match="refused"):
        ask(endpoint)
    with pytest.raises(FairWarningError, match="web_2"):
        web.endpoint("web_2")


@pytest.mark.parametrize(
    ("cause", "machines"),
    [
        pytest.param("restart", ("web_0", "web_1"), id="each restart is an event of its own"),
        pytest.param("freeze", ("web_0", "db"), id="no event spans two scopes"),
    ],
)
def test_one_call_leads_to_one_event(web: Fleet, cause: str, machines: tuple[str, ...]) -> None:
    web.vm("db")

    with pytest.raises(FairWarningError, match="an event of its own"):
        web.cause(cause, *machines)

    assert web.events() == ()


def test_an_approval_by_a_handler_in_another_thread_is_waited_for(web: Fleet) -> None:
    event = web.restart("web_0")
    handler = approve_soon(web, event, by="web_0")

    approved = web.assert_approved(event, by="web_0", within="30s")

    handler.join()
    assert approved.approved_by == "web_0"


def test_an_approval_that_does_not_come_fails_with_the_history(web: Fleet) -> None:
    event = web.restart("web_0")
    ask(web.endpoint("web_0"))

    with pytest.raises(AssertionError) as failure:
        web.assert_approved(event, by="web_0", within="0s")

    first, *lines = str(failure.value).splitlines()
    assert first == f"Reboot of web_0 ({event.id}) was not approved by web_0 within 0s; what happened:"
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "scheduled by operator",
        "to the endpoint of web_0: 1, and it read of the event",
    ]


def test_an_approval_by_another_machine_fails(web: Fleet) -> None:
    event = web.restart("web_0")
    web.approve(event, by="web_1")

    with pytest.raises(AssertionError, match="was approved by web_1, not by web_0"):
        web.assert_approved(event, by="web_0")


def test_an_event_that_started_without_approval_is_not_waited_for(web: Fleet) -> None:
    event = web.restart("web_0")
    web.advance("15m")

    with pytest.raises(AssertionError, match="is Started without an approval"):
        web.assert_approved(event, within="1h")


def test_an_unexpected_approval_fails_with_the_history(web: Fleet) -> None:
    event = web.restart("web_0")
    handler = approve_soon(web, event, by="web_1")

    with pytest.raises(AssertionError, match="was approved by web_1; what happened:") as failure:
        web.assert_not_approved(event, during="30s")

    handler.join()
    assert [line.strip() for line in str(failure.value).splitlines()[-2:]] == [
        "requests to the endpoint of web_0: 0",
        "requests to the endpoint of web_1: 1, and it read of the event",
    ]


def test_an_event_that_was_read_and_left_alone_is_not_approved(web: Fleet) -> None:
    event = web.restart("web_0")
    ask(web.endpoint("web_2"))

    assert web.assert_not_approved(event) == event


def test_an_approval_that_is_there_is_reported_without_waiting_for_a_poll(web: Fleet) -> None:
    event = web.restart("web_0")
    web.approve(event, by="web_1")
    begun = time.monotonic()

    with pytest.raises(AssertionError, match="was approved by web_1"):
        web.assert_not_approved(event, poll_within="10m")

    assert time.monotonic() - begun < 60


def test_a_poll_is_waited_for_before_an_approval_counts_as_missing(web: Fleet) -> None:
    event = web.restart("web_0")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(web.assert_not_approved, event, poll_within="30s")
        ask(web.endpoint("web_1"))

        assert waiting.result() == event


def test_a_long_poll_that_began_before_the_event_counts(web: Fleet) -> None:
    ask(web.endpoint("web_1"))
    with ThreadPoolExecutor() as pool:
        polling = pool.submit(ask, web.endpoint("web_1"), "&wait=30", **{"If-None-Match": '"1"'})
        while web.requests("web_1") < 2:
            pass
        event = web.restart("web_0")

        assert web.assert_not_approved(event) == event
        assert polling.result() == 200


def ask_before_the_event(web: Fleet) -> Event:
    ask(web.endpoint("web_0"))
    return web.restart("web_0")


def ask_as_a_stranger(web: Fleet) -> Event:
    web.vm("db")
    event = web.restart("web_0")
    ask(web.endpoint("db"))
    return event


def ask_in_the_test_itself(web: Fleet) -> Event:
    event = web.restart("web_0")
    web.document("web_0")
    return event


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(lambda web: web.restart("web_0"), id="no request"),
        pytest.param(ask_before_the_event, id="a request before the event"),
        pytest.param(ask_as_a_stranger, id="a request of a machine that cannot approve"),
        pytest.param(ask_in_the_test_itself, id="a document that the test read itself"),
    ],
)
def test_without_a_poll_no_approval_proves_nothing(web: Fleet, cause: Callable[[Fleet], Event]) -> None:
    event = cause(web)

    with pytest.raises(AssertionError) as failure:
        web.assert_not_approved(event, poll_within="0s")

    first, *_ = str(failure.value).splitlines()
    assert first == (
        f"Reboot of web_0 ({event.id}) was not approved, but nobody asked: "
        "no machine of web read of it within 0s; what happened:"
    )


def test_a_program_gets_its_endpoint_from_the_environment(web: Fleet) -> None:
    plain, proxied = web.env("web_0"), web.env("web_0", proxy=True)

    assert plain["FAIRWARNING_ENDPOINT"] == web.endpoint("web_0")
    assert plain["PATH"] == os.environ["PATH"]
    assert proxied["http_proxy"] == proxied["HTTP_PROXY"] == web.endpoint("web_0")
    assert proxied["no_proxy"] == proxied["NO_PROXY"] == ""


@pytest.mark.rule("R-21")
@pytest.mark.fairwarning(scale_set=1, polled=False)
def test_without_a_poll_no_machine_is_warned(fairwarning: Fleet) -> None:
    unwatched = fairwarning.restart("web_0")
    fairwarning.advance("1m")
    fairwarning.document("web_0")
    watched = fairwarning.restart("web_0")

    assert unwatched.status == "Started"
    assert watched.status == "Scheduled"


@pytest.mark.fairwarning(vm="db", throttled=True)
def test_a_throttled_fleet_answers_429(fairwarning: Fleet) -> None:
    with pytest.raises(HTTPError, match="429") as refused:
        ask_often(fairwarning.endpoint("db"))

    refused.value.close()


@pytest.mark.fairwarning(vm="db")
def test_a_handler_is_not_throttled_by_default(fairwarning: Fleet) -> None:
    assert ask_often(fairwarning.endpoint("db")) == {200}


def test_fleets_know_nothing_of_each_other() -> None:
    with fleet(scale_set=1) as one, fleet(scale_set=1) as other:
        one.restart("web_0")
        one.advance("1h")

        assert other.events() == ()
        assert one.endpoint("web_0") != other.endpoint("web_0")
        assert other.now < one.now


def test_a_fleet_can_be_used_while_another_loop_runs() -> None:
    async def test() -> Event:
        with fleet(scale_set=1) as fairwarning:
            event = fairwarning.restart("web_0")
            waiting = asyncio.create_task(asyncio.to_thread(fairwarning.assert_approved, event, within="30s"))
            fairwarning.approve(event, by="web_0")
            return await waiting

    assert asyncio.run(test()).approved_by == "web_0"


def test_the_end_of_a_fleet_closes_its_endpoints() -> None:
    with fleet(scale_set=1) as fairwarning:
        endpoint = fairwarning.endpoint("web_0")

    with pytest.raises(OSError, match="refused"):
        ask(endpoint)
