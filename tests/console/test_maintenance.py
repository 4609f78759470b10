"""The maintenance page: starting a walk, watching it, stopping it."""

import pytest

from fairwarning.console.pages.maintenance import Domain, DomainProgress, domains
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import StartRollout
from fairwarning.core.model import ScopeId, ScopeKind
from tests.console.console_client import lobby, text
from tests.console.stream import live
from tests.fleet_harness import FleetHarness

APP = Blueprint(name="app", count=4, kind=ScopeKind.AVAILABILITY_SET, update_domains=3)
HERE = "/maintenance"
HOSTILE = "<img src=x onerror=alert(1)>"


def progress(stage: FleetHarness, scope: str = "app") -> list[tuple[str, DomainProgress]]:
    """Return how far the walk of a scope is with each domain."""
    its = stage.scope(scope)
    assert its.facts.walk is not None
    return [(one.label, one.progress) for one in domains(its, its.facts.walk)]


@pytest.mark.rule("S-05")
def test_a_walk_is_done_with_one_domain_before_it_comes_to_the_next() -> None:
    stage = FleetHarness(APP)
    stage.walk("app")

    before = progress(stage)
    stage.advance("15m30s")
    after = progress(stage)

    assert before == [
        ("UD 0", DomainProgress.UNDER_WAY),
        ("UD 1", DomainProgress.TO_COME),
        ("UD 2", DomainProgress.TO_COME),
    ]
    assert after == [
        ("UD 0", DomainProgress.DONE),
        ("UD 1", DomainProgress.UNDER_WAY),
        ("UD 2", DomainProgress.TO_COME),
    ]


@pytest.mark.rule("S-04")
def test_a_flexible_set_is_walked_by_fault_domains() -> None:
    stage = FleetHarness(Blueprint(name="pool", count=2, kind=ScopeKind.FLEXIBLE_SET))
    stage.walk("pool")

    assert progress(stage, "pool") == [("FD 0", DomainProgress.UNDER_WAY), ("FD 1", DomainProgress.TO_COME)]


def test_a_domain_names_its_machines() -> None:
    stage = FleetHarness(APP)
    stage.walk("app")
    scope = stage.scope("app")
    assert scope.facts.walk is not None

    first = domains(scope, scope.facts.walk)[0]

    assert first == Domain(label="UD 0", progress=DomainProgress.UNDER_WAY, machines=first.machines)
    assert first.machines == ("app-0", "app-3")


def test_without_machines_the_page_says_what_to_do_first() -> None:
    words = text(lobby().page(HERE))

    assert "No maintenance is under way." in words
    assert "Create a set of machines first" in words


def test_a_walk_is_started_and_shown_with_its_events() -> None:
    desk = lobby(APP)

    words = text(desk.done(HERE, page=HERE, scope="app", cause="host-reboot", notice="30m"))

    assert "host-reboot walks through app" in words
    assert "started by operator:console, 30m of notice; 0 of 3 domains done" in words
    assert "UD 0 ▶ under way 2 machines UD 1 · to come 1 machine UD 2 · to come 1 machine" in words
    assert "Reboot" in words


def test_a_walk_that_nobody_would_see_says_so() -> None:
    desk = lobby(APP, watched=False)

    words = text(desk.done(HERE, page=HERE, scope="app"))

    assert "nobody polls app: will act unseen" in words


def test_a_scope_that_is_walked_is_not_offered_again() -> None:
    desk = lobby(APP, Blueprint(name="web", count=1))
    desk.stage.walk("app")

    page = desk.page(HERE)

    assert '<option value="web"' in page
    assert '<option value="app"' not in page


@pytest.mark.parametrize(
    ("form", "words"),
    [
        pytest.param({}, "choose a scope", id="no scope"),
        pytest.param({"scope": "nowhere"}, "no scope is called nowhere", id="an unknown scope"),
        pytest.param({"scope": "app", "cause": "restart"}, "must be one of", id="no maintenance"),
        pytest.param({"scope": "app", "notice": "soon"}, "'soon' is no duration", id="no duration"),
    ],
)
def test_mistakes_are_told_in_place_and_what_was_written_stays(form: dict[str, str], words: str) -> None:
    desk = lobby(APP)

    page = desk.refused(HERE, page=HERE, status=422, **form)

    assert words in text(page)
    assert form.get("notice", "") in page
    assert desk.stage.scope("app").facts.walk is None


def test_a_second_walk_of_a_scope_is_refused_in_words() -> None:
    desk = lobby(APP)
    desk.stage.walk("app")

    page = desk.refused(HERE, page=HERE, status=409, scope="app")

    assert "scope app is being walked already" in text(page)


def test_a_walk_can_be_stopped_and_is_remembered() -> None:
    desk = lobby(APP)
    desk.stage.walk("app")

    words = text(desk.done(f"{HERE}/app/stop", page=HERE))

    assert "the walk through app is stopped" in words
    assert "host-update of app: 2 events, 2 cancelled" in words
    assert desk.stage.pending("app") == ()


def test_stopping_what_is_not_walked_is_refused_in_words() -> None:
    page = lobby(APP).refused(f"{HERE}/app/stop", page=HERE, status=404)

    assert "no walk is under way in scope app" in text(page)


def test_an_event_that_is_still_scheduled_can_be_cancelled_here_and_the_walk_goes_on() -> None:
    desk = lobby(Blueprint(name="app", count=2, kind=ScopeKind.AVAILABILITY_SET))
    desk.stage.walk("app")
    (event,) = desk.stage.pending("app")

    words = text(desk.done(f"/events/{event.id}/cancel", page=HERE, back="maintenance"))

    assert f"event {event.id[:8]} cancelled" in words
    assert "UD 0 ✓ done 1 machine UD 1 ▶ under way 1 machine" in words


def test_progress_is_live() -> None:
    desk = lobby(APP)
    desk.stage.walk("app")

    sent = live(desk, HERE)

    assert "under way" in sent
    assert 'id="rounds"' in sent


def test_hostile_words_are_shown_as_text() -> None:
    desk = lobby(APP)
    desk.stage.do(StartRollout(id=desk.stage.new_id(), scope=ScopeId("app"), by=HOSTILE))

    shown = desk.page(HERE)
    refused = desk.refused(HERE, page=HERE, status=422, scope=HOSTILE, cause=HOSTILE, notice=HOSTILE)

    for page in (shown, refused):
        assert "<img" not in page
        assert HOSTILE in text(page)
