"""Deletes with notice: the profile, the event and the barrier (T rules)."""

from dataclasses import replace

import pytest

from fairwarning.core.errors import AlreadyUnderWay, Invalid, SpotIsNotWarned, UnknownScope
from fairwarning.core.model import Kind, ScopeKind, Source, Status
from fairwarning.core.scope import Blueprint
from tests.stage import NOON, Stage, span

WEB = Blueprint(name="web", count=4, terminate_notice=span("5m"))
ZONAL = replace(WEB, zones=("1", "2"))
BARE = replace(WEB, terminate_notice=None)
BOX = Blueprint(name="box", kind=ScopeKind.STANDALONE, terminate_notice=span("5m"))
BOTH = [pytest.param(WEB, id="in one scope"), pytest.param(ZONAL, id="across the zones of the set")]
SCHEDULED, STARTED, GONE = Status.SCHEDULED, Status.STARTED, Status.GONE


# -- the profile


@pytest.mark.rule("T-06")
def test_a_changed_profile_counts_for_an_instance_only_after_its_upgrade() -> None:
    stage = Stage(WEB)
    stage.change_notice("web", "10m")
    stage.upgrade("web_1")

    old, new = stage.cause("delete", "web_0", "web_1")

    assert stage.event(old).not_before == NOON + span("5m")
    assert stage.event(new).not_before == NOON + span("10m")


@pytest.mark.rule("T-06")
def test_an_instance_that_never_got_the_profile_is_deleted_at_once() -> None:
    stage = Stage(BARE)
    stage.change_notice("web", "5m")
    stage.upgrade("web_1")

    unwarned, warned = stage.cause("delete", "web_0", "web_1")

    assert stage.statuses(unwarned, warned) == [STARTED, SCHEDULED]
    assert [event.id for event in stage.shown("web_2")] == [warned]


@pytest.mark.rule("T-06")
def test_a_new_instance_has_the_latest_model() -> None:
    stage = Stage(WEB)
    stage.change_notice("web", "12m")

    stage.grow("web")
    (event,) = stage.cause("delete", "web_4")

    assert stage.event(event).not_before == NOON + span("12m")


@pytest.mark.rule("T-06")
def test_a_profile_that_was_taken_away_warns_no_upgraded_instance() -> None:
    stage = Stage(WEB)
    stage.change_notice("web", None)
    stage.upgrade("web_0")

    unwarned, warned = stage.cause("delete", "web_0", "web_1")

    assert stage.statuses(unwarned, warned) == [STARTED, SCHEDULED]


@pytest.mark.rule("T-07")
def test_an_event_already_made_keeps_its_not_before_when_the_profile_changes() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("delete", "web_0")

    stage.change_notice("web", "15m")
    stage.upgrade("web_0", "web_1")

    assert stage.event(event).not_before == NOON + span("5m")

    stage.advance("5m")

    assert stage.status(event) is STARTED


@pytest.mark.parametrize("notice", ["5m", "15m"])
def test_a_profile_may_ask_for_five_to_fifteen_minutes(notice: str) -> None:
    stage = Stage(WEB)
    stage.change_notice("web", notice)
    stage.upgrade("web_0")

    (event,) = stage.cause("delete", "web_0")

    assert stage.event(event).not_before == NOON + span(notice)


@pytest.mark.parametrize("notice", ["4m59s", "15m1s", "0s", "1d"])
def test_a_profile_that_asks_for_less_or_more_is_refused(notice: str) -> None:
    stage = Stage(WEB)

    with pytest.raises(Invalid, match="terminate_notice: must be between 5 and 15 minutes"):
        stage.change_notice("web", notice)

    assert stage.scope("web").facts.model.terminate_notice == span("5m")


# -- the event


