"""A node without news from its database tells guests 503, not a document that may be old."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.policy import STALE_AFTER
from fairwarning.engine.membership import NotReadyReason
from fairwarning.engine.ports import Store
from fairwarning.http1.messages import CacheableGet, Request, Response
from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.store.memory import MemoryStore
from tests.docs.troubleshooting import assert_quoted
from tests.fleet_harness import NOON, FleetHarness, run
from tests.guest import EVENTS, METADATA, NEWEST
from tests.nodes.node import Node, follow, following, start_node
from tests.nodes.test_news_from_other_nodes import WEB_0, restart, wait_for_change
from tests.virtual_time import LeapingLoop, run_leaping

WEB = Blueprint(name="web", count=2)
AFTER = STALE_AFTER.total_seconds()
POLL = Request("GET", EVENTS, NEWEST, METADATA, b"", True)
APPROVAL = b'{"StartRequests":[{"EventId":"602D9444-D2CD-49C7-8624-8643E7171297"}]}'


class Uptime:
    """The uptime of a host, which moves only on command."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def leaping_time() -> float:
    """Return the skipped time of a loop that skips its sleeps."""
    loop = asyncio.get_running_loop()
    return loop.time() if isinstance(loop, LeapingLoop) else 0.0


class PausedQuestion(MemoryStore):
    """A store whose answer reaches a node that stood still meanwhile."""

    def __init__(self, uptime: Uptime) -> None:
        super().__init__()
        self._uptime = uptime

    async def last(self) -> int:
        self._uptime.seconds += AFTER
        return await super().last()


def make_node(uptime: Callable[[], float], store: Store | None = None) -> Node:
    """Start a node that shares its store; its guests have polled before."""
    store = store or MemoryStore()
    FleetHarness(WEB, store=store)
    return start_node(store, uptime=uptime)


def paused_node(seconds: float = AFTER) -> tuple[Node, Uptime]:
    """Return a node that was fresh, and then stood still."""
    uptime = Uptime()
    node = make_node(uptime)
    uptime.seconds += seconds
    return node, uptime


async def reply_of(node: Node, request: Request = POLL) -> Response:
    reply = node.guests.answer(WEB_0, request)
    return reply if isinstance(reply, Response) else await reply


def reasons(node: Node) -> list[str]:
    problems = node.engine.problems()
    return [problem.reason for problem in problems if problem.reason is not NotReadyReason.STARTING]


@pytest.mark.rule("R-29")
def test_a_node_whose_database_is_silent_answers_polls_with_503_until_it_answers_again() -> None:
    async def story() -> list[int]:
        statuses = []
        async with following(node):
            await asyncio.sleep(60)
            for cut_after in (0, 0, 0, None):
                node.store.cut_after = cut_after
                await asyncio.sleep(AFTER / 2)
                statuses.append((await reply_of(node)).status)
        return statuses

    node = make_node(leaping_time)

    assert run_leaping(story()) == [200, 503, 503, 200]


@pytest.mark.rule("R-29")
def test_a_stale_answer_says_when_to_ask_again_and_nothing_of_the_fleet() -> None:
    node, _ = paused_node()

    response = run(reply_of(node))

    assert (response.status, response.body) == (503, b'{"error":"Service unavailable"}')
    assert ("Retry-After", "1") in response.headers


@pytest.mark.rule("R-29")
@pytest.mark.parametrize(
    ("seconds", "status"),
    [
        pytest.param(AFTER - 0.001, 200, id="a short pause is answered from memory"),
        pytest.param(AFTER, 503, id="a long pause is not"),
    ],
)
def test_the_first_poll_after_a_pause_is_not_answered_from_an_old_state(seconds: float, status: int) -> None:
    node, _ = paused_node(seconds)

    assert run(reply_of(node)).status == status


@pytest.mark.rule("R-29")
def test_a_node_that_has_looked_again_after_a_pause_shows_what_happened_meanwhile() -> None:
    node, _ = paused_node()
    other = start_node(node.store.inner)
    run(other.engine.handle(restart()))

    follow(node)

    assert b"Reboot" in run(reply_of(node)).body


@pytest.mark.rule("R-29")
def test_a_question_that_was_asked_before_the_pause_is_no_news() -> None:
    uptime = Uptime()
    node = make_node(uptime, PausedQuestion(uptime))

    follow(node)

    assert run(reply_of(node)).status == 503


