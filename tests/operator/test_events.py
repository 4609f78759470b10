"""Causing, approving and cancelling events."""

from datetime import timedelta

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.document.render import Json
from fairwarning.core.model import HostId, ScopeKind
from fairwarning.core.policy import PROFILES
from fairwarning.operator import schemas
from tests.fleet_harness import NOON
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web", count=3)
RACK = HostId("rack-7")


def event(answer: bytes) -> schemas.EventBody:
    """Return the event in an answer."""
    return msgspec.json.decode(answer, type=schemas.EventBody)


@pytest.mark.rule("L-14")
def test_a_restart_is_announced_and_guests_see_it_when_the_answer_comes() -> None:
    desk = office(WEB)

    announced = desk.cause("restart", "web_0", notice="30s", by="alice")

    (made,) = announced.events
    assert announced.warned
    assert announced.hint is None
    assert [shown.id for shown in desk.stage.shown("web_2")] == [made.id]
    assert made == schemas.EventBody(
        id=made.id,
        scope="web",
        cause="restart",
        type=made.type,
        source=made.source,
        status=made.status,
        resources=["web_0"],
        description="Virtual machine is going to be restarted as requested by authorized user.",
        duration=-1,
        created_at=NOON,
        not_before=NOON + timedelta(seconds=30),
        started_at=None,
        approved_by=None,
        seen=True,
        attempt=0,
        retry_at=None,
        walk=None,
    )
    assert (made.type, made.source, made.status) == ("Reboot", "User", "Scheduled")


@pytest.mark.rule("L-12")
def test_restarting_several_machines_leads_to_an_event_each() -> None:
    desk = office(WEB)

    announced = desk.cause("restart", "web_0", "web/web_2")

    assert [one.resources for one in announced.events] == [["web_0"], ["web_2"]]
    assert desk.events() == announced.events


@pytest.mark.rule("R-23")
def test_where_nobody_polls_a_restart_acts_at_once_and_the_answer_says_so() -> None:
    desk = office(WEB, watched=False)

    announced = desk.cause("restart", "web_0")

    assert not announced.warned
    assert announced.hint == "nobody polls web: acted at once; hint: poll first, or up --start-enabled"
    assert announced.events[0].status == "Started"


def test_where_nobody_polls_maintenance_comes_at_its_time_and_the_answer_says_so() -> None:
    desk = office(WEB, watched=False)

    announced = desk.cause("freeze", "web_0")

    assert not announced.warned
    assert announced.hint == "nobody polls web: will act unseen; hint: poll first, or up --start-enabled"
    assert announced.events[0].status == "Scheduled"


def test_maintenance_of_a_host_concerns_every_machine_on_it() -> None:
    one = Blueprint(name="one", kind=ScopeKind.STANDALONE, host=RACK)
    two = Blueprint(name="two", kind=ScopeKind.STANDALONE, host=RACK)
    desk = office(one, two)

    announced = desk.cause("host-update", host="rack-7")

    assert [(made.scope, made.resources) for made in announced.events] == [
        ("one", ["one"]),
        ("two", ["two"]),
    ]


def test_what_falls_due_in_the_same_moment_is_not_taken_for_what_was_asked() -> None:
    desk = office(WEB)
    desk.cause("restart", "web_0", notice="30s")
    desk.stage.clock.set(NOON + timedelta(seconds=30))

    announced = desk.cause("restart", "web_1")

    assert [one.resources for one in announced.events] == [["web_1"]]


@pytest.mark.rule("L-06")
def test_a_hardware_failure_has_started_when_it_is_announced() -> None:
    desk = office(WEB)

    announced = desk.cause("hardware-failure", "web_0", kind="Reboot")

    assert announced.warned
    assert [(one.type, one.status) for one in announced.events] == [("Reboot", "Started")]


def test_an_event_is_found_by_its_id_in_any_case() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events

    assert event(desk.get(f"/events/{made.id.lower()}")) == made


def test_approving_starts_an_event_and_tells_who_did() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events

    approved = event(desk.fine("POST", f"/events/{made.id}/approve", {"by": "alice"}))

    assert (approved.status, approved.approved_by, approved.started_at) == ("Started", "operator:alice", NOON)


@pytest.mark.parametrize(
    ("by", "recorded"),
    [
        pytest.param("web_1", "operator:web_1", id="the name of a guest"),
        pytest.param("platform", "operator:platform", id="the name of the platform"),
        pytest.param("operator", "operator", id="the plain operator"),
        pytest.param("operator:alice", "operator:alice", id="a name that is marked already"),
    ],
)
def test_no_operator_passes_for_a_guest(by: str, recorded: str) -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events

    approved = event(desk.fine("POST", f"/events/{made.id}/approve", {"by": by}))

    assert approved.approved_by == recorded
    assert recorded in [line.by for line in desk.history().history]