@pytest.mark.rule("T-09")
@pytest.mark.rule("T-10")
@pytest.mark.parametrize(
    ("blueprint", "machine"), [(WEB, "web_1"), (BOX, "box")], ids=["an instance", "a single machine"]
)
def test_a_delete_under_a_profile_is_announced(blueprint: Blueprint, machine: str) -> None:
    stage = Stage(blueprint)

    (event_id,) = stage.cause("delete", machine)

    event = stage.event(event_id)
    assert (event.kind, event.source, event.status) == (Kind.TERMINATE, Source.USER, SCHEDULED)
    assert (event.resources, event.description, event.duration) == ((machine,), "", -1)
    assert event.not_before == NOON + span("5m")


@pytest.mark.rule("T-09")
def test_a_delete_without_a_profile_is_simply_done() -> None:
    stage = Stage(BARE)

    (event,) = stage.cause("delete", "web_0")

    assert stage.shown("web_0") == ()
    assert stage.incarnation("web") == 1

    stage.advance("5s")

    assert stage.story(event) == ["started", "finished"]
    assert stage.machines("web") == ["web_1", "web_2", "web_3"]


@pytest.mark.rule("T-09")
def test_force_skips_the_wait() -> None:
    stage = Stage(WEB)

    stage.cause("delete", "web_0", force=True)
    stage.advance("5s")

    assert stage.machines("web") == ["web_1", "web_2", "web_3"]
    assert stage.incarnation("web") == 1


@pytest.mark.rule("T-09")
@pytest.mark.rule("T-11")
@pytest.mark.parametrize("blueprint", BOTH)
def test_deleting_a_whole_set_is_an_event_per_instance_and_ends_the_set(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)

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
    stage = Stage(WEB)
    (pending,) = stage.cause("delete", "web_0")
    stage.advance("1m")

    events = stage.remove("web")

    assert len(events) == 3
    assert stage.event(pending).not_before == NOON + span("5m")

    stage.advance("10m")

    with pytest.raises(UnknownScope):
        stage.scope("web")


@pytest.mark.rule("T-09")
def test_deleting_a_set_by_force_waits_for_nobody() -> None:
    stage = Stage(WEB)

    stage.remove("web", force=True)
    stage.advance("5s")

    assert dict(stage.engine.scopes()) == {}


def test_an_empty_set_is_deleted_on_the_spot() -> None:
    stage = Stage(replace(WEB, count=0))

    assert stage.remove("web") == ()
    assert dict(stage.engine.scopes()) == {}


@pytest.mark.rule("T-11")
def test_deleting_several_instances_is_an_event_each() -> None:
    stage = Stage(WEB)

    events = stage.cause("delete", "web_0", "web_1", "web_2")

    assert [stage.event(one).resources for one in events] == [("web_0",), ("web_1",), ("web_2",)]


def test_a_machine_is_deleted_once() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("delete", "web_0")

    with pytest.raises(AlreadyUnderWay, match=f"web_0 has an unfinished Terminate already: event {event}"):
        stage.cause("delete", "web_0")


@pytest.mark.rule("T-12")
def test_an_approval_lets_the_delete_proceed() -> None:
    stage = Stage(WEB)
    (event,) = stage.cause("delete", "web_0")

    stage.approve(event, by="web_0")
    stage.advance("5s")

    assert stage.status(event) is GONE
    assert stage.machines("web") == ["web_1", "web_2", "web_3"]


@pytest.mark.rule("T-13")
def test_at_not_before_the_delete_happens_in_any_case() -> None:
    stage = Stage(WEB)
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
    stage = Stage(WEB)

    (event,) = stage.cause("delete", "web_0")

    assert (event.encode() in stage.document("web_1", version)) == shown
    assert stage.document("web_1", version).startswith(b'{"DocumentIncarnation":2,')