@pytest.mark.rule("R-29")
def test_the_fast_path_does_not_answer_from_an_old_state() -> None:
    async def moment_before_the_pause() -> Moment:
        return RequestClock(asyncio.get_running_loop().time, lambda: NOON).moment()

    uptime = Uptime()
    node = make_node(uptime)
    run(node.engine.poll(WEB_0))
    run(reply_of(node))
    moment, poll = run(moment_before_the_pause()), CacheableGet("2020-07-01")
    fresh = node.guests.fast_path(WEB_0).answer(poll, moment)
    uptime.seconds += AFTER

    assert fresh is not None
    assert node.guests.fast_path(WEB_0).answer(poll, moment) is None


@pytest.mark.rule("R-29")
def test_a_guest_that_waits_is_answered_when_the_node_becomes_stale() -> None:
    async def story() -> tuple[int, float]:
        async with following(node):
            guest = wait_for_change(node, f'"{node.fleet.incarnation("web")}"')
            node.store.cut_after = 0
            response = await guest.answered
            return response.status, asyncio.get_running_loop().time()

    node = make_node(leaping_time)
    run(node.engine.poll(WEB_0))

    status, after = run_leaping(story())

    assert status == 503
    assert AFTER <= after < AFTER + 1


@pytest.mark.rule("R-29")
def test_a_guest_that_waited_during_a_pause_is_not_told_that_nothing_has_changed() -> None:
    async def story() -> int:
        guest = wait_for_change(node, f'"{node.fleet.incarnation("web")}"')
        uptime.seconds += AFTER
        node.engine.feed.wake(WEB_0.scope)
        return (await guest.answered).status

    uptime = Uptime()
    node = make_node(uptime)
    run(node.engine.poll(WEB_0))

    assert run(story()) == 503


CHECKED_FIRST: Mapping[str, tuple[Request, int]] = {
    "no Metadata header": (POLL._replace(headers={}), 400),
    "through a proxy": (POLL._replace(headers={**METADATA, "x-forwarded-for": ("10.0.0.1",)}), 400),
    "a parameter given twice": (POLL._replace(query=f"{NEWEST}&{NEWEST}"), 400),
    "no api-version": (POLL._replace(query=""), 400),
    "an api-version that is not served": (POLL._replace(query="api-version=2020-07-02"), 404),
    "another method": (POLL._replace(method="PUT"), 405),
    "a wait that is no number": (
        POLL._replace(query=f"{NEWEST}&wait=x", headers={**METADATA, "if-none-match": ('"1"',)}),
        400,
    ),
    "a body that is no approval": (POLL._replace(method="POST", body=b"{}"), 400),
    "a poll": (POLL, 503),
    "an approval": (POLL._replace(method="POST", body=APPROVAL), 503),
    "another category": (POLL._replace(path="/metadata/instance", query="api-version=2021-02-01"), 200),
    "another path": (POLL._replace(path="/metadata/nothing"), 404),
}


@pytest.mark.rule("R-29", "R-11")
@pytest.mark.parametrize(("request_", "status"), CHECKED_FIRST.values(), ids=CHECKED_FIRST)
def test_a_stale_node_checks_a_request_before_it_refuses_it(request_: Request, status: int) -> None:
    node, _ = paused_node()

    assert run(reply_of(node, request_)).status == status


@pytest.mark.rule("R-29")
def test_a_store_of_one_node_is_never_stale() -> None:
    uptime = Uptime()
    fleet = FleetHarness(WEB, uptime=uptime)

    uptime.seconds += 10**9

    assert not fleet.engine.freshness.stale
    assert list(fleet.engine.freshness.problems()) == []


def test_a_stale_node_says_so_where_operators_look() -> None:
    node, uptime = paused_node()
    uptime.seconds += 2.5

    metrics = node.operator.send("GET", "/metrics").text

    assert reasons(node) == [NotReadyReason.STALE]
    assert_quoted("A node has no news from its database", node.engine.trouble)
    assert "\nfairwarning_state_age_seconds 12.5\n" in metrics


def test_a_node_logs_once_that_it_is_stale_and_once_that_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with following(node):
            node.store.cut_after = 0
            await asyncio.sleep(60)
            node.store.cut_after = None
            await asyncio.sleep(60)

    caplog.set_level(logging.INFO, "fairwarning.node")
    node = make_node(leaping_time)

    run_leaping(story())

    logged = [record.getMessage() for record in caplog.records if record.name == "fairwarning.node"]
    assert logged == ["state_stale age_seconds=10", "state_fresh"]
