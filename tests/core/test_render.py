"""The documents that guests read, in every version, and the start requests that they send."""

import json
import locale
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.barrier import of_event
from fairwarning.core.document.render import parse_start_requests, render_document
from fairwarning.core.document.versions import EVENT_VERSIONS, PREVIEW_SHAPE, DocumentShape, well_formed
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import (
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    ScopeId,
    ScopeKind,
    VmName,
)

ID = EventId("3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01")
SEPTEMBER = datetime(2016, 9, 9, 8, 29, 47, tzinfo=UTC)
FREEZE = Event(
    id=ID,
    scope=ScopeId("app"),
    cause="freeze",
    kind=EventType.FREEZE,
    source=EventSource.PLATFORM,
    resources=(VmName("app-a"), VmName("app-b")),
    description="",
    duration=9,
    created_at=SEPTEMBER,
    not_before=SEPTEMBER,
    barrier=of_event(ID),
)
NEWEST = EVENT_VERSIONS["2020-07-01"]
OLDEST = EVENT_VERSIONS["2017-03-01"]


def render(event: Event, shape: DocumentShape = NEWEST) -> bytes:
    return render_document(7, [event], shape, ScopeKind.AVAILABILITY_SET)


@pytest.fixture
def german() -> Iterator[None]:
    before = locale.setlocale(locale.LC_TIME)
    for name in ("de_DE.UTF-8", "C.UTF-8"):
        try:
            locale.setlocale(locale.LC_TIME, name)
            break
        except locale.Error:
            continue
    yield
    locale.setlocale(locale.LC_TIME, before)


# -- what guests read


@pytest.mark.rule("V-09")
def test_a_document_is_compact_and_its_keys_come_in_order() -> None:
    assert render(FREEZE) == (
        b'{"DocumentIncarnation":7,"Events":[{'
        b'"EventId":"3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01","EventStatus":"Scheduled","EventType":"Freeze",'
        b'"ResourceType":"VirtualMachine","Resources":["app-a","app-b"],'
        b'"NotBefore":"Fri, 09 Sep 2016 08:29:47 GMT","Description":"","EventSource":"Platform",'
        b'"DurationInSeconds":9}]}'
    )


@pytest.mark.rule("V-03")
@pytest.mark.parametrize(
    ("field", "since"),
    [("Description", "2019-04-01"), ("EventSource", "2019-08-01"), ("DurationInSeconds", "2020-07-01")],
)
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_a_field_is_absent_before_the_version_that_brought_it(field: str, since: str, version: str) -> None:
    text = render(FREEZE, EVENT_VERSIONS[version])

    assert (f'"{field}":'.encode() in text) == (version >= since)


@pytest.mark.rule("V-04")
@pytest.mark.parametrize(
    ("kind", "since"),
    [
        (EventType.FREEZE, "2017-03-01"),
        (EventType.REBOOT, "2017-03-01"),
        (EventType.REDEPLOY, "2017-03-01"),
        (EventType.PREEMPT, "2017-11-01"),
        (EventType.TERMINATE, "2019-01-01"),
        (EventType.REBALANCE, "2024-07-09"),
    ],
)
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_an_event_is_left_out_before_the_version_that_brought_its_kind(
    kind: EventType, since: str, version: str
) -> None:
    text = render(replace(FREEZE, kind=kind), EVENT_VERSIONS[version])

    assert (b'"EventId"' in text) == (version >= since)
    assert text.startswith(b'{"DocumentIncarnation":7,"Events":[')


@pytest.mark.rule("V-04")
def test_the_preview_version_shows_rebalance_recommendations() -> None:
    text = render(replace(FREEZE, kind=EventType.REBALANCE), PREVIEW_SHAPE)

    assert b'"EventType":"SpotRebalanceRecommendation"' in text


@pytest.mark.rule("V-06")
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_only_the_oldest_version_writes_an_underscore_before_names(version: str) -> None:
    text = render(FREEZE, EVENT_VERSIONS[version])

    assert (b'["_app-a","_app-b"]' in text) == (version == "2017-03-01")


@pytest.mark.rule("V-06")
def test_role_instances_never_have_an_underscore() -> None:
    role = replace(FREEZE, resources=(VmName("FrontEnd_IN_0"),))

    assert b'["FrontEnd_IN_0"]' in render_document(7, [role], OLDEST, ScopeKind.CLOUD_SERVICE)


@pytest.mark.rule("V-07")
@pytest.mark.parametrize(
    ("version", "text"),
    [("2017-03-01", "2016-09-09T08:29:47Z"), ("2017-08-01", "Fri, 09 Sep 2016 08:29:47 GMT")],
)
def test_not_before_is_iso_in_the_oldest_version_and_rfc_1123_since(version: str, text: str) -> None:
    assert f'"NotBefore":"{text}"'.encode() in render(FREEZE, EVENT_VERSIONS[version])


