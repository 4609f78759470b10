"""The data of the recorded answers is checked strictly, and what counts as a difference is exact."""

import pytest

from fairwarning.core.document.render import Json
from tests.recorded.members import LayoutError, compare, parse_members
from tests.recorded.stories import read_file, read_stories

PAIR = """
about = "Machines"
[sources]
here = "Some/repository, a/path"
[gaps]
known = ["x: missing"]
[[story]]
name = "one"
[[story.pair]]
name = "A machine is read"
source = "here: GET one"
request = "GET /a?api-version=1"
status = 200
members = 'x: string'
"""


def differences(members: str, document: Json) -> list[str]:
    return list(compare(parse_members(members, {"shape": "x: integer"}), document))


def test_a_document_with_exactly_the_listed_members_does_not_differ() -> None:
    members = "a.b: string\na.c?: boolean\nlist[].n: 1\nfree: object\n@shape\nmore[]: @shape"

    document: Json = {"a": {"b": "t"}, "list": [{"n": 1}], "free": {"y": 1}, "x": 1, "more": [{"x": 2}]}

    assert differences(members, document) == []


@pytest.mark.parametrize(
    ("members", "document", "difference"),
    [
        pytest.param("a.b: string", {"a": {}}, "a.b: missing", id="a missing member"),
        pytest.param("a.b: string", {}, "a: missing", id="the outermost of several missing members"),
        pytest.param("a: string", {"a": "", "b": 1}, "b: extra", id="a member too many"),
        pytest.param("a: integer", {"a": "1"}, "a: string for integer", id="a wrong type"),
        pytest.param("a: integer", {"a": True}, "a: boolean for integer", id="a boolean is no number"),
        pytest.param("a: string", {"a": None}, "a: null for string", id="null is no string"),
        pytest.param("a: guid", {"a": "1-2"}, "a: string for guid", id="a wrong form"),
        pytest.param('a: "b"', {"a": "c"}, 'a: "c" for "b"', id="a wrong value"),
        pytest.param("a: []", {"a": [1]}, "a: array for []", id="a list that is not empty"),
        pytest.param("a[].b: string", {"a": []}, "a[]: missing", id="a list that is empty"),
        pytest.param("a[].b: string", {"a": [{"b": ""}, {}]}, "a[].b: missing", id="one of several items"),
        pytest.param("a.b: string", {"a": []}, "a: array for object", id="a list for an object"),
        pytest.param("a: instant", {"a": "2026-11-16T12:00:00"}, "a: string for instant", id="no time zone"),
    ],
)
def test_a_difference_is_named_by_its_place(members: str, document: Json, difference: str) -> None:
    assert differences(members, document) == [difference]


def test_a_later_line_replaces_an_earlier_one() -> None:
    assert differences('@shape\nx: "text"', {"x": "text"}) == []


def test_azures_instants_have_seven_digits_and_a_zone() -> None:
    assert differences("a: instant", {"a": "2022-11-16T03:57:54.7251916+00:00"}) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("status = 200", "status = 200\nstatu = 1", id="an unknown key"),
        pytest.param("here: GET", "there: GET", id="a source that is not listed"),
        pytest.param("x: string", "x: text", id="an unknown kind"),
        pytest.param("x: string", "x = string", id="a line that is no member"),
        pytest.param("x: string", "@nothing", id="an unknown shape"),
        pytest.param("A machine is read", "a machine is read.", id="a name that is no sentence"),
        pytest.param("GET /a?", "READ /a?", id="a request without a method"),
        pytest.param("?api-version=1", "?api-version=1 with nothing", id="an unknown body"),
        pytest.param("members = 'x: string'", 'error = "Code"', id="a success with the code of an error"),
        pytest.param("status = 200", "status = 200\nempty = true", id="both members and no content"),
        pytest.param("status = 200", 'status = 200\ndiffers = ["unknown"]', id="an unknown gap"),
        pytest.param('["x: missing"]', "[]", id="a gap without a difference"),
    ],
)
def test_data_that_does_not_fit_the_layout_is_refused(old: str, new: str) -> None:
    assert len(read_file(PAIR)) == 1

    with pytest.raises(LayoutError):
        read_file(PAIR.replace(old, new))


def test_every_pair_names_the_repository_and_the_place_of_its_facts() -> None:
    sources = [
        pair.source for stories in read_stories().values() for story in stories for pair in story.pairs
    ]

    assert [source for source in sources if "/" not in source or "(" not in source] == []


def test_the_data_is_large_enough_to_mean_something() -> None:
    pairs = [pair for stories in read_stories().values() for story in stories for pair in story.pairs]

    assert len(pairs) >= 150
    assert sum(pair.status >= 400 for pair in pairs) >= 40
