"""Causing, approving and cancelling events."""

from datetime import timedelta

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventId, HostId, ScopeKind
from fairwarning.core.policy import PROFILES
from fairwarning.operator import schemas
from tests.fleet_harness import NOON
from tests.operator.operator_client import OperatorTestClient, operator_client

WEB = Blueprint(name="web", count=3)
RACK = HostId("rack-7")


def event(body: bytes) -> schemas.EventBody:
    """Decode the body of an event."""
    return msgspec.json.decode(body, type=schemas.EventBody)


@pytest.mark.rule("L-14")
def test_a_restart_is_announced_and_guests_see_it_before_the_response() -> None:
    client = operator_client(WEB)

    announced = client.cause("restart", "web_0", notice="30s", by="alice")

    (made,) = announced.events
    assert announced.warned
    assert announced.hint is None
    assert [shown.id for shown in client.stage.shown("web_2")] == [made.id]
    assert made == schemas.EventBody(
        id=made.id,
        scope="web",
        cause="restart",
        type=made.type,
        source=made.source,
        status=made.status,
        resources=["web_0"],
        undone=["web_0"],
        description="Virtual machine is going to be restarted as requested by authorized user.",
        duration=-1,
        created_at=NOON,
        not_before=NOON + timedelta(seconds=30),
        started_at=None,
        approved_by=None,
        waits_for=None,
        host="host-web-0-0",
        maintenance=None,
        opens=None,
        closes=None,
        blocked=False,
        shown=True,
        read={},
        seen=True,
        attempt=0,
        retry_at=None,
        overdue=False,
        walk=None,
    )
    assert (made.type, made.source, made.status) == ("Reboot", "User", "Scheduled")


@pytest.mark.rule("R-30")
def test_an_event_says_when_each_of_its_machines_first_read_it() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events
    client.stage.advance("2s")
    client.stage.read(EventId(made.id), "web_0")

    (read,) = client.events()

    assert (made.shown, made.read) == (True, {})
    assert (read.shown, read.read) == (True, {"web_0": NOON + timedelta(seconds=2)})


@pytest.mark.rule("R-30")
def test_that_guests_can_see_an_event_does_not_mean_that_a_guest_has_read_it() -> None:
    client = operator_client(WEB, polled=False)

    (hidden,) = client.cause("freeze", "web_0").events
    client.stage.poll("web_1")
    (shown,) = client.events()

    assert (hidden.shown, hidden.seen, hidden.read) == (False, False, {})
    assert (shown.shown, shown.seen, shown.read) == (True, True, {})


@pytest.mark.rule("L-12")
def test_restarting_several_machines_leads_to_an_event_each() -> None:
    client = operator_client(WEB)

    announced = client.cause("restart", "web_0", "web/web_2")

    assert [event.resources for event in announced.events] == [["web_0"], ["web_2"]]
    assert client.events() == announced.events


@pytest.mark.rule("R-23")
def test_in_a_scope_without_polls_a_restart_acts_at_once_and_the_response_says_so() -> None:
    client = operator_client(WEB, polled=False)

    announced = client.cause("restart", "web_0")

    assert not announced.warned
    assert (
        announced.hint
        == "no guest polls web: the action happened at once; hint: poll first, or up --start-enabled"
    )
    assert announced.events[0].status == "Started"


def test_in_a_scope_without_polls_maintenance_comes_at_its_time_and_the_response_says_so() -> None:
    client = operator_client(WEB, polled=False)

    announced = client.cause("freeze", "web_0")

    assert not announced.warned
    outcome = "the action will happen without warning"
    assert announced.hint == f"no guest polls web: {outcome}; hint: poll first, or up --start-enabled"
    assert announced.events[0].status == "Scheduled"


def test_maintenance_of_a_host_affects_every_machine_on_it() -> None:
    one = Blueprint(name="one", kind=ScopeKind.STANDALONE, host=RACK)
    two = Blueprint(name="two", kind=ScopeKind.STANDALONE, host=RACK)
    client = operator_client(one, two)

    announced = client.cause("host-update", host="rack-7")

    assert [(made.scope, made.resources) for made in announced.events] == [
        ("one", ["one"]),
        ("two", ["two"]),
    ]


def test_an_event_due_at_the_same_instant_is_not_part_of_the_response() -> None:
    client = operator_client(WEB)
    client.cause("restart", "web_0", notice="30s")
    client.stage.clock.set(NOON + timedelta(seconds=30))

    announced = client.cause("restart", "web_1")

    assert [event.resources for event in announced.events] == [["web_1"]]


