"""Access to the operator API: tokens, host names, web pages of other sites."""

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.operator.app import create_app
from tests.fleet_harness import FleetHarness
from tests.operator.operator_client import operator_client

WEB = Blueprint(name="web")
TOKEN = "correct horse battery"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080",
        "http://localhost:8080",
        "http://localhost",
        "http://[::1]:8080",
        "http://127.9.9.9",
    ],
)
def test_on_loopback_a_name_of_this_machine_needs_no_token(url: str) -> None:
    client = operator_client(WEB)

    assert client.send("GET", "/machines", url=url).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://evil.example:8080", id="a rebound name"),
        pytest.param("http://127.0.0.1.evil.example", id="a name that looks like an address"),
        pytest.param("http://192.0.2.7:8080", id="another address"),
        pytest.param("http://localhost.evil.example", id="a name that begins with localhost"),
    ],
)
def test_on_loopback_a_foreign_host_name_is_refused(url: str) -> None:
    client = operator_client(WEB)

    response = client.send("GET", "/machines", url=url)

    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://["])
def test_a_web_page_of_another_site_may_not_call(origin: str) -> None:
    client = operator_client(WEB)

    response = client.send(
        "POST", "/events", {"cause": "restart", "machines": ["web_0"]}, headers={"Origin": origin}
    )

    assert response.status_code == 403
    assert client.events() == []


def test_a_web_page_of_the_same_site_may_call() -> None:
    client = operator_client(WEB)

    assert client.send("GET", "/events", headers={"Origin": "http://127.0.0.1:8080"}).status_code == 200


@pytest.mark.parametrize("loopback", [True, False], ids=["on loopback", "elsewhere"])
@pytest.mark.parametrize(
    "header",
    [
        pytest.param({}, id="no token"),
        pytest.param({"Authorization": "Bearer wrong"}, id="another token"),
        pytest.param({"Authorization": TOKEN}, id="the token without its scheme"),
        pytest.param({"Authorization": f"Basic {TOKEN}"}, id="another scheme"),
        pytest.param({"Authorization": "Bearer \xe9"}, id="a token outside ASCII"),
    ],
)
def test_with_a_token_set_every_request_needs_it(header: dict[str, str], loopback: bool) -> None:
    client = operator_client(WEB, token=TOKEN, loopback=loopback)

    response = client.send("GET", "/machines", headers=header)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in response.text


def test_with_the_token_every_name_is_served() -> None:
    client = operator_client(WEB, token=TOKEN, loopback=False)

    response = client.send(
        "GET", "/machines", headers={"Authorization": f"bearer {TOKEN}"}, url="http://fleet.example"
    )

    assert response.status_code == 200


def test_the_health_check_needs_no_token() -> None:
    client = operator_client(WEB, token=TOKEN, loopback=False)

    response = client.send("GET", "/healthz", url="http://192.0.2.7")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_off_loopback_nothing_is_served_without_a_token() -> None:
    stage = FleetHarness()

    with pytest.raises(ValueError, match="needs a token"):
        create_app(Control(stage.engine), endpoints=lambda ref: None, loopback=False)
