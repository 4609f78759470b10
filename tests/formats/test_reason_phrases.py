"""A status has the same phrase on every Python."""

import pytest

from fairwarning.formats.reason_phrases import REASON_PHRASES


@pytest.mark.parametrize(
    ("status", "phrase"),
    [
        (200, "OK"),
        (413, "Request Entity Too Large"),
        (414, "Request-URI Too Long"),
        (416, "Requested Range Not Satisfiable"),
        (422, "Unprocessable Entity"),
    ],
)
def test_a_status_has_one_phrase(status: int, phrase: str) -> None:
    assert REASON_PHRASES[status] == phrase
