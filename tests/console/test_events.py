"""The events pages: pending and ended events, the page of an event, the timeline of a scope."""

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from fairwarning.console import journal
from fairwarning.console.pages import events
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, ReportOutcomes, Schedule
from fairwarning.core.fleet import Observation, Progress
from fairwarning.core.model import ScopeId, ScopeKind, VmName
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, text
from tests.console.stream import live

WEB = Blueprint(name="web", count=3, terminate_notice=timedelta(minutes=5))
APP = Blueprint(name="app", count=2, kind=ScopeKind.AVAILABILITY_SET)
HOSTILE = "<img src=x onerror=alert(1)>"


def hostile_event(client: ConsoleTestClient) -> str:
    """Return an event that was requested and approved under a hostile name."""
    ref = client.stage.ref("web_0")
    event = client.stage.new_id()
    client.stage.do(Schedule(id=event, cause="restart", machines=(ref,), by=HOSTILE))
    client.stage.do(Approve(scope=ref.scope, ids=(event,), by=HOSTILE))
    return event


def test_pending_events_are_listed_soonest_first_with_all_one_needs_to_decide() -> None:
    client = console_client(WEB)
    client.stage.cause("restart", "web_0")
    client.stage.cause("redeploy", "web_1")

    words = text(client.page("/events"))

    assert words.index("Redeploy") < words.index("Reboot")
    for word in (
        "web_1",
        "▲ Scheduled",
        "2026-11-16 12:10:00Z",
        "not approved yet",
        "User redeploy",
        "Approve",
    ):
        assert word in words


@pytest.mark.parametrize("path", ["/events", "/events/{event}", "/scopes/web", "/maintenance"])
def test_the_machines_of_a_pending_event_lead_to_their_pages(path: str) -> None:
    client = console_client(WEB)
    client.stage.walk("web")
    (event,) = client.stage.pending("web")

    page = client.page(path.format(event=event.id))

    assert "/machines/web/web_0" in [element["href"] for element in ParsedPage(page, "a").attributes]


def test_an_overdue_event_is_shown_as_such() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0", notice="0s")
    late = Observation(event=event, machine=VmName("web_0"), progress=Progress.ACTING, problem="no report")

    client.stage.do(ReportOutcomes(scope=ScopeId("web"), observations=(late,)))

    assert "▶ Started, overdue" in text(client.page("/events"))
    assert "overdue" in text(client.page(f"/events/{event}"))


def test_without_events_the_page_says_what_to_do_first() -> None:
    words = text(console_client(WEB).page("/events"))

    assert "No pending events." in words
    assert "restart it" in words


def test_a_scope_can_be_chosen_and_stays_chosen_when_a_button_is_pressed() -> None:
    client = console_client(WEB, APP)
    client.stage.cause("restart", "web_0")
    (wanted,) = client.stage.cause("restart", "app-0")

    page = client.page("/events?scope=app")
    answer = client.press(f"/events/{wanted}/approve", page="/events?scope=app", back="events", scope="app")

    assert "app-0" in text(page)
    assert "web_0" not in text(page)
    assert answer.headers["location"] == "/events?scope=app"


def test_a_scope_that_is_unknown_has_no_events_and_is_shown_as_text() -> None:
    page = console_client(WEB).page(f"/events?scope={HOSTILE}")

    assert HOSTILE not in page
    assert f"No pending events in {HOSTILE}." in text(page)


@pytest.mark.rule("R-18")
def test_approve_lets_an_event_start_and_says_who() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    words = text(client.accepted(f"/events/{event}/approve", page="/events", back="events"))

    assert f"Event {event[:8]} approved; it has started." in words
    assert "▶ Started" in words
    assert "operator:console" in words


@pytest.mark.rule("R-17")
def test_a_second_approval_names_the_first() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.approve(event, by="web_1")

    words = text(client.accepted(f"/events/{event}/approve", page="/clock"))

    assert f"Event {event[:8]} was already approved by web_1; it has started." in words


@pytest.mark.rule("L-22")
@pytest.mark.rule("T-14")
def test_an_approval_that_waits_for_others_says_so() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("delete", "web_0")
    client.stage.cause("delete", "web_1")

    words = text(client.accepted(f"/events/{event}/approve", page="/events"))

    assert "approved; it waits for 1 other delete of web." in words
    assert "✓ Scheduled, approved, waits for 1 other delete of web" in words
    assert "waits for 1 other delete of web" in text(client.page(f"/events/{event}"))


@pytest.mark.rule("R-30")
def test_the_page_of_an_event_says_when_its_machines_first_read_it() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    unread = text(client.page(f"/events/{event}"))
    client.stage.read(event, "web_0")

    read = text(client.page(f"/events/{event}"))

    assert "First read web_0 not yet" in unread
    assert "First read web_0 2026-11-16 12:00:00Z" in read


def test_cancel_withdraws_an_event_and_it_is_listed_as_over() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    words = text(client.accepted(f"/events/{event}/cancel", page="/events"))

    assert "No pending events." in words
    assert "✕ cancelled" in words


def test_what_has_started_cannot_be_cancelled_and_its_page_says_why() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("hardware-failure", "web_0")

    page = client.refused(f"/events/{event}/cancel", page="/clock", status=409)

    assert f"event {event} is Started; it cannot be cancelled" in text(page)


def test_an_event_that_is_over_cannot_be_approved_and_its_page_says_why() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.cancel(event)

    page = client.refused(f"/events/{event}/approve", page="/clock", status=404)

    assert f"no scheduled event has the id {event}" in text(page)
    assert "✕ cancelled" in text(page)


