"""``/healthz`` says whether the server is alive, ``/readyz`` whether it may be sent traffic."""

from dataclasses import replace

from fairwarning.control.control import Control
from fairwarning.operator.app import create_app
from tests.engine.disk import WEB, Disk, broken
from tests.operator.operator_client import OperatorTestClient, address, operator_client


def broken_server() -> tuple[OperatorTestClient, Disk]:
    """Return a client of a server whose last change could not be stored, and its store."""
    stage, disk = broken()
    stage.engine.membership.serving = True
    app = create_app(Control(stage.engine), endpoints=address, token="a token of sixteen")
    return replace(operator_client(WEB), stage=stage, app=app), disk


def test_a_server_that_cannot_store_changes_is_alive_but_not_ready() -> None:
    client, _ = broken_server()

    alive = client.send("GET", "/healthz")
    problem = client.refused("GET", "/readyz")

    trouble = "changes cannot be stored: disk full"
    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "warnings": [trouble]})
    assert (problem.status, problem.detail) == (503, trouble)
    assert problem.reasons
    assert [reason.reason for reason in problem.reasons] == ["storage"]


def test_a_server_is_ready_again_once_changes_can_be_stored() -> None:
    client, disk = broken_server()

    disk.wrong = None
    ready = client.send("GET", "/readyz")

    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert client.send("GET", "/healthz").json() == {"status": "ok"}


def test_a_server_that_starts_is_not_ready() -> None:
    client = operator_client(WEB)
    client.stage.engine.membership.serving = False

    problem = client.refused("GET", "/readyz")

    assert problem.reasons
    assert [reason.reason for reason in problem.reasons] == ["starting"]
    assert client.send("GET", "/healthz").json() == {"status": "ok"}


def test_what_cannot_be_stored_is_answered_with_the_time_to_try_again() -> None:
    stage, _ = broken()
    client = replace(operator_client(WEB), app=create_app(Control(stage.engine), endpoints=address))

    response = client.send("POST", "/events", {"cause": "restart", "machines": ["web_0"]})

    assert (response.status_code, response.headers["retry-after"]) == (503, "5")


def test_a_server_of_its_own_store_is_the_only_node() -> None:
    client = operator_client(WEB)
    membership = client.stage.engine.membership
    membership.name, membership.release, membership.address = "here", "1.0", "http://127.0.0.1:8080"

    (node,) = client.nodes()

    assert (node.id, node.name, node.address) == (membership.id, "here", "http://127.0.0.1:8080")
    assert (node.this, node.lag, node.clock_offset, node.release) == (True, 0, 0.0, "1.0")
    assert node.position == client.stage.engine.position