@pytest.mark.rule("L-06")
def test_a_hardware_failure_has_started_when_it_is_announced() -> None:
    client = operator_client(WEB)

    announced = client.cause("hardware-failure", "web_0", kind="Reboot")

    assert announced.warned
    assert [(event.type, event.status) for event in announced.events] == [("Reboot", "Started")]


def test_an_event_is_found_by_its_id_in_any_case() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events

    assert event(client.get(f"/events/{made.id.lower()}")) == made


def test_approving_starts_an_event_and_records_the_operator() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events

    approved = event(client.call("POST", f"/events/{made.id}/approve", {"by": "alice"}))

    assert (approved.status, approved.approved_by, approved.started_at) == ("Started", "operator", NOON)


@pytest.mark.parametrize(
    "by",
    [
        pytest.param("web_1", id="the name of a guest"),
        pytest.param("platform", id="the name of the platform"),
        pytest.param("operator", id="the plain operator"),
        pytest.param("operator:alice", id="a name with the prefix"),
        pytest.param("an\u202ena", id="a name with a hidden character"),
    ],
)
def test_the_history_records_the_caller_and_no_name_that_the_caller_chose(by: str) -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events

    approved = event(client.call("POST", f"/events/{made.id}/approve", {"by": by}))

    assert approved.approved_by == "operator"
    assert {line.by for line in client.history().history} == {"operator"}


@pytest.mark.rule("R-17")
def test_approving_a_started_event_changes_nothing() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events
    first = client.call("POST", f"/events/{made.id}/approve")

    second = client.call("POST", f"/events/{made.id}/approve", {"by": "bob"})

    assert second == first


def test_a_cancelled_event_is_gone() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events

    cancelled = event(client.call("POST", f"/events/{made.id}/cancel"))

    assert (cancelled.id, cancelled.status) == (made.id, "Gone")
    assert client.events() == []
    assert client.refused("GET", f"/events/{made.id}").status == 404


def test_a_started_event_cannot_be_cancelled() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events
    client.call("POST", f"/events/{made.id}/approve")

    problem = client.refused("POST", f"/events/{made.id}/cancel")

    assert problem.status == 409
    assert problem.detail == f"event {made.id} is Started; it cannot be cancelled"
    assert problem.type == "urn:fairwarning:problem:illegal-transition"


def test_a_machine_with_a_pending_restart_cannot_be_restarted_again() -> None:
    client = operator_client(WEB)
    (made,) = client.cause("restart", "web_0").events

    problem = client.refused("POST", "/events", {"cause": "restart", "machines": ["web_0"]})

    assert problem.status == 409
    assert made.id in problem.detail


@pytest.mark.rule("L-16")
def test_the_first_preview_refuses_an_eleventh_user_operation() -> None:
    app = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=11)
    client = operator_client(app, policy=PROFILES["preview2017"].policy)
    client.cause("restart", *(f"app-{number}" for number in range(10)))

    problem = client.refused("POST", "/events", {"cause": "restart", "machines": ["app-10"]})

    assert problem.status == 409
    assert problem.title == "The scope has as many user events as its profile allows"
    assert len(client.events()) == 10


def test_every_cause_is_listed_with_its_event_type() -> None:
    client = operator_client()

    listed = msgspec.json.decode(client.get("/causes"), type=schemas.CausesBody).causes

    assert [cause.name for cause in listed] == list(CAUSES)
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
def client() -> OperatorTestClient:
    twins = [Blueprint(name=name, names=("app",), kind=ScopeKind.AVAILABILITY_SET) for name in ("one", "two")]
    return operator_client(WEB, *twins)


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
        pytest.param({"cause": "restart", "machines": ["app"]}, 409, "machines[0]", id="an ambiguous name"),
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
            {"cause": "restart", "machines": ["web_0"], "notice": "-5m"}, 422, "notice", id="negative notice"
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
def test_an_invalid_cause_is_refused_naming_the_field(
    client: OperatorTestClient, body: Json, status: int, field: str | None
) -> None:
    problem = client.refused("POST", "/events", body)

    assert (problem.status, problem.field) == (status, msgspec.UNSET if field is None else field)
    assert client.events() == []


@pytest.mark.parametrize("path", ["/events/E1/approve", "/events/E1/cancel"])
def test_an_event_that_does_not_exist_is_not_found(client: OperatorTestClient, path: str) -> None:
    assert client.refused("POST", path).status == 404
