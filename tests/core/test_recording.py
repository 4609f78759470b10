"""The format of recordings, and recorded documents rendered for a replay."""

import json
from datetime import datetime, timedelta

import pytest

from fairwarning.core.document.recording import (
    MachineRecording,
    RecordedDocument,
    RecordingError,
    format_line,
    parse_recording,
    record_document,
    render_recorded,
    split_by_machine,
)
from fairwarning.core.document.render import Json
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.errors import InvalidError
from tests.fleet_harness import NOON

REBOOT: dict[str, Json] = {
    "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["web_0"],
    "NotBefore": "Mon, 16 Nov 2026 12:15:00 GMT",
    "Description": "Host server is undergoing maintenance.",
    "EventSource": "Platform",
    "DurationInSeconds": 9,
}


def shown(
    *events: Json, number: int = 2, machine: str | None = "web_0", version: str = "2020-07-01", after: int = 0
) -> RecordedDocument:
    at = NOON + timedelta(seconds=after)
    return record_document(at, machine, version, {"DocumentIncarnation": number, "Events": [*events]})


def written(
    one: RecordedDocument, version: str = "2020-07-01", moved: timedelta = timedelta(0)
) -> list[dict[str, Json]]:
    def later(instant: datetime) -> datetime:
        return instant + moved

    body = render_recorded(one, one.incarnation, EVENT_VERSIONS[version], later)
    events: list[dict[str, Json]] = json.loads(body)["Events"]
    return events


def line_with(**changes: Json) -> str:
    whole: dict[str, Json] = json.loads(format_line(shown(REBOOT)))
    return json.dumps({**whole, **changes})


def test_what_is_written_is_what_is_read() -> None:
    whole = (shown(), shown(REBOOT, number=3, machine=None, after=1))

    text = "".join(f"{format_line(one)}\n" for one in whole)

    assert parse_recording(text) == whole
    assert text.startswith('{"at":"2026-11-16T12:00:00.000Z","machine":"web_0","api_version":"2020-07-01"')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "text: is not JSON", id="an empty line"),
        pytest.param("[" * 100_000, "text: is not JSON", id="brackets without end"),
        pytest.param("[]", "text: is not a JSON object", id="a list"),
        pytest.param(line_with(at="noon"), "at: must be an instant like 2026-11-16T12:00:00Z", id="no time"),
        pytest.param(
            line_with(at=12), "at: must be an instant like 2026-11-16T12:00:00Z", id="a number as time"
        ),
        pytest.param(line_with(machine=7), "machine: must be a name or null", id="a number as name"),
        pytest.param(line_with(machine=""), "machine: must be a name or null", id="an empty name"),
        pytest.param(
            line_with(api_version="new"), "api_version: must be a version like 2020-07-01", id="no version"
        ),
        pytest.param(line_with(document=None), "document: must be an object", id="no document"),
        pytest.param(
            line_with(document={"DocumentIncarnation": "2", "Events": []}),
            "DocumentIncarnation: must be a whole number",
            id="a text as number",
        ),
        pytest.param(
            line_with(document={"DocumentIncarnation": 2}), "Events: must be a list", id="no list of events"
        ),
        pytest.param(
            line_with(document={"DocumentIncarnation": 2, "Events": ["Reboot"]}),
            "Events: each must be an object",
            id="a text as event",
        ),
        pytest.param(
            line_with(document={"DocumentIncarnation": 2, "Events": [{"EventId": "A\0B"}]}),
            "EventId: must be at most 64 printable characters",
            id="an id that no event can have",
        ),
        pytest.param(
            line_with(document={"DocumentIncarnation": 2, "Events": [{"EventId": 7}]}),
            "Events: each must have an EventId",
            id="an event without an id",
        ),
    ],
)
def test_garbage_is_refused_by_its_line_and_what_is_wrong_with_it(text: str, problem: str) -> None:
    good = format_line(shown())

    with pytest.raises(RecordingError) as refusal:
        parse_recording(f"{good}\n{text}\n{good}\n")

    assert str(refusal.value) == f"line 2: {problem}"


def test_a_recording_is_played_to_the_machines_it_names() -> None:
    first, second = shown(machine="web_0"), shown(machine="web_1", after=5)

    found = split_by_machine([second, first])

    assert found == {
        "web_0": MachineRecording(begins=NOON, documents=(first,)),
        "web_1": MachineRecording(begins=NOON, documents=(second,)),
    }


