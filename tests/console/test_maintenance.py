"""The maintenance page: start, follow and stop a rollout."""

import pytest

from fairwarning.console.pages.maintenance import Domain, DomainProgress, domains
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import StartRollout
from fairwarning.core.model import ScopeId, ScopeKind
from tests.console.console_client import console_client, text
from tests.console.stream import live
from tests.fleet_harness import FleetHarness

APP = Blueprint(name="app", count=4, kind=ScopeKind.AVAILABILITY_SET, update_domains=3)
HERE = "/maintenance"
HOSTILE = "<img src=x onerror=alert(1)>"


def progress(stage: FleetHarness, scope: str = "app") -> list[tuple[str, DomainProgress]]:
    """Return the progress of the rollout in each domain of a scope."""
    properties = stage.scope(scope).facts
    assert properties.walk is not None
    return [(domain.label, domain.progress) for domain in domains(stage.scope(scope), properties.walk)]


@pytest.mark.rule("S-05")
def test_a_rollout_finishes_a_domain_before_it_starts_the_next() -> None:
    stage = FleetHarness(APP)
    stage.walk("app")

    before = progress(stage)
    stage.advance("15m30s")
    after = progress(stage)

    assert before == [
        ("UD 0", DomainProgress.IN_PROGRESS),
        ("UD 1", DomainProgress.PENDING),
        ("UD 2", DomainProgress.PENDING),
    ]
    assert after == [
        ("UD 0", DomainProgress.DONE),
        ("UD 1", DomainProgress.IN_PROGRESS),
        ("UD 2", DomainProgress.PENDING),
    ]


@pytest.mark.rule("S-04")
def test_a_rollout_of_a_flexible_set_goes_by_fault_domains() -> None:
    stage = FleetHarness(Blueprint(name="pool", count=2, kind=ScopeKind.FLEXIBLE_SET))
    stage.walk("pool")

    assert progress(stage, "pool") == [("FD 0", DomainProgress.IN_PROGRESS), ("FD 1", DomainProgress.PENDING)]


def test_a_domain_names_its_machines() -> None:
    stage = FleetHarness(APP)
    stage.walk("app")
    scope = stage.scope("app")
    assert scope.facts.walk is not None

    first = domains(scope, scope.facts.walk)[0]

    assert first == Domain(label="UD 0", progress=DomainProgress.IN_PROGRESS, machines=first.machines)
    assert first.machines == ("app-0", "app-3")


def test_without_machines_the_page_says_what_to_do_first() -> None:
    words = text(console_client().page(HERE))

    assert "No rollout is in progress." in words
    assert "Create a set of machines first" in words


def test_a_rollout_is_started_and_shown_with_its_events() -> None:
    client = console_client(APP)

    words = text(client.accepted(HERE, page=HERE, scope="app", cause="host-reboot", notice="30m"))

    assert "Started the host-reboot rollout of app." in words
    assert "started by operator:console, 30m notice; 0 of 3 domains done" in words
    assert "UD 0 ▶ in progress 2 machines UD 1 · pending 1 machine UD 2 · pending 1 machine" in words
    assert "Reboot" in words


def test_a_rollout_of_an_unpolled_scope_says_so() -> None:
    client = console_client(APP, watched=False)

    words = text(client.accepted(HERE, page=HERE, scope="app"))

    assert "no guest polls app: the action will happen without warning" in words


def test_a_scope_with_a_rollout_is_not_offered_again() -> None:
    client = console_client(APP, Blueprint(name="web", count=1))
    client.stage.walk("app")

    page = client.page(HERE)

    assert '<option value="web"' in page
    assert '<option value="app"' not in page


@pytest.mark.parametrize(
    ("form", "words"),
    [
        pytest.param({}, "choose a scope", id="no scope"),
        pytest.param({"scope": "nowhere"}, "no scope named nowhere", id="an unknown scope"),
        pytest.param({"scope": "app", "cause": "restart"}, "must be one of", id="no maintenance"),
        pytest.param({"scope": "app", "notice": "soon"}, "invalid duration 'soon'", id="no duration"),
    ],
)
def test_mistakes_are_told_in_place_and_what_was_written_stays(form: dict[str, str], words: str) -> None:
    client = console_client(APP)

    page = client.refused(HERE, page=HERE, status=422, **form)

    assert words in text(page)
    assert form.get("notice", "") in page
    assert client.stage.scope("app").facts.walk is None


def test_a_second_rollout_of_a_scope_is_refused_in_words() -> None:
    client = console_client(APP)
    client.stage.walk("app")

    page = client.refused(HERE, page=HERE, status=409, scope="app")

    assert "scope app already has a rollout in progress" in text(page)


def test_a_stopped_rollout_is_listed_as_recent() -> None:
    client = console_client(APP)
    client.stage.walk("app")

    words = text(client.accepted(f"{HERE}/app/stop", page=HERE))

    assert "Stopped the rollout of app" in words
    assert "host-update of app: 2 events, 2 cancelled" in words
    assert client.stage.pending("app") == ()


def test_stopping_a_rollout_that_does_not_exist_is_refused_in_words() -> None:
    page = console_client(APP).refused(f"{HERE}/app/stop", page=HERE, status=404)

    assert "scope app has no rollout in progress" in text(page)


def test_a_scheduled_event_can_be_cancelled_here_and_the_rollout_continues() -> None:
    client = console_client(Blueprint(name="app", count=2, kind=ScopeKind.AVAILABILITY_SET))
    client.stage.walk("app")
    (event,) = client.stage.pending("app")

    words = text(client.accepted(f"/events/{event.id}/cancel", page=HERE, back="maintenance"))

    assert f"Event {event.id[:8]} cancelled" in words
    assert "UD 0 ✓ done 1 machine UD 1 ▶ in progress 1 machine" in words


def test_progress_is_live() -> None:
    client = console_client(APP)
    client.stage.walk("app")

    sent = live(client, HERE)

    assert "in progress" in sent
    assert 'id="finished-rollouts"' in sent


def test_hostile_words_are_shown_as_text() -> None:
    client = console_client(APP)
    client.stage.do(StartRollout(id=client.stage.new_id(), scope=ScopeId("app"), by=HOSTILE))

    shown = client.page(HERE)
    refused = client.refused(HERE, page=HERE, status=422, scope=HOSTILE, cause=HOSTILE, notice=HOSTILE)

    for page in (shown, refused):
        assert "<img" not in page
        assert HOSTILE in text(page)