@pytest.mark.rule("V-07")
@pytest.mark.usefixtures("german")
def test_not_before_is_english_whatever_the_locale() -> None:
    december = replace(FREEZE, not_before=datetime(2026, 12, 1, tzinfo=UTC))

    assert b'"Tue, 01 Dec 2026 00:00:00 GMT"' in render(december)


@pytest.mark.rule("V-07")
@given(
    st.datetimes(
        min_value=datetime(2000, 1, 1),
        max_value=datetime(2099, 1, 1),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
    )
)
def test_both_forms_of_not_before_say_the_same_instant(instant: datetime) -> None:
    instant = instant.replace(microsecond=0)
    event = replace(FREEZE, not_before=instant)
    texts = [json.loads(render(event, shape))["Events"][0]["NotBefore"] for shape in (NEWEST, OLDEST)]

    assert parsedate_to_datetime(texts[0]) == instant
    assert datetime.fromisoformat(texts[1]) == instant


@pytest.mark.rule("L-03")
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_not_before_is_an_empty_string_once_started(version: str) -> None:
    assert b'"NotBefore":""' in render(replace(FREEZE, status=EventStatus.STARTED), EVENT_VERSIONS[version])


@pytest.mark.rule("V-08")
def test_numbers_are_numbers() -> None:
    assert b'"DocumentIncarnation":7' in render(FREEZE)
    assert b'"DurationInSeconds":-1' in render(replace(FREEZE, duration=-1))


@pytest.mark.rule("V-01")
@pytest.mark.parametrize(
    ("version", "fine"),
    [
        ("2020-07-01", True),
        ("2099-12-31", True),
        ("latest", False),
        ("2020-7-1", False),
        ("2020-07-01 ", False),
        ("2020-07-01\n", False),
        ("²020-07-01", False),
        ("", False),
    ],
)
def test_an_api_version_has_the_form_of_a_date(version: str, fine: bool) -> None:
    assert well_formed(version) == fine


# -- what guests write


@pytest.mark.rule("R-12")
@pytest.mark.parametrize(
    ("body", "ids"),
    [
        pytest.param(b'{"StartRequests":[{"EventId":"A"}]}', ("A",), id="one event"),
        pytest.param(b'{"StartRequests":[{"EventId":"A"},{"EventId":"B"}]}', ("A", "B"), id="several events"),
        pytest.param(b'{"StartRequests":[{"EventId":"a-b"}]}', ("A-B",), id="an id in lower case"),
    ],
)
def test_a_body_names_the_events_to_start(body: bytes, ids: tuple[str, ...]) -> None:
    assert parse_start_requests(body) == ids


@pytest.mark.rule("R-13")
def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_start_requests(b'\xef\xbb\xbf{"StartRequests":[{"EventId":"A"}]}') == ("A",)


@pytest.mark.rule("R-14")
@pytest.mark.parametrize("incarnation", ["5", '"5"', "-1", "null", "{}"])
def test_an_incarnation_in_the_body_is_ignored(incarnation: str) -> None:
    body = f'{{"DocumentIncarnation":{incarnation},"StartRequests":[{{"EventId":"A"}}]}}'

    assert parse_start_requests(body.encode()) == ("A",)


@pytest.mark.rule("R-20")
def test_unknown_members_are_ignored() -> None:
    assert parse_start_requests(b'{"x":1,"StartRequests":[{"EventId":"A","y":[]}]}') == ("A",)


@pytest.mark.rule("R-15")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"StartRequests=x", id="a form"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"StartRequests":{}}', id="requests that are no list"),
        pytest.param(b'{"StartRequests":[]}', id="an empty list"),
        pytest.param(b'{"StartRequests":["A"]}', id="an id that is not in an object"),
        pytest.param(b'{"StartRequests":[{}]}', id="an object without id"),
        pytest.param(b'{"StartRequests":[{"EventId":1}]}', id="a number for an id"),
        pytest.param(b'{"StartRequests":[{"EventId":""}]}', id="an empty id"),
        pytest.param(b'{"StartRequests":[{"EventId":"A"},{}]}', id="one good request and one bad"),
    ],
)
def test_a_malformed_body_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidError):
        parse_start_requests(body)


@pytest.mark.rule("R-20")
@pytest.mark.parametrize(
    "body",
    [b'{"startRequests":[{"EventId":"A"}]}', b'{"StartRequests":[{"eventId":"A"}]}'],
    ids=["the list", "the id"],
)
def test_keys_in_the_body_are_case_sensitive(body: bytes) -> None:
    with pytest.raises(InvalidError):
        parse_start_requests(body)


@pytest.mark.rule("R-15")
@given(st.binary())
def test_no_body_breaks_the_reader(body: bytes) -> None:
    with pytest.raises(InvalidError):
        parse_start_requests(body)
