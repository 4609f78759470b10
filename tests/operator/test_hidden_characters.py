"""Names that operators give have no invisible characters."""

import pytest

from fairwarning.core.blueprint import Blueprint
from tests.operator.operator_client import operator_client

WEB = Blueprint(name="web")


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
