"""Deletes that wait for each other: the barrier of a set (T-14)."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import ScopeKind
from tests.core.warned import BOTH, GONE, SCHEDULED, STARTED, WEB
from tests.fleet_harness import NOON, FleetHarness, span


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_a_one_approval_of_two_starts_nothing(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")

    stage.approve(second, by="web_1")
    stage.advance("4m59s")

    assert stage.statuses(first, second) == [SCHEDULED, SCHEDULED]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_b_the_last_approval_starts_both(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")
    stage.approve(second, by="web_1")

    stage.approve(first, by="web_0")

    assert stage.statuses(first, second) == [STARTED, STARTED]


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_c_the_end_of_the_others_notice_starts_both(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)
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
    stage = FleetHarness(blueprint)
    first, second = stage.cause("delete", "web_0", "web_1")
    stage.approve(first, by="web_0")
    (third,) = stage.cause("delete", "web_2")

    stage.approve(second, by="web_1")

    assert stage.statuses(first, second, third) == [SCHEDULED] * 3

    stage.approve(third, by="web_2")

    assert stage.statuses(first, second, third) == [STARTED] * 3


@pytest.mark.rule("T-14")
@pytest.mark.parametrize("blueprint", BOTH)
def test_e_an_event_past_its_not_before_waits_for_no_other(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)
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
    stage = FleetHarness(WEB)
    (first,) = stage.cause("delete", "web_0")
    stage.approve(first, by="web_0")
    (second,) = stage.cause("delete", "web_1")

    stage.approve(second, by="web_1")

    assert stage.statuses(first, second) == [STARTED, STARTED]


@pytest.mark.rule("T-14")
def test_other_kinds_of_events_are_outside_the_barrier() -> None:
    stage = FleetHarness(WEB)
    delete, restart = *stage.cause("delete", "web_0"), *stage.cause("restart", "web_1")

    stage.approve(restart, by="web_1")

    assert stage.statuses(delete, restart) == [SCHEDULED, STARTED]

    stage.cause("redeploy", "web_2")
    stage.approve(delete, by="web_0")

    assert stage.status(delete) is STARTED


@pytest.mark.rule("T-14")
def test_the_deletes_of_another_set_are_behind_another_barrier() -> None:
    stage = FleetHarness(WEB, replace(WEB, name="db"))
    (web,) = stage.cause("delete", "web_0")
    (db,) = stage.cause("delete", "db_0")

    stage.approve(db, by="db_0")

    assert stage.statuses(web, db) == [SCHEDULED, STARTED]


@pytest.mark.rule("T-14")
def test_an_availability_set_has_no_barrier_of_deletes() -> None:
    stage = FleetHarness(replace(WEB, kind=ScopeKind.AVAILABILITY_SET))
    first, second = stage.cause("delete", "web-0", "web-1")

    stage.approve(first, by="web-0")

    assert stage.statuses(first, second) == [STARTED, SCHEDULED]
