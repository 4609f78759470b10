"""Parsing documents, in every format that has been observed."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.document.parse import (
    DocumentError,
    ObservedDocument,
    ObservedEvent,
    parse_document,
    parse_instant,
)
from fairwarning.core.document.render import Json, render_document
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.model import EventId, EventType, ScopeKind

SEPTEMBER = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)


def body(*events: dict[str, Json], incarnation: Json = 1) -> bytes:
    return json.dumps({"DocumentIncarnation": incarnation, "Events": list(events)}).encode()


def one(**fields: Json) -> ObservedEvent:
    known = parse_document(body({"EventId": "A", **fields}))
    assert known is not None
    (seen,) = known.events
    return seen


@pytest.mark.rule("V-07", "C-09")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Mon, 19 Sep 2016 18:29:47 GMT", SEPTEMBER, id="as Azure writes it today"),
        pytest.param("2016-09-19T18:29:47Z", SEPTEMBER, id="as the first version wrote it"),
        pytest.param("2016-09-19T20:29:47+02:00", SEPTEMBER, id="in another zone"),
        pytest.param("2016-09-19T18:29:47", SEPTEMBER, id="without a zone"),
        pytest.param("Monday, 19-Sep-16 18:29:47 GMT", SEPTEMBER, id="as RFC 850 has it"),
        pytest.param("", None, id="empty, as it is once started"),
        pytest.param("soon", None, id="not a date"),
        pytest.param("Mon, 99 Sep 2016 18:29:47 GMT", None, id="not a day"),
    ],
)
def test_a_date_is_read_in_either_form(text: str, expected: datetime | None) -> None:
    assert one(NotBefore=text).not_before == expected


def test_an_event_is_read_with_all_its_fields() -> None:
    seen = one(
        EventStatus="Scheduled",
        EventType="Freeze",
        ResourceType="VirtualMachine",
        Resources=["web_0", "web_1"],
        NotBefore="Mon, 19 Sep 2016 18:29:47 GMT",
        Description="a description",
        EventSource="Platform",
        DurationInSeconds=9,
    )

    assert seen == ObservedEvent(
        id=EventId("A"),
        status="Scheduled",
        kind="Freeze",
        resources=("web_0", "web_1"),
        not_before=SEPTEMBER,
        source="Platform",
        description="a description",
        duration=9,
    )
    assert seen.known_kind is EventType.FREEZE
    assert (seen.scheduled, seen.started) == (True, False)


@pytest.mark.rule("C-12")
@pytest.mark.parametrize(
    ("fields", "kind", "status"),
    [
        pytest.param({"EventType": "Relocate"}, "Relocate", "", id="an unknown type"),
        pytest.param({"EventStatus": "Postponed"}, "", "Postponed", id="an unknown status"),
        pytest.param({"Colour": "red"}, "", "", id="an unknown field"),
        pytest.param({"EventType": None, "Resources": None}, "", "", id="nothing where a text should be"),
        pytest.param({"EventType": 7, "Resources": [1, {}]}, "", "", id="numbers where texts should be"),
    ],
)
def test_what_is_not_known_is_survived(fields: dict[str, Json], kind: str, status: str) -> None:
    seen = one(**fields)

    assert (seen.kind, seen.status, seen.known_kind) == (kind, status, None)


@pytest.mark.rule("V-09")
def test_ids_are_compared_without_regard_to_case_and_kept_as_they_were_written() -> None:
    first, second = parse_document(body({"EventId": "aB"})), parse_document(body({"EventId": "Ab"}))

    assert first is not None
    assert second is not None
    assert first.events[0].key == second.events[0].key
    assert first.events[0].id == "aB"


@pytest.mark.rule("C-12")
def test_one_entry_that_makes_no_sense_does_not_hide_the_others() -> None:
    known = parse_document(b'{"DocumentIncarnation":1,"Events":[7,{},{"EventId":""},{"EventId":"A"}]}')

    assert known is not None
    assert [event.id for event in known.events] == ["A"]


@pytest.mark.rule("C-03")
@pytest.mark.parametrize("nothing", [b"", b" \r\n"])
def test_an_empty_body_is_no_information(nothing: bytes) -> None:
    assert parse_document(nothing) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"<html>", id="a page"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no events"),
        pytest.param(b'{"Events":{}}', id="events that are no list"),
        pytest.param(b"\xff\xfe", id="another encoding"),
        pytest.param(b"[" * 100_000, id="a bottomless pit"),
    ],
)
def test_what_is_no_document_is_refused(text: bytes) -> None:
    with pytest.raises(DocumentError, match="the document"):
        parse_document(text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(5, 5, id="a number"),
        pytest.param("5", "5", id="a text"),
        pytest.param(None, "", id="nothing"),
        pytest.param(1.5, "", id="half a number"),
    ],
)
def test_an_incarnation_may_be_anything(written: Json, expected: int | str) -> None:
    known = parse_document(b"\xef\xbb\xbf" + body(incarnation=written))

    assert known == ObservedDocument(incarnation=expected, events=())


@pytest.mark.parametrize("version", list(EVENT_VERSIONS))
def test_what_we_write_in_every_version_we_read(version: str) -> None:
    assert parse_document(
        render_document(1, [], EVENT_VERSIONS[version], ScopeKind.SCALE_SET)
    ) == ObservedDocument(incarnation=1, events=())


@given(st.binary() | st.text().map(str.encode))
def test_no_answer_breaks_the_reader(text: bytes) -> None:
    try:
        parse_document(text)
    except DocumentError:
        return


@given(st.text())
def test_no_date_breaks_the_reader(text: str) -> None:
    found = parse_instant(text)

    assert found is None or found.tzinfo is UTC