@pytest.mark.parametrize(
    ("names", "machine", "whose"),
    [
        pytest.param([None], "db", ["db"], id="who has no name is given one"),
        pytest.param(["web_0"], "db", ["db"], id="who has a name is given another"),
        pytest.param([None, "web_0"], None, ["web_0"], id="a name that came late is meant from the start"),
    ],
)
def test_a_recording_of_one_machine_is_all_its_own(
    names: list[str | None], machine: str | None, whose: list[str]
) -> None:
    whole = [shown(machine=name, after=number) for number, name in enumerate(names)]

    found = split_by_machine(whole, machine)

    assert list(found) == whose
    assert found[whose[0]].documents == tuple(whole)


@pytest.mark.parametrize(
    ("names", "machine", "problem"),
    [
        pytest.param([], None, "is empty", id="nothing was recorded"),
        pytest.param([None], None, "does not name its machine", id="no name"),
        pytest.param(
            ["web_0", "web_1"], "db", "contains several machines: web_0, web_1", id="two cannot be one"
        ),
        pytest.param(
            ["web_0", "web_1", None],
            None,
            "contains several machines: web_0, web_1",
            id="a third has no name",
        ),
    ],
)
def test_a_recording_that_may_be_anybodys_is_refused(
    names: list[str | None], machine: str | None, problem: str
) -> None:
    with pytest.raises(InvalidError) as refusal:
        split_by_machine([shown(machine=name) for name in names], machine)

    assert refusal.value.problem == problem


@pytest.mark.rule("V-03")
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_a_document_has_the_fields_of_the_version_that_is_asked(version: str) -> None:
    (event,) = written(shown(REBOOT), version)

    assert tuple(event) == EVENT_VERSIONS[version].fields


def test_what_was_not_recorded_is_not_made_up() -> None:
    plain = {name: value for name, value in REBOOT.items() if name in EVENT_VERSIONS["2019-01-01"].fields}

    (event,) = written(shown(plain, version="2019-01-01"), "2020-07-01")

    assert event == plain


def test_unknown_fields_and_values_are_kept() -> None:
    odd: Json = {**REBOOT, "EventType": "Relocate", "Mood": "sunny"}

    (event,) = written(shown(odd), "2017-08-01")

    assert (event["EventType"], event["Mood"]) == ("Relocate", "sunny")


def test_a_type_that_a_version_does_not_know_is_left_out() -> None:
    spot: Json = {**REBOOT, "EventType": "Preempt"}

    assert written(shown(REBOOT, spot), "2017-08-01") == written(shown(REBOOT), "2017-08-01")


@pytest.mark.parametrize(
    ("was", "asked", "before", "after"),
    [
        pytest.param(
            "2020-07-01", "2017-03-01", "web_0", "_web_0", id="the oldest version gets its underscore"
        ),
        pytest.param("2017-03-01", "2020-07-01", "_web_0", "web_0", id="and a newer one loses it"),
        pytest.param("2017-03-01", "2017-03-01", "_web_0", "_web_0", id="it is never doubled"),
        pytest.param("2020-07-01", "2020-07-01", "_web_0", "_web_0", id="nor is a name of its own cut"),
        pytest.param("2031-01-01", "2020-07-01", "web_0", "web_0", id="a version to come is like the newest"),
    ],
)
def test_names_are_spelled_as_the_version_wants_them(was: str, asked: str, before: str, after: str) -> None:
    (event,) = written(shown({**REBOOT, "Resources": [before]}, version=was), asked)

    assert event["Resources"] == [after]


@pytest.mark.parametrize(
    ("not_before", "version", "later"),
    [
        pytest.param(
            "Mon, 16 Nov 2026 12:15:00 GMT", "2020-07-01", "Mon, 16 Nov 2026 13:15:00 GMT", id="a date"
        ),
        pytest.param(
            "2026-11-16T12:15:00Z", "2020-07-01", "Mon, 16 Nov 2026 13:15:00 GMT", id="the old form"
        ),
        pytest.param(
            "Mon, 16 Nov 2026 12:15:00 GMT", "2017-03-01", "2026-11-16T13:15:00Z", id="asked in the old form"
        ),
        pytest.param("", "2020-07-01", "", id="no date stays none"),
        pytest.param("soon", "2020-07-01", "soon", id="what is no date stays what it is"),
        pytest.param(None, "2020-07-01", None, id="and so does what is no text"),
    ],
)
def test_dates_are_moved_and_nothing_else_is(not_before: Json, version: str, later: Json) -> None:
    (event,) = written(shown({**REBOOT, "NotBefore": not_before}), version, moved=timedelta(hours=1))

    assert event["NotBefore"] == later
