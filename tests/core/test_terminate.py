"""Deletes with notice: the profile and the event (T rules)."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import (
    AlreadyUnderWayError,
    InvalidError,
    SpotIsNotWarnedError,
    UnknownScopeError,
)
from fairwarning.core.model import EventSource, EventStatus, EventType, ScopeKind
from tests.core.warned import BOTH, GONE, SCHEDULED, STARTED, WEB
from tests.fleet_harness import NOON, FleetHarness, span

BARE = replace(WEB, terminate_notice=None)
BOX = Blueprint(name="box", kind=ScopeKind.STANDALONE, terminate_notice=span("5m"))

# -- the profile


@pytest.mark.rule("T-06")
def test_a_changed_profile_counts_for_an_instance_only_after_its_upgrade() -> None:
    stage = FleetHarness(WEB)
    stage.change_notice("web", "10m")
    stage.upgrade("web_1")

    old, new = stage.cause("delete", "web_0", "web_1")

    assert stage.event(old).not_before == NOON + span("5m")
    assert stage.event(new).not_before == NOON + span("10m")


@pytest.mark.rule("T-06")
def test_an_instance_that_never_got_the_profile_is_deleted_at_once() -> None:
    stage = FleetHarness(BARE)
    stage.change_notice("web", "5m")
    stage.upgrade("web_1")

    unwarned, warned = stage.cause("delete", "web_0", "web_1")

    assert stage.statuses(unwarned, warned) == [STARTED, SCHEDULED]
    assert [event.id for event in stage.shown("web_2")] == [warned]


@pytest.mark.rule("T-06")
def test_a_new_instance_has_the_latest_model() -> None:
    stage = FleetHarness(WEB)
    stage.change_notice("web", "12m")

    stage.grow("web")
    (event,) = stage.cause("delete", "web_4")

    assert stage.event(event).not_before == NOON + span("12m")


@pytest.mark.rule("T-06")
def test_a_profile_that_was_taken_away_warns_no_upgraded_instance() -> None:
    stage = FleetHarness(WEB)
    stage.change_notice("web", None)
    stage.upgrade("web_0")

    unwarned, warned = stage.cause("delete", "web_0", "web_1")

    assert stage.statuses(unwarned, warned) == [STARTED, SCHEDULED]


@pytest.mark.rule("T-07")
def test_an_event_already_made_keeps_its_not_before_when_the_profile_changes() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("delete", "web_0")

    stage.change_notice("web", "15m")
    stage.upgrade("web_0", "web_1")

    assert stage.event(event).not_before == NOON + span("5m")

    stage.advance("5m")

    assert stage.status(event) is STARTED


@pytest.mark.parametrize("notice", ["5m", "15m"])
def test_a_profile_may_ask_for_five_to_fifteen_minutes(notice: str) -> None:
    stage = FleetHarness(WEB)
    stage.change_notice("web", notice)
    stage.upgrade("web_0")

    (event,) = stage.cause("delete", "web_0")

    assert stage.event(event).not_before == NOON + span(notice)


@pytest.mark.parametrize("notice", ["4m59s", "15m1s", "0s", "1d"])
def test_a_profile_that_asks_for_less_or_more_is_refused(notice: str) -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(InvalidError, match="terminate_notice: must be between 5 and 15 minutes"):
        stage.change_notice("web", notice)

    assert stage.scope("web").facts.model.terminate_notice == span("5m")


# -- the event


@pytest.mark.rule("T-09")
@pytest.mark.rule("T-10")
@pytest.mark.parametrize(
    ("blueprint", "machine"), [(WEB, "web_1"), (BOX, "box")], ids=["an instance", "a single machine"]
)
def test_a_delete_under_a_profile_is_announced(blueprint: Blueprint, machine: str) -> None:
    stage = FleetHarness(blueprint)

    (event_id,) = stage.cause("delete", machine)

    event = stage.event(event_id)
    assert (event.kind, event.source, event.status) == (EventType.TERMINATE, EventSource.USER, SCHEDULED)
    assert (event.resources, event.description, event.duration) == ((machine,), "", -1)
    assert event.not_before == NOON + span("5m")


@pytest.mark.rule("T-09")
def test_a_delete_without_a_profile_is_simply_done() -> None:
    stage = FleetHarness(BARE)

    (event,) = stage.cause("delete", "web_0")

    assert stage.shown("web_0") == ()
    assert stage.incarnation("web") == 1

    stage.advance("5s")

    assert stage.story(event) == ["started", "finished"]
    assert stage.machines("web") == ["web_1", "web_2", "web_3"]


@pytest.mark.rule("T-09")
def test_force_skips_the_wait() -> None:
    stage = FleetHarness(WEB)

    stage.cause("delete", "web_0", force=True)
    stage.advance("5s")

    assert stage.machines("web") == ["web_1", "web_2", "web_3"]
    assert stage.incarnation("web") == 1


@pytest.mark.rule("T-09")
@pytest.mark.rule("T-11")
@pytest.mark.parametrize("blueprint", BOTH)
def test_deleting_a_whole_set_is_an_event_per_instance_and_ends_the_set(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)

    events = stage.remove("web")

    assert sorted(stage.event(one).resources for one in events) == [
        ("web_0",),
        ("web_1",),
        ("web_2",),
        ("web_3",),
    ]
    assert stage.statuses(*events) == [SCHEDULED] * 4

    stage.advance("5m5s")

    assert stage.statuses(*events) == [GONE] * 4
    assert dict(stage.engine.scopes()) == {}


@pytest.mark.rule("T-09")
def test_deleting_a_set_leaves_deletes_that_are_pending_as_they_are() -> None:
    stage = FleetHarness(WEB)
    (pending,) = stage.cause("delete", "web_0")
    stage.advance("1m")

    events = stage.remove("web")

    assert len(events) == 3
    assert stage.event(pending).not_before == NOON + span("5m")

    stage.advance("10m")

    with pytest.raises(UnknownScopeError):
        stage.scope("web")


@pytest.mark.rule("T-09")
def test_a_forced_delete_of_a_set_waits_for_no_approval() -> None:
    stage = FleetHarness(WEB)

    stage.remove("web", force=True)
    stage.advance("5s")

    assert dict(stage.engine.scopes()) == {}


def test_an_empty_set_is_deleted_on_the_spot() -> None:
    stage = FleetHarness(replace(WEB, count=0))

    assert stage.remove("web") == ()
    assert dict(stage.engine.scopes()) == {}


@pytest.mark.rule("T-11")
def test_deleting_several_instances_is_an_event_each() -> None:
    stage = FleetHarness(WEB)

    events = stage.cause("delete", "web_0", "web_1", "web_2")

    assert [stage.event(one).resources for one in events] == [("web_0",), ("web_1",), ("web_2",)]


def test_a_machine_is_deleted_once() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("delete", "web_0")

    with pytest.raises(
        AlreadyUnderWayError, match=f"web_0 already has an unfinished Terminate: event {event}"
    ):
        stage.cause("delete", "web_0")


@pytest.mark.rule("T-12")
def test_an_approval_lets_the_delete_proceed() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("delete", "web_0")

    stage.approve(event, by="web_0")
    stage.advance("5s")

    assert stage.status(event) is GONE
    assert stage.machines("web") == ["web_1", "web_2", "web_3"]


@pytest.mark.rule("T-13")
def test_at_not_before_the_delete_happens_in_any_case() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("delete", "web_0")

    stage.advance("4m59s")

    assert stage.status(event) is SCHEDULED

    stage.advance("6s")

    assert stage.machines("web") == ["web_1", "web_2", "web_3"]


@pytest.mark.rule("T-17")
@pytest.mark.parametrize(
    ("version", "shown"),
    [("2017-03-01", False), ("2017-11-01", False), ("2019-01-01", True), ("2020-07-01", True)],
)
def test_a_terminate_is_shown_from_2019_01_01_on(version: str, shown: bool) -> None:
    stage = FleetHarness(WEB)

    (event,) = stage.cause("delete", "web_0")

    assert (event.encode() in stage.document("web_1", version)) == shown
    assert stage.document("web_1", version).startswith(b'{"DocumentIncarnation":2,')


@pytest.mark.rule("T-09")
def test_a_forced_delete_does_not_wait_for_one_that_waits_already() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    (first,) = stage.cause("delete", "web_0")

    stage.cause("delete", "web_0", "web_1", force=True)

    assert stage.status(first) is EventStatus.STARTED
    stage.advance("1m")
    assert stage.machines("web") == []


@pytest.mark.rule("T-09")
def test_a_set_deleted_by_force_takes_its_pending_deletes_along() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    stage.cause("delete", "web_0")

    stage.remove("web", force=True)
    stage.advance("1m")

    assert stage.engine.scopes() == {}


@pytest.mark.rule("T-05")
def test_a_spot_set_is_not_warned_of_its_deletion() -> None:
    with pytest.raises(SpotIsNotWarnedError):
        FleetHarness(Blueprint(name="web", spot=True, terminate_notice=span("5m")))


def test_a_set_that_is_being_deleted_does_not_grow() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    stage.remove("web")

    with pytest.raises(InvalidError, match="is being deleted"):
        stage.grow("web")
