"""Requests that are at fault themselves, and how every answer looks."""

import httpx2
import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import MachineRef
from fairwarning.operator import schemas
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web")


def problem(response: httpx2.Response) -> schemas.ProblemBody:
    """Return the problem in an answer."""
    assert response.headers["content-type"] == "application/problem+json"
    return msgspec.json.decode(response.content, type=schemas.ProblemBody)


@pytest.fixture(scope="module")
def desk() -> Office:
    return office(WEB)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"{", 400, id="half an object"),
        pytest.param(b"cause=restart", 400, id="a form"),
        pytest.param(b'{"cause":"\xff"}', 400, id="what is not UTF-8"),
        pytest.param(b'{"cause":"\\ud800"}', 400, id="half a surrogate pair"),
        pytest.param(b"", 422, id="nothing, where something must be said"),
        pytest.param(b"null", 422, id="null"),
        pytest.param(b"[]", 422, id="a list"),
        pytest.param(b'{"x":' + b"[" * 60_000, 422, id="a deep hole"),
        pytest.param(b'{"cause":"' + b"x" * 65_536 + b'"}', 413, id="more than 64 KiB"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(desk: Office, content: bytes, status: int) -> None:
    response = desk.send("POST", "/events", content=content)

    assert response.status_code == status
    assert problem(response).status == status


def test_what_is_asked_may_come_under_any_content_type(desk: Office) -> None:
    response = desk.send(
        "POST", "/walks", content=b'{"scope":"nowhere"}', headers={"Content-Type": "text/plain"}
    )

    assert problem(response).detail == "no scope named nowhere"


def test_a_problem_says_what_is_wrong_in_words_and_as_data(desk: Office) -> None:
    response = desk.send("GET", "/machines/nobody")

    assert response.json() == {
        "type": "urn:fairwarning:problem:unknown-machine",
        "title": "No machine has this name",
        "status": 404,
        "detail": "no machine named nobody",
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "choice"),
    [
        pytest.param(
            "POST", "/events", {"cause": "hardware-failure", "machines": ["web_0"], "kind": "Melt"},
            "kind: invalid enum value 'Melt'; must be one of Freeze, Reboot, Redeploy", id="a kind",
        ),
        pytest.param(
            "PUT", "/machines/web_0/power", {"power": "on"},
            "power: invalid enum value 'on'; must be one of running, stopped", id="a power",
        ),
        pytest.param(
            "POST", "/scopes", {"name": "x", "kind": "heap"},
            "kind: invalid enum value 'heap'; must be one of standalone, ", id="a kind of set",
        ),
    ],
)  # fmt: skip
def test_who_chooses_what_there_is_not_is_told_what_there_is(
    desk: Office, method: str, path: str, body: Json, choice: str
) -> None:
    problem = desk.refused(method, path, body)

    assert problem.detail.startswith(choice)


@pytest.mark.parametrize("path", ["/nothing", "/machines/web_0/power/more/power/", "/events/", "/scopes/a/b"])
def test_where_there_is_nothing_the_answer_says_so(desk: Office, path: str) -> None:
    assert problem(desk.send("POST", path)).status in (404, 405)
    assert problem(desk.send("GET", path)).status == 404


def test_a_method_that_a_path_does_not_take_is_refused_with_those_it_does(desk: Office) -> None:
    response = desk.send("PUT", "/scopes/web")

    assert problem(response).detail == "/fleet/v1/scopes/web does not take PUT"
    assert response.status_code == 405
    assert {one.strip() for one in response.headers["allow"].split(",")} == {"GET", "HEAD", "PATCH", "DELETE"}


@pytest.mark.parametrize("path", ["/machines", "/machines/nobody", "/nothing", "/healthz"])
def test_no_answer_is_kept_on_the_way(desk: Office, path: str) -> None:
    assert desk.send("GET", path).headers["cache-control"] == "no-store"


def test_a_failure_of_the_server_tells_no_secrets() -> None:
    def fail(ref: MachineRef) -> str | None:
        raise RuntimeError("password=hunter2")

    desk = office(WEB, endpoints=fail)

    response = desk.send("GET", "/machines")

    assert response.status_code == 500
    assert problem(response).detail == "the server failed; its log says why"
    assert response.headers["cache-control"] == "no-store"