# -- the barrier


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_a_one_approval_of_two_starts_nothing(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")

    stage.approve(second, by="web_1")
    stage.advance("4m59s")

    assert stage.statuses(first, second) == [SCHEDULED, SCHEDULED]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_b_the_last_approval_starts_both(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")
    stage.approve(second, by="web_1")

    stage.approve(first, by="web_0")

    assert stage.statuses(first, second) == [STARTED, STARTED]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_c_the_end_of_the_others_notice_starts_both(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)
    (first,) = stage.cause("delete", "web_0")
    stage.advance("2m")
    (second,) = stage.cause("delete", "web_1")
    stage.approve(second, by="web_1")

    stage.advance("3m")

    assert stage.statuses(first, second) == [STARTED, STARTED]
    assert stage.event(second).started_at == NOON + span("5m")


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_d_a_delete_asked_for_meanwhile_joins_the_barrier(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")
    stage.approve(first, by="web_0")
    (third,) = stage.cause("delete", "web_2")

    stage.approve(second, by="web_1")

    assert stage.statuses(first, second, third) == [SCHEDULED] * 3

    stage.approve(third, by="web_2")

    assert stage.statuses(first, second, third) == [STARTED] * 3


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_e_an_event_whose_own_time_is_up_waits_for_nobody(blueprint: Blueprint) -> None:
    stage = Stage(blueprint)
    (first,) = stage.cause("delete", "web_0")
    stage.approve(first, by="web_0")
    (early,) = stage.cause("delete", "web_1")
    stage.advance("1m")
    (late,) = stage.cause("delete", "web_2")

    stage.advance("4m")

    assert stage.status(first) is GONE
    assert stage.statuses(early, late) == [STARTED, SCHEDULED]


@pytest.mark.rule("T-14")
def test_a_delete_that_has_started_holds_no_later_one() -> None:
    stage = Stage(WEB)
    (first,) = stage.cause("delete", "web_0")
    stage.approve(first, by="web_0")
    (second,) = stage.cause("delete", "web_1")

    stage.approve(second, by="web_1")

    assert stage.statuses(first, second) == [STARTED, STARTED]


@pytest.mark.rule("T-14")
def test_other_kinds_of_events_are_outside_the_barrier() -> None:
    stage = Stage(WEB)
    delete, restart = *stage.cause("delete", "web_0"), *stage.cause("restart", "web_1")

    stage.approve(restart, by="web_1")

    assert stage.statuses(delete, restart) == [SCHEDULED, STARTED]

    stage.cause("redeploy", "web_2")
    stage.approve(delete, by="web_0")

    assert stage.status(delete) is STARTED


@pytest.mark.rule("T-14")
def test_the_deletes_of_another_set_are_behind_another_barrier() -> None:
    stage = Stage(WEB, replace(WEB, name="db"))
    (web,) = stage.cause("delete", "web_0")
    (db,) = stage.cause("delete", "db_0")

    stage.approve(db, by="db_0")

    assert stage.statuses(web, db) == [SCHEDULED, STARTED]


@pytest.mark.rule("T-14")
def test_an_availability_set_has_no_barrier_of_deletes() -> None:
    stage = Stage(replace(WEB, kind=ScopeKind.AVAILABILITY_SET))
    first, second = stage.cause("delete", "web-0", "web-1")

    stage.approve(first, by="web-0")

    assert stage.statuses(first, second) == [STARTED, SCHEDULED]


@pytest.mark.rule("T-09")
def test_a_forced_delete_does_not_wait_for_one_that_waits_already() -> None:
    stage = Stage(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    (first,) = stage.cause("delete", "web_0")

    stage.cause("delete", "web_0", "web_1", force=True)

    assert stage.status(first) is Status.STARTED
    stage.advance("1m")
    assert stage.machines("web") == []


@pytest.mark.rule("T-09")
def test_a_set_deleted_by_force_takes_its_pending_deletes_along() -> None:
    stage = Stage(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    stage.cause("delete", "web_0")

    stage.remove("web", force=True)
    stage.advance("1m")

    assert stage.engine.scopes() == {}


@pytest.mark.rule("T-05")
def test_a_spot_set_is_not_warned_of_its_deletion() -> None:
    with pytest.raises(SpotIsNotWarned):
        Stage(Blueprint(name="web", spot=True, terminate_notice=span("5m")))


def test_a_set_that_is_being_deleted_does_not_grow() -> None:
    stage = Stage(Blueprint(name="web", count=2, terminate_notice=span("5m")))
    stage.remove("web")

    with pytest.raises(Invalid, match="is being deleted"):
        stage.grow("web")
