"""Values are coerced to the types that ARM reads from them."""

import pytest

from fairwarning.arm.templates.coercion import coerce
from fairwarning.core.document.render import Json


@pytest.mark.parametrize(
    ("written", "coerced"),
    [
        pytest.param({"enable": "true"}, {"enable": True}, id="the word true becomes true"),
        pytest.param({"enable": "False"}, {"enable": False}, id="the word false becomes false in any case"),
        pytest.param({"enable": True}, {"enable": True}, id="true stays true"),
        pytest.param(
            {"enable": "maybe"}, {"enable": "maybe"}, id="another word is left for others to refuse"
        ),
        pytest.param({"Primary": "true"}, {"Primary": True}, id="the case of a property does not matter"),
        pytest.param([{"a": [{"primary": "true"}]}], [{"a": [{"primary": True}]}], id="arrays are searched"),
        pytest.param({"name": "true"}, {"name": "true"}, id="a name is no boolean"),
        pytest.param(
            {"tags": {"enable": "true"}}, {"tags": {"enable": "true"}}, id="tags are the user's words"
        ),
        pytest.param({"mode": "manual"}, {"mode": "Manual"}, id="a mode gets its capital"),
        pytest.param({"mode": "odd"}, {"mode": "odd"}, id="an unknown mode is left alone"),
        pytest.param({"priority": "spot"}, {"priority": "Spot"}, id="a priority gets its capital"),
        pytest.param({"priority": 100}, {"priority": 100}, id="a firewall rule's priority is a number"),
        pytest.param(
            {"evictionPolicy": "DELETE"}, {"evictionPolicy": "Delete"}, id="a policy is lowered too"
        ),
    ],
)
def test_a_document_is_read_kindly(written: Json, coerced: Json) -> None:
    assert coerce(written) == coerced