def test_what_is_over_is_listed_the_latest_first() -> None:
    client = console_client(WEB)
    client.stage.cause("restart", "web_0")
    (second,) = client.stage.cause("restart", "web_1")
    client.stage.cancel(second)
    client.stage.advance("1h")

    words = text(client.page("/events"))

    assert words.index("web_0 ● finished") < words.index("web_1 ✕ cancelled")


def test_more_than_can_be_read_is_cut_short_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_PENDING", 2)
    client = console_client(WEB)
    for number in range(3):
        client.stage.cause("restart", f"web_{number}")

    words = text(client.page("/events"))

    assert "Showing the 2 soonest of 3" in words


def test_an_event_that_was_shown_to_no_guest_is_marked() -> None:
    client = console_client(WEB, watched=False)
    client.stage.cause("freeze", "web_0")

    assert "unseen" in text(client.page("/events"))


@pytest.mark.parametrize("page", ["/events", "/events?scope=web"])
def test_the_tables_are_live(page: str) -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    sent = live(client, page)

    assert f'id="event-{event}"' in sent
    assert 'id="ended"' in sent


def test_an_event_has_a_page_of_its_own_with_its_steps() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.advance("1m")
    client.stage.approve(event, by="web_1")
    client.stage.advance("1m")

    words = text(client.page(f"/events/{event}"))

    assert "Reboot of web_0" in words
    steps = words[words.index("What happened") :]
    for step in (
        "2026-11-16 12:00:00Z announced by operator",
        "2026-11-16 12:01:00Z approved by web_1",
        "2026-11-16 12:01:00Z impact started by web_1",
        "2026-11-16 12:01:05Z impact ended on web_0 by driver",
        "2026-11-16 12:01:05Z finished by platform",
    ):
        assert step in steps


def test_the_page_of_a_pending_event_counts_down_and_has_its_buttons() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    page = client.page(f"/events/{event.lower()}")

    assert 'class="countdown" datetime="2026-11-16T12:15:00.000Z"' in page
    assert f'action="/events/{event}/approve"' in page
    assert f'action="/events/{event}/cancel"' in page


def test_an_event_of_long_ago_is_drawn_with_what_happened_at_the_same_time() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.cause("restart", "web_1")
    client.stage.advance("30d")
    client.stage.cause("freeze", "web_2")

    page = client.page(f"/events/{event}")

    assert "Reboot of web_0, restart" in page
    assert "Reboot of web_1, restart" in page
    assert "Freeze of web_2" not in page


def test_an_unknown_event_has_no_page() -> None:
    page = console_client(WEB).page(f"/events/{HOSTILE}", status=404)

    assert HOSTILE not in page
    assert f"no scheduled event has the id {HOSTILE}" in text(page)


def test_the_steps_and_the_timeline_of_an_event_are_live() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    sent = live(client, f"/events/{event}")

    assert 'id="event-details"' in sent
    assert 'id="timeline"' in sent


def test_a_scope_has_a_timeline_that_looks_as_far_as_one_likes() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.cancel(event)
    client.stage.advance("3h")

    assert "no events in this period" in client.page("/scopes/web/timeline?hours=1")
    assert "Reboot of web_0" in client.page("/scopes/web/timeline?hours=6")
    assert "Reboot of web_0" in client.page(f"/scopes/web/timeline?hours={HOSTILE}")


def test_what_happens_elsewhere_does_not_crowd_an_event_out_of_its_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "MOST_CHANGES", 4)
    client = console_client(WEB, APP)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.cancel(event)
    for _ in range(3):
        client.stage.cancel(*client.stage.cause("restart", "app-0"))

    assert str(event) in client.page("/scopes/web/timeline")
    assert event[:8] in client.page("/events?scope=web")


def test_a_timeline_shows_its_own_scope_alone() -> None:
    client = console_client(WEB, APP)
    client.stage.cause("restart", "web_0")

    assert "web_0" not in client.page("/scopes/app/timeline")


@pytest.mark.parametrize("path", ["/scopes/nowhere/timeline", "/scopes/nowhere/timeline.svg"])
def test_an_unknown_scope_has_no_timeline(path: str) -> None:
    assert "no scope named nowhere" in text(console_client(WEB).page(path, status=404))


def test_a_scope_that_is_no_more_still_has_its_timeline() -> None:
    client = console_client(WEB)
    client.stage.remove("web", force=True)
    client.stage.advance("1m")

    assert "Terminate of web_0" in client.page("/scopes/web/timeline")


def test_the_timeline_can_be_downloaded() -> None:
    client = console_client(Blueprint(name="web", group="prod", count=1))
    client.stage.cause("restart", "web_0")

    answer = client.send("GET", "/scopes/prod/web/timeline.svg?hours=6")

    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''prod%2Fweb-timeline-20261116T120000Z.svg"
    )
    assert ElementTree.fromstring(answer.text).get("role") == "img"


def test_hostile_words_are_shown_as_text_everywhere() -> None:
    client = console_client(WEB)
    event = hostile_event(client)

    pages = [client.page(path) for path in ("/events", f"/events/{event}", "/scopes/web/timeline")]
    sent = live(client, f"/events/{event}")

    for page in (*pages, sent):
        assert "<img" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_a_button_never_leads_to_another_site() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    answer = client.press(
        f"/events/{event}/approve", page="/events", back="https://evil.example/", scope="//evil"
    )

    assert answer.headers["location"] == "/events"


def test_a_button_pressed_without_the_csrf_token_does_nothing() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    answer = client.send("POST", f"/events/{event}/approve", {"csrf": "guessed"})

    assert answer.status_code == 403
    assert client.stage.scope(ScopeId("web")).events[event].approved_by is None
