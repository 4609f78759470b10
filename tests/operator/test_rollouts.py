"""Rollouts: maintenance of a scope, domain by domain."""

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from fairwarning.operator import schemas
from fairwarning.operator.openapi import document
from fairwarning.operator.routes import ROUTES
from tests.operator.operator_client import OperatorTestClient, operator_client

APP = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=5, update_domains=2, fault_domains=1)
FLEX = Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=3, fault_domains=3)


def start(client: OperatorTestClient, scope: str, **more: Json) -> schemas.RolloutBody:
    """Start a rollout and return it."""
    body = client.call("POST", "/rollouts", {"scope": scope, **more}, 201)
    return msgspec.json.decode(body, type=schemas.RolloutBody)


def affected(client: OperatorTestClient) -> list[list[str]]:
    """Return the machines that each pending event names."""
    return [event.resources for event in client.events()]


@pytest.mark.rule("S-04")
def test_a_rollout_announces_one_update_domain_and_the_next_once_that_has_finished() -> None:
    client = operator_client(APP)

    rollout = start(client, "app", notice="1m", by="alice")
    first = affected(client)
    client.advance("1m")
    during = affected(client)
    client.advance("30s")
    second = affected(client)
    client.advance("2m")

    assert (rollout.current, rollout.remaining, rollout.notice) == (0, [1], "1m")
    assert rollout.by == "operator"
    assert first == during == [["app-0", "app-2", "app-4"]]
    assert second == [["app-1", "app-3"]]
    assert client.events() == []
    assert client.rollouts() == []


@pytest.mark.rule("S-04")
@pytest.mark.rule("S-05")
def test_a_rollout_of_a_set_without_update_domains_goes_by_fault_domain() -> None:
    client = operator_client(FLEX)
    machines = client.scope("flex").machines

    start(client, "flex", notice="0s")
    affected_in_order = []
    while client.rollouts():
        affected_in_order += affected(client)
        client.call("POST", "/clock/next")

    assert affected_in_order == [[name] for name in machines]


def test_a_rollout_is_listed_with_its_events_and_shown_by_its_scope() -> None:
    client = operator_client(APP)

    rollout = start(client, "app", cause="freeze")

    assert client.rollouts() == [rollout]
    assert client.scope("app").walk == rollout
    assert rollout.events == client.scope("app").events
    assert [event.walk for event in client.events()] == [rollout.id]


def test_stopping_a_rollout_cancels_the_events_it_announced() -> None:
    client = operator_client(APP)
    start(client, "app")

    response = client.send("DELETE", "/rollouts/app")

    assert (response.status_code, response.content) == (204, b"")
    assert client.rollouts() == []
    assert client.events() == []


def test_a_scope_has_one_rollout_at_a_time() -> None:
    client = operator_client(APP)
    start(client, "app")

    problem = client.refused("POST", "/rollouts", {"scope": "app"})

    assert (problem.status, problem.detail) == (409, "scope app already has a rollout in progress")


REFUSED = [
    pytest.param("POST", "", {"scope": "nowhere"}, 404, "scope", id="an unknown scope"),
    pytest.param("POST", "", {"scope": "empty"}, 422, "scope", id="a scope without machines"),
    pytest.param("POST", "", {}, 422, "scope", id="no scope"),
    pytest.param("POST", "", {"scope": "app", "cause": "restart"}, 422, "cause", id="a cause of one machine"),
    pytest.param("POST", "", {"scope": "app", "cause": "x"}, 422, "cause", id="an unknown cause"),
    pytest.param("POST", "", {"scope": "app", "notice": "x"}, 422, "notice", id="an invalid notice"),
    pytest.param("DELETE", "/app", None, 404, None, id="stopping a rollout that was not started"),
    pytest.param("DELETE", "/nowhere", None, 404, None, id="stopping a rollout of an unknown scope"),
]


@pytest.mark.parametrize("route", ["/rollouts", "/walks"])
@pytest.mark.parametrize(("method", "path", "body", "status", "field"), REFUSED)
def test_an_invalid_rollout_is_refused(
    route: str, method: str, path: str, body: Json, status: int, field: str | None
) -> None:
    client = operator_client(APP, Blueprint(name="empty", count=0))

    problem = client.refused(method, f"{route}{path}", body)

    assert (problem.status, problem.field) == (status, msgspec.UNSET if field is None else field)


@pytest.mark.rule("R-23")
def test_a_rollout_says_when_no_guest_polls() -> None:
    bodies = [
        operator_client(APP, polled=polled).call("POST", "/rollouts", {"scope": "app"}, 201)
        for polled in (True, False)
    ]

    polled, unpolled = (msgspec.json.decode(body, type=schemas.RolloutBegunBody) for body in bodies)
    assert (polled.warned, polled.hint) == (True, None)
    assert unpolled.warned is False
    outcome = "the action will happen without warning"
    assert unpolled.hint == f"no guest polls app: {outcome}; hint: poll first, or up --start-enabled"


# -- the routes of the release before


@pytest.mark.parametrize(("started", "read"), [("/rollouts", "/walks"), ("/walks", "/rollouts")])
def test_both_routes_answer_the_same(started: str, read: str) -> None:
    client = operator_client(APP)

    created = msgspec.json.decode(client.call("POST", started, {"scope": "app"}, 201))
    lists = [client.get(route) for route in (started, read)]
    stopped = client.send("DELETE", f"{read}/app")

    assert lists[0] == lists[1]
    assert created.items() >= msgspec.json.decode(lists[0])["walks"][0].items()
    assert (stopped.status_code, client.get(started)) == (204, b'{"walks":[]}')


def test_the_old_routes_are_deprecated_and_otherwise_described_alike() -> None:
    paths = document(ROUTES)["paths"]
    assert isinstance(paths, dict)

    for suffix in ("", "/{scope}"):
        old, new = paths[f"/fleet/v1/walks{suffix}"], paths[f"/fleet/v1/rollouts{suffix}"]
        assert isinstance(old, dict)
        assert isinstance(new, dict)
        for method, operation in old.items():
            described = new[method]
            assert isinstance(operation, dict)
            assert isinstance(described, dict)
            assert operation["deprecated"] is True
            assert "deprecated" not in described
            assert operation["responses"] == described["responses"]
