"""Names that operators give have no invisible characters."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from tests.operator.operator_client import operator_client

WEB = Blueprint(name="web")
RESTART: Json = {"cause": "restart", "machines": ["web_0"]}


@pytest.mark.parametrize("character", ["\u202e", "\u200b", "\u2028", "\x1b", "\0", "\U000e0041"], ids=ascii)
@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        pytest.param("POST", "/events", RESTART, "by", id="an event"),
        pytest.param("POST", "/scopes", {"name": "db"}, "by", id="a set"),
        pytest.param("POST", "/clock/advance", {"by": "1m"}, "who", id="moving the clock"),
    ],
)
def test_an_operator_has_no_hidden_characters_in_the_name(
    method: str, path: str, body: Json, field: str, character: str
) -> None:
    client = operator_client(WEB)
    assert isinstance(body, dict)

    response = client.send(method, path, {**body, field: f"an{character}na"})

    assert response.status_code == 422
    assert response.json()["field"] == field
    assert f"U+{ord(character):04X}" in response.json()["detail"]
    assert client.events() == []


def test_a_set_has_no_hidden_characters_in_its_name() -> None:
    response = operator_client().send("POST", "/scopes", {"name": "we\u202eb"})

    assert response.status_code == 422
    assert "U+202E" in response.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/events/%00"),
        ("POST", "/events/A%00B/cancel"),
        ("POST", "/events/A%00B/approve"),
        ("GET", "/history?event=A%00B"),
        ("GET", "/history?event=A%E2%80%AEB"),
    ],
)
def test_an_event_id_that_no_event_can_have_is_refused(method: str, path: str) -> None:
    response = operator_client(WEB).send(method, path)

    assert response.status_code == 422
    assert response.json()["field"] == "event"