@pytest.mark.rule("R-17")
def test_approving_what_has_started_changes_nothing() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events
    first = desk.fine("POST", f"/events/{made.id}/approve")

    second = desk.fine("POST", f"/events/{made.id}/approve", {"by": "bob"})

    assert second == first


def test_a_cancelled_event_is_gone() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events

    cancelled = event(desk.fine("POST", f"/events/{made.id}/cancel"))

    assert (cancelled.id, cancelled.status) == (made.id, "Gone")
    assert desk.events() == []
    assert desk.refused("GET", f"/events/{made.id}").status == 404


def test_what_has_started_cannot_be_cancelled() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events
    desk.fine("POST", f"/events/{made.id}/approve")

    problem = desk.refused("POST", f"/events/{made.id}/cancel")

    assert problem.status == 409
    assert problem.detail == f"event {made.id} is Started; it cannot be cancelled"
    assert problem.type == "urn:fairwarning:problem:illegal-transition"


def test_the_same_is_not_done_twice_to_a_machine_that_still_waits_for_it() -> None:
    desk = office(WEB)
    (made,) = desk.cause("restart", "web_0").events

    problem = desk.refused("POST", "/events", {"cause": "restart", "machines": ["web_0"]})

    assert problem.status == 409
    assert made.id in problem.detail


@pytest.mark.rule("L-16")
def test_the_first_preview_refuses_an_eleventh_user_operation() -> None:
    app = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=11)
    desk = office(app, policy=PROFILES["preview2017"].policy)
    desk.cause("restart", *(f"app-{number}" for number in range(10)))

    problem = desk.refused("POST", "/events", {"cause": "restart", "machines": ["app-10"]})

    assert problem.status == 409
    assert problem.title == "The scope has as many user events as its profile allows"
    assert len(desk.events()) == 10


def test_every_cause_is_listed_with_what_it_announces() -> None:
    desk = office()

    listed = msgspec.json.decode(desk.get("/causes"), type=schemas.CausesBody).causes

    assert [one.name for one in listed] == list(CAUSES)
    assert (
        schemas.CauseBody(
            name="restart",
            type=CAUSES["restart"].kind,
            source=CAUSES["restart"].source,
            summary="a user restarts the machine",
        )
        in listed
    )


@pytest.fixture(scope="module")
def desk() -> Office:
    twins = [Blueprint(name=name, names=("app",), kind=ScopeKind.AVAILABILITY_SET) for name in ("one", "two")]
    return office(WEB, *twins)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        pytest.param({"cause": "earthquake", "machines": ["web_0"]}, 422, "cause", id="an unknown cause"),
        pytest.param({"machines": ["web_0"]}, 422, "cause", id="no cause"),
        pytest.param({"cause": "restart"}, 422, "machines", id="no machine"),
        pytest.param({"cause": "restart", "machines": "web_0"}, 422, "machines", id="machines not in a list"),
        pytest.param({"cause": "restart", "machines": [1]}, 422, "machines[0]", id="a number for a machine"),
        pytest.param(
            {"cause": "restart", "machines": ["web_0", "nobody"]}, 404, "machines[1]", id="an unknown machine"
        ),
        pytest.param({"cause": "restart", "machines": ["app"]}, 409, "machines[0]", id="an unclear machine"),
        pytest.param(
            {"cause": "restart", "machines": ["web_0", "web_0"]}, 422, "machines", id="a machine named twice"
        ),
        pytest.param({"cause": "freeze", "host": "nowhere"}, 404, "host", id="an unknown host"),
        pytest.param(
            {"cause": "freeze", "host": "host-web-0-0", "machines": ["web_0"]}, 422, "host",
            id="a host and machines",
        ),
        pytest.param({"cause": "evict", "machines": ["web_0"]}, 409, None, id="evicting what is not Spot"),
        pytest.param(
            {"cause": "restart", "machines": ["web_0"], "notice": "-5m"}, 422, "notice", id="a notice gone by"
        ),
        pytest.param(
            {"cause": "restart", "machines": ["web_0"], "notice": 30}, 422, "notice", id="a notice in numbers"
        ),
        pytest.param(
            {"cause": "restart", "machines": ["web_0"], "kind": "Freeze"}, 422, "kind", id="another kind"
        ),
        pytest.param(
            {"cause": "restart", "machines": ["web_0"], "when": "now"}, 422, "when", id="an unknown member"
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_caused_is_refused_naming_the_field(
    desk: Office, body: Json, status: int, field: str | None
) -> None:
    problem = desk.refused("POST", "/events", body)

    assert (problem.status, problem.field) == (status, msgspec.UNSET if field is None else field)
    assert desk.events() == []


@pytest.mark.parametrize("path", ["/events/E1/approve", "/events/E1/cancel"])
def test_an_event_that_does_not_exist_is_not_found(desk: Office, path: str) -> None:
    assert desk.refused("POST", path).status == 404
