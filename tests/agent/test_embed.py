"""The client that an application embeds."""

import threading
from datetime import timedelta
from itertools import islice

import pytest

import fairwarning
from fairwarning import Client, Notice
from fairwarning.agent.client import RefusedError
from fairwarning.agent.embed import NamesOthersError
from fairwarning.core.document.parse import ObservedEvent
from tests.agent.scripted import Answer, FakeClock, Script, endpoint

EVENT = (
    '{"EventId":"%s","EventStatus":"%s","EventType":"Reboot","Resources":[%s],'
    '"NotBefore":"Mon, 16 Nov 2026 12:15:00 GMT"}'
)


def shown(*events: str) -> Answer:
    return Answer(200, f'{{"DocumentIncarnation":1,"Events":[{",".join(events)}]}}'.encode())


A = EVENT % ("A", "Scheduled", '"web_0"')
B = EVENT % ("B", "Scheduled", '"web_0"')
STARTED = EVENT % ("A", "Started", '"web_0"')
PAIR = EVENT % ("A", "Scheduled", '"web_0","web_1"')
FOREIGN = EVENT % ("C", "Scheduled", '"web_1"')


def client(script: Script, stop: threading.Event | None = None) -> Client:
    return Client(script.url, machine="web_0", clock=FakeClock(), stop=stop)


def first(script: Script) -> Notice:
    return next(client(script).watch())


def approvals(script: Script) -> int:
    return sum(request.method == "POST" for request in script.asked)


def test_every_event_of_this_machine_is_yielded_once() -> None:
    with endpoint(shown(), shown(A, FOREIGN), shown(A, B), shown(B)) as script:
        ids = [notice.event.id for notice in islice(client(script).watch(), 2)]

    assert ids == ["A", "B"]


def test_an_event_that_comes_back_is_yielded_again() -> None:
    with endpoint(shown(A), shown(), shown(A)) as script:
        ids = [notice.event.id for notice in islice(client(script).watch(), 2)]

    assert ids == ["A", "A"]


def test_a_server_that_is_away_is_waited_for() -> None:
    with endpoint(Answer(503, b""), Answer(200, b""), shown(A)) as script:
        assert first(script).event.id == "A"


@pytest.mark.rule("C-06")
def test_a_block_that_ends_well_approves() -> None:
    with endpoint(shown(A)) as script, first(script).approving() as event:
        before = approvals(script)

    assert isinstance(event, ObservedEvent)
    assert (before, approvals(script)) == (0, 1)


@pytest.mark.rule("C-06")
def test_a_block_that_fails_never_approves() -> None:
    with endpoint(shown(A)) as script:
        notice = first(script)
        with pytest.raises(RuntimeError, match="the drain failed"), notice.approving():
            raise RuntimeError("the drain failed")

    assert approvals(script) == 0


@pytest.mark.rule("C-09")
def test_what_has_started_is_not_approved() -> None:
    with endpoint(shown(STARTED)) as script:
        notice = first(script)
        with notice.approving():
            pass

    assert approvals(script) == 0
    assert notice.time_left is None


@pytest.mark.rule("C-07")
def test_approving_for_other_machines_needs_for_all() -> None:
    with endpoint(shown(PAIR)) as script:
        notice = first(script)
        with pytest.raises(NamesOthersError, match="also names web_1"), notice.approving():
            pass
        before = approvals(script)
        with notice.approving(for_all=True):
            pass

    assert (before, approvals(script)) == (0, 1)


@pytest.mark.rule("C-10")
def test_waiting_ends_when_the_event_has_gone() -> None:
    with endpoint(shown(A), shown(STARTED), Answer(503, b""), shown(STARTED), shown()) as script:
        first(script).wait_until_gone()

    assert len(script.asked) == 5


def test_an_event_that_has_gone_needs_no_approval() -> None:
    with endpoint(shown(A), Answer(400, b""), shown()) as script:
        first(script).approve()

    assert len(script.asked) == 3


def test_an_approval_that_is_refused_is_not_passed_over() -> None:
    with endpoint(shown(A), Answer(400, b""), shown(A)) as script:
        notice = first(script)

        with pytest.raises(RefusedError):
            notice.approve()


def test_the_time_left_counts_down_to_not_before() -> None:
    with endpoint(shown(A)) as script:
        assert first(script).time_left == timedelta(minutes=15)


def test_a_client_that_is_stopped_ends() -> None:
    stop = threading.Event()
    stop.set()
    with endpoint(shown(A)) as script:
        assert list(client(script, stop).watch()) == []


def test_there_is_nothing_else_in_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Server'"):
        fairwarning.Server  # type: ignore[attr-defined]  # noqa: B018
