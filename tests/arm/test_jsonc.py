"""Template files with comments, trailing commas and names without quotes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.arm.templates.jsonc import to_strict_json
from fairwarning.core.document.render import Json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        pytest.param(
            '{"properties": {template:{"a": 1}}}', {"properties": {"template": {"a": 1}}}, id="bare name"
        ),
        pytest.param('{"a": 1 // one\n, "b": 2}', {"a": 1, "b": 2}, id="a comment ends with its line"),
        pytest.param('{"a": /* 7,\n */ 1}', {"a": 1}, id="a comment goes over several lines"),
        pytest.param('{"a": [1, 2,], }', {"a": [1, 2]}, id="a comma ends a list"),
        pytest.param('{"a": [1, /* no more */ ]}', {"a": [1]}, id="a comment comes after the last comma"),
        pytest.param(
            '{"a": "http://x/*y*/, ]", "b": "k: v"}', {"a": "http://x/*y*/, ]", "b": "k: v"}, id="strings"
        ),
        pytest.param('{"a": "say \\"// no\\""}', {"a": 'say "// no"'}, id="a quote in a string"),
        pytest.param('{"a": "one\n\ttwo"}', {"a": "one\n\ttwo"}, id="a string goes over several lines"),
    ],
)
def test_what_is_almost_json_becomes_json(text: str, meaning: Json) -> None:
    assert json.loads(to_strict_json(text)) == meaning


@settings(max_examples=25)
@given(JSON)
def test_what_is_json_keeps_its_meaning(document: Json) -> None:
    check_meaning(document)


@pytest.mark.slow
@settings(max_examples=100)
@given(JSON)
def test_many_documents_of_json_keep_their_meaning(document: Json) -> None:
    check_meaning(document)


def check_meaning(document: Json) -> None:
    """Check that a document means the same afterwards, however it is written."""
    assert json.loads(to_strict_json(json.dumps(document, indent=1))) == document
    assert json.loads(to_strict_json(json.dumps(document, ensure_ascii=False))) == document


@pytest.mark.parametrize(
    "text", ["/*" * 200_000, '"' + "\\" * 400_001, "a" * 400_000, ", " * 200_000, "a " * 200_000]
)
def test_nonsense_is_read_in_no_time(text: str) -> None:
    to_strict_json(text)
