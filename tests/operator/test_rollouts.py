"""Maintenance, domain by domain."""

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from fairwarning.operator import schemas
from tests.operator.operator_client import Office, office

APP = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=5, update_domains=2, fault_domains=1)
FLEX = Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=3, fault_domains=3)


def start(desk: Office, scope: str, **more: Json) -> schemas.RolloutBody:
    """Start a walk and return it."""
    answer = desk.fine("POST", "/walks", {"scope": scope, **more}, 201)
    return msgspec.json.decode(answer, type=schemas.RolloutBody)


def concerned(desk: Office) -> list[list[str]]:
    """Return the machines that each pending event names."""
    return [event.resources for event in desk.events()]


@pytest.mark.rule("S-04")
def test_a_walk_announces_one_update_domain_and_the_next_once_that_has_finished() -> None:
    desk = office(APP)

    walk = start(desk, "app", notice="1m", by="alice")
    first = concerned(desk)
    desk.advance("1m")
    during = concerned(desk)
    desk.advance("30s")
    second = concerned(desk)
    desk.advance("2m")

    assert (walk.current, walk.remaining, walk.notice, walk.by) == (0, [1], "1m", "operator:alice")
    assert first == during == [["app-0", "app-2", "app-4"]]
    assert second == [["app-1", "app-3"]]
    assert desk.events() == []
    assert desk.walks() == []


@pytest.mark.rule("S-04")
@pytest.mark.rule("S-05")
def test_a_walk_through_a_set_without_update_domains_goes_by_fault_domain() -> None:
    desk = office(FLEX)
    machines = desk.scope("flex").machines

    start(desk, "flex", notice="0s")
    visited = []
    while desk.walks():
        visited += concerned(desk)
        desk.fine("POST", "/clock/next")

    assert visited == [[name] for name in machines]


def test_a_walk_is_listed_with_its_events_and_shown_by_its_scope() -> None:
    desk = office(APP)

    walk = start(desk, "app", cause="freeze")

    assert desk.walks() == [walk]
    assert desk.scope("app").walk == walk
    assert walk.events == desk.scope("app").events
    assert [event.walk for event in desk.events()] == [walk.id]


def test_a_walk_that_is_ended_withdraws_what_it_announced() -> None:
    desk = office(APP)
    start(desk, "app")

    response = desk.send("DELETE", "/walks/app")

    assert (response.status_code, response.content) == (204, b"")
    assert desk.walks() == []
    assert desk.events() == []


def test_a_scope_is_walked_once_at_a_time() -> None:
    desk = office(APP)
    start(desk, "app")

    problem = desk.refused("POST", "/walks", {"scope": "app"})

    assert (problem.status, problem.detail) == (409, "scope app already has a rollout in progress")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        pytest.param("POST", "/walks", {"scope": "nowhere"}, 404, "scope", id="an unknown scope"),
        pytest.param("POST", "/walks", {"scope": "empty"}, 422, "scope", id="a scope without machines"),
        pytest.param("POST", "/walks", {}, 422, "scope", id="no scope"),
        pytest.param(
            "POST", "/walks", {"scope": "app", "cause": "restart"}, 422, "cause", id="what is no maintenance"
        ),
        pytest.param("POST", "/walks", {"scope": "app", "cause": "x"}, 422, "cause", id="an unknown cause"),
        pytest.param("POST", "/walks", {"scope": "app", "notice": "x"}, 422, "notice", id="no duration"),
        pytest.param("DELETE", "/walks/app", None, 404, None, id="ending what is not under way"),
        pytest.param("DELETE", "/walks/nowhere", None, 404, None, id="ending it in an unknown scope"),
    ],
)
def test_what_cannot_be_walked_is_refused(
    method: str, path: str, body: Json, status: int, field: str | None
) -> None:
    desk = office(APP, Blueprint(name="empty", count=0))

    problem = desk.refused(method, path, body)

    assert (problem.status, problem.field) == (status, msgspec.UNSET if field is None else field)


@pytest.mark.rule("R-23")
def test_a_walk_says_when_nobody_polls() -> None:
    answers = [
        office(APP, watched=one).fine("POST", "/walks", {"scope": "app"}, 201) for one in (True, False)
    ]

    watched, unwatched = (msgspec.json.decode(answer, type=schemas.RolloutBegunBody) for answer in answers)
    assert (watched.warned, watched.hint) == (True, None)
    assert unwatched.warned is False
    assert unwatched.hint == "nobody polls app: will act unseen; hint: poll first, or up --start-enabled"
