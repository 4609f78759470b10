"""The history page: its filters, its pages and its export."""

import csv
import io
import json

import pytest

from fairwarning.console.journal import PAGE_SIZE
from fairwarning.control.control import Control
from fairwarning.control.draft import Draft
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, Schedule
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import OPERATOR, EventId, MachineRef, ScopeId, VmName
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, text
from tests.console.stream import live
from tests.fleet_harness import run

WEB = Blueprint(name="web", count=3)
HOSTILE = "<img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(1)"


def rows(page: str) -> int:
    """Return how many lines a page shows."""
    return sum(element.get("id", "").startswith("line-") for element in ParsedPage(page, "tr").attributes)


def asked_by(client: ConsoleTestClient, name: str) -> EventId:
    """Restart a machine under a name."""
    event = client.stage.new_id()
    client.stage.do(Schedule(id=event, cause="restart", machines=(client.stage.ref("web_0"),), by=name))
    return event


def test_every_change_is_told_with_who_and_when() -> None:
    client = console_client(WEB)
    asked_by(client, "operator:alice")

    words = text(client.page("/history"))

    assert "2026-11-16 12:00:00Z scheduled Reboot web_0 web operator:alice" in words
    assert "machine running web_2" in words
    assert "made scale-set web operator model 1" in words


def test_what_was_refused_is_told_with_the_reason() -> None:
    client = console_client(WEB)
    with pytest.raises(FairWarningError):
        run(Control(client.stage.engine).cause(OPERATOR, "evict", ["web_0"]))

    assert "refused evict web_0 web operator web_0 is not a Spot machine" in text(client.page("/history"))


def test_an_empty_history_says_what_to_do_first() -> None:
    assert "Nothing has happened yet." in text(console_client().page("/history"))


@pytest.mark.parametrize(
    ("query", "count"),
    [
        pytest.param("kind=scheduled", 2, id="by what happened"),
        pytest.param("kind=scheduled&who=alice", 1, id="by who, a part of the name"),
        pytest.param("machine=web_1&kind=scheduled", 1, id="by machine"),
        pytest.param("scope=app", 0, id="by scope"),
        pytest.param("text=reboot&kind=scheduled", 2, id="by a text"),
        pytest.param("text=no+such+text", 0, id="by a text that is nowhere"),
    ],
)
def test_only_what_is_asked_for_is_shown(query: str, count: int) -> None:
    client = console_client(WEB)
    asked_by(client, "operator:alice")
    client.stage.cause("restart", "web_1")

    page = client.page(f"/history?{query}")

    assert rows(page) == count
    assert ("No matching lines." in text(page)) == (count == 0)


def test_one_event_is_found_by_the_beginning_of_its_id() -> None:
    client = console_client(WEB)
    event = asked_by(client, "operator")
    client.stage.cause("restart", "web_1")

    assert rows(client.page(f"/history?event={event[:6].lower()}")) == 1


def test_what_was_asked_for_stays_in_the_form_and_in_the_links() -> None:
    page = console_client(WEB).page("/history?machine=web_1&kind=machine")

    (machine,) = [
        element for element in ParsedPage(page, "input").attributes if element.get("name") == "machine"
    ]
    assert machine["value"] == "web_1"
    links = [element["href"] for element in ParsedPage(page, "a").attributes]
    assert {f"/history.{form}?machine=web_1&kind=machine" for form in ("csv", "json")} <= set(links)


def test_older_lines_are_on_further_pages() -> None:
    client = console_client(Blueprint(name="web", count=PAGE_SIZE + 50))

    first = client.page("/history?kind=machine")
    (older,) = [
        element["href"] for element in ParsedPage(first, "a").attributes if "before=" in element["href"]
    ]
    second = client.page(older)

    assert (rows(first), rows(second)) == (PAGE_SIZE, 50)
    assert "kind=machine" in older
    assert "Back to the newest" in text(second)


@pytest.mark.parametrize("before", ["-1", "x", "1" * 40, HOSTILE])
def test_a_page_that_does_not_exist_is_refused_in_words(before: str) -> None:
    page = console_client(WEB).page(f"/history?before={before}", status=422)

    assert "must be a line number" in text(page)
    assert "<img" not in page


def test_the_lines_are_live() -> None:
    client = console_client(WEB)
    event = asked_by(client, "operator:alice")

    sent = live(client, "/history?kind=scheduled")

    assert f"/events/{event}" in sent
    assert "published" not in sent


def test_csv_has_every_line_that_is_asked_for_and_nothing_a_spreadsheet_computes() -> None:
    client = console_client(WEB)
    asked_by(client, FORMULA)

    answer = client.send("GET", "/history.csv?kind=scheduled")

    heading, row = csv.reader(io.StringIO(answer.text, newline=""))
    assert dict(zip(heading, row, strict=True))["by"] == f"'{FORMULA}"
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename=history.csv"


def test_json_has_every_line_oldest_first() -> None:
    client = console_client(WEB)
    asked_by(client, "operator:alice")

    answer = client.send("GET", "/history.json")

    lines = json.loads(answer.text)
    assert [line["seq"] for line in lines] == [entry.seq for entry in client.stage.journal()]
    assert answer.headers["content-disposition"] == "attachment; filename=history.json"


@pytest.mark.parametrize("field", ["scope", "machine", "event", "who", "kind", "text"])
def test_hostile_filters_are_shown_as_text(field: str) -> None:
    page = console_client(WEB).page(f"/history?{field}={HOSTILE}")

    assert "<img" not in page


def _cause(draft: Draft, machine: MachineRef) -> None:
    draft.cause(HOSTILE, [machine])


def test_hostile_names_are_shown_as_text() -> None:
    client = console_client(WEB)
    asked_by(client, HOSTILE)
    ghost = MachineRef(ScopeId(HOSTILE), VmName(HOSTILE))
    with pytest.raises(FairWarningError):
        run(Control(client.stage.engine).carry_out(OPERATOR, lambda draft: _cause(draft, ghost)))
    client.stage.do(
        CreateSet(seed="s", blueprint=Blueprint(name="tagged", tags=((HOSTILE, HOSTILE),)), by=HOSTILE)
    )

    page = client.page("/history")

    assert "<img" not in page
    assert HOSTILE in text(page)
