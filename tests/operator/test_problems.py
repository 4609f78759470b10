"""Invalid requests, and the form of problem documents."""

import httpx2
import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import MachineRef
from fairwarning.operator import schemas
from tests.operator.operator_client import OperatorTestClient, operator_client

WEB = Blueprint(name="web")


def problem(response: httpx2.Response) -> schemas.ProblemBody:
    """Decode the problem document of a response."""
    assert response.headers["content-type"] == "application/problem+json"
    return msgspec.json.decode(response.content, type=schemas.ProblemBody)


@pytest.fixture(scope="module")
def client() -> OperatorTestClient:
    return operator_client(WEB)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"{", 400, id="half an object"),
        pytest.param(b"cause=restart", 400, id="a form"),
        pytest.param(b'{"cause":"\xff"}', 400, id="what is not UTF-8"),
        pytest.param(b'{"cause":"\\ud800"}', 400, id="half a surrogate pair"),
        pytest.param(b"", 422, id="an empty body without required members"),
        pytest.param(b"null", 422, id="null"),
        pytest.param(b"[]", 422, id="a list"),
        pytest.param(b'{"x":' + b"[" * 60_000, 422, id="deep nesting"),
        pytest.param(b'{"cause":"' + b"x" * 65_536 + b'"}', 413, id="more than 64 KiB"),
    ],
)
def test_an_invalid_body_is_refused(client: OperatorTestClient, content: bytes, status: int) -> None:
    response = client.send("POST", "/events", content=content)

    assert response.status_code == status
    assert problem(response).status == status


def test_a_body_may_have_any_content_type(client: OperatorTestClient) -> None:
    response = client.send(
        "POST", "/rollouts", content=b'{"scope":"nowhere"}', headers={"Content-Type": "text/plain"}
    )

    assert problem(response).detail == "no scope named nowhere"


def test_a_problem_says_what_is_wrong_in_words_and_as_data(client: OperatorTestClient) -> None:
    response = client.send("GET", "/machines/nobody")

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
def test_an_invalid_enum_value_is_refused_with_the_valid_ones(
    client: OperatorTestClient, method: str, path: str, body: Json, choice: str
) -> None:
    problem = client.refused(method, path, body)

    assert problem.detail.startswith(choice)


@pytest.mark.parametrize("path", ["/nothing", "/machines/web_0/power/more/power/", "/events/", "/scopes/a/b"])
def test_an_unknown_path_is_not_found(client: OperatorTestClient, path: str) -> None:
    assert problem(client.send("POST", path)).status in (404, 405)
    assert problem(client.send("GET", path)).status == 404


def test_an_unsupported_method_is_refused_with_the_supported_ones(client: OperatorTestClient) -> None:
    response = client.send("PUT", "/scopes/web")

    assert problem(response).detail == "/fleet/v1/scopes/web does not support PUT"
    assert response.status_code == 405
    assert {method.strip() for method in response.headers["allow"].split(",")} == {
        "GET",
        "HEAD",
        "PATCH",
        "DELETE",
    }


@pytest.mark.parametrize("path", ["/machines", "/machines/nobody", "/nothing", "/healthz", "/readyz"])
def test_no_response_is_cached(client: OperatorTestClient, path: str) -> None:
    assert client.send("GET", path).headers["cache-control"] == "no-store"


def test_an_unexpected_error_reveals_no_secrets() -> None:
    def fail(ref: MachineRef) -> str | None:
        raise RuntimeError("password=hunter2")

    client = operator_client(WEB, endpoints=fail)

    response = client.send("GET", "/machines")

    assert response.status_code == 500
    assert problem(response).detail == "internal server error; see the server's log"
    assert response.headers["cache-control"] == "no-store"
