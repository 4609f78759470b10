"""At most so many machines of a group are down at once, whoever asked."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import RecordInventory, SetTags
from fairwarning.core.errors import BudgetTooSmallError
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.maintenance.values import MaintenanceBudget, MaintenancePhase, OnSilence, Places
from fairwarning.core.model import OPERATOR, EventStatus
from fairwarning.core.stored.kinds import PLACES
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine.ports import Store
from fairwarning.store.memory import MemoryStore
from tests.core.maintained import TWO_HOSTS, MaintainedFleet
from tests.fleet_harness import FleetHarness, run, span
from tests.histories.actions import FailingStore

ONE_EACH = MaintenanceBudget(each="scope", most=1)

THREE_HOSTS = {
    "web": {"web_0": "kvm-1", "web_1": "kvm-2", "web_2": "kvm-3"},
    "db": {"db_0": "kvm-1", "db_1": "kvm-3"},
}


@pytest.mark.rule("M-05")
def test_two_replicas_are_never_down_together() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    second = fleet.maintain("kvm-2")
    fleet.approve_all()

    assert fleet.down() == ["db/db_0", "web/web_0"]
    assert fleet.waits_for("app") == "budget scope=web: web/web_0 is down"

    fleet.complete("db")
    assert fleet.phase(second) is MaintenancePhase.SCHEDULED
    fleet.complete("web")
    assert fleet.down() == ["app/app_0", "web/web_1"]


@pytest.mark.rule("M-05")
def test_without_a_budget_both_hosts_go_down() -> None:
    fleet = MaintainedFleet(TWO_HOSTS)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0", "web/web_1"]


@pytest.mark.rule("M-05")
def test_a_budget_of_a_tag_counts_machines_of_all_scopes() -> None:
    tags = {"db_0": {"db": "orders"}, "app_0": {"db": "orders"}, "web_0": {"db": "users"}}
    fleet = MaintainedFleet(TWO_HOSTS, MaintenanceBudget(each="db", most=1), tags=tags)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    assert fleet.down() == ["db/db_0", "web/web_0"]
    assert fleet.waits_for("app") == "budget db=orders: db/db_0 is down"


@pytest.mark.rule("M-05")
def test_a_group_may_have_a_budget_of_its_own() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH, MaintenanceBudget(each="scope", group="web", most=2))
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0", "web/web_1"]


@pytest.mark.rule("M-05")
def test_what_can_never_fit_is_refused_with_both_numbers() -> None:
    fleet = MaintainedFleet({"web": {"web_0": "kvm-1", "web_1": "kvm-1"}}, ONE_EACH)

    with pytest.raises(BudgetTooSmallError, match=r"2 machines of scope=web down .* the budget is 1"):
        fleet.maintain("kvm-1")
    with pytest.raises(BudgetTooSmallError):
        fleet.cause("freeze", "web_0", "web_1")

    assert fleet.pending("web") == ()


@pytest.mark.rule("M-05")
def test_over_budget_starts_when_no_other_machine_of_the_group_is_down() -> None:
    machines = {"web": {"web_0": "kvm-1", "web_1": "kvm-1", "web_2": "kvm-2"}}
    fleet = MaintainedFleet(machines, ONE_EACH)
    fleet.maintain("kvm-2")
    fleet.approve_all()
    assert fleet.down() == ["web/web_2"]

    fleet.maintain("kvm-1", over_budget=True)
    fleet.approve_all()

    assert fleet.down() == ["web/web_2"]
    fleet.complete()
    assert fleet.down() == ["web/web_0", "web/web_1"]


@pytest.mark.rule("M-05")
def test_a_maintenance_that_a_newcomer_makes_too_large_is_withdrawn_when_it_is_due() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    maintained = fleet.maintain("kvm-1", opens="5h")
    fleet.move("web_1", "kvm-1")

    fleet.advance("5h")

    assert fleet.phase(maintained) is MaintenancePhase.WITHDRAWN
    assert fleet.maintenance(maintained).reason == "budget scope=web: 2 machines at once, and 1 is the most"
    assert fleet.down() == []


@pytest.mark.rule("M-06")
def test_the_earliest_not_before_comes_first_and_reserves_its_places() -> None:
    fleet = MaintainedFleet(THREE_HOSTS, ONE_EACH)
    fleet.maintain("kvm-2", opens="1h")
    fleet.maintain("kvm-1", opens="2h")
    fleet.maintain("kvm-3", opens="3h")
    fleet.approve_all()
    fleet.advance("4h")

    # web_1 is down, so kvm-1 waits; it has reserved the place of db, so kvm-3 does not pass it there.
    assert fleet.down() == ["web/web_1"]
    fleet.complete()
    assert fleet.down() == ["db/db_0", "web/web_0"]
    fleet.complete()
    assert fleet.down() == ["db/db_1", "web/web_2"]


@pytest.mark.rule("M-06")
def test_the_earliest_comes_first_among_those_that_are_late_at_one_instant() -> None:
    fleet = MaintainedFleet(THREE_HOSTS, ONE_EACH)
    fleet.cause("hardware-failure", "db_1")
    fleet.maintain("kvm-1", opens="1h")
    fleet.maintain("kvm-2", opens="2h")
    fleet.approve_all()

    fleet.clock.set(fleet.now + span("3h"))
    run(fleet.engine.tick())

    assert fleet.down() == ["db/db_1"]
    fleet.complete()
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-06")
def test_what_is_no_longer_ready_reserves_nothing() -> None:
    fleet = MaintainedFleet(THREE_HOSTS, ONE_EACH)
    fleet.maintain("kvm-2")
    fleet.maintain("kvm-1", on_silence=OnSilence.ASK)
    fleet.approve_all()
    assert fleet.places("scope=db").queue

    fleet.apply({**THREE_HOSTS, "app": {"app_0": "kvm-1"}}, ONE_EACH)

    assert fleet.places("scope=db") == fleet.places("scope=app") == Places()
    fleet.maintain("kvm-3")
    fleet.approve_all("db", "web")
    fleet.complete()
    assert fleet.down() == ["db/db_1", "web/web_2"]


@pytest.mark.rule("M-06")
def test_what_can_never_have_its_places_waits_and_reserves_nothing() -> None:
    machines = {"web": {"web_0": "kvm-1", "web_1": "kvm-1", "web_2": "kvm-2"}}
    fleet = MaintainedFleet(machines)
    fleet.cause("freeze", "web_0", "web_1", notice="1m")
    fleet.apply(machines, ONE_EACH)
    fleet.advance("1m")
    assert fleet.waits_for("web") == "budget scope=web: 2 machines at once, and 1 is the most"

    fleet.maintain("kvm-2")
    fleet.approve_all()

    assert fleet.down() == ["web/web_2"]
    fleet.apply(machines)
    assert fleet.down() == ["web/web_0", "web/web_1", "web/web_2"]


@pytest.mark.rule("M-06")
def test_what_is_on_hold_reserves_nothing() -> None:
    fleet = MaintainedFleet(THREE_HOSTS, ONE_EACH)
    fleet.maintain("kvm-2", opens="1h")
    fleet.maintain("kvm-1", opens="2h")
    fleet.maintain("kvm-3", opens="3h")
    fleet.approve_all()
    fleet.advance("4h")
    fleet.hold("DIMM", host="kvm-1")

    fleet.complete()

    assert fleet.down() == ["db/db_1", "web/web_2"]
    fleet.unhold(host="kvm-1")
    fleet.complete()
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-07")
@pytest.mark.parametrize("cause", ["restart", "hardware-failure"])
def test_owners_and_failures_take_places_and_never_wait(cause: str) -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.approve_all()

    fleet.cause(cause, "web_1")

    assert fleet.down() == ["db/db_0", "web/web_0", "web/web_1"]
    fleet.complete()
    fleet.cause(cause, "web_0")
    fleet.maintain("kvm-2")
    fleet.approve_all("app", "web")
    assert fleet.down() == ["web/web_0"]
    fleet.complete()
    assert fleet.down() == ["app/app_0", "web/web_1"]


@pytest.mark.rule("M-07")
def test_evictions_take_places_and_never_wait_and_advice_takes_none() -> None:
    fleet = FleetHarness(Blueprint(name="web", count=3, spot=True), driver=ExternalDriver())
    fleet.do(RecordInventory(InventoryVersion(digest="first"), budgets=(ONE_EACH,)))
    fleet.cause("rebalance", "web_0")
    fleet.approve(*(event.id for event in fleet.pending("web")))
    fleet.cause("hardware-failure", "web_0")

    (evicted,) = fleet.cause("evict", "web_1")
    fleet.approve(evicted)

    assert fleet.status(evicted) is EventStatus.STARTED
    places = PLACES.find(fleet.engine.texts().get, "scope=web")
    assert places is not None
    assert places.down() == {"web/web_0", "web/web_1"}
    assert len(places.taken) == 2


@pytest.mark.rule("M-07")
def test_users_delete_as_many_machines_at_once_as_they_like() -> None:
    fleet = FleetHarness(Blueprint(name="web", count=3, terminate_notice=span("5m")))
    fleet.do(RecordInventory(InventoryVersion(digest="first"), budgets=(ONE_EACH,)))

    deletes = fleet.cause("delete", "web_0", "web_1")
    fleet.advance("5m")

    assert fleet.statuses(*deletes) == [EventStatus.STARTED] * 2


@pytest.mark.rule("M-14")
def test_a_group_says_who_has_its_places_and_who_waits() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    second = fleet.maintain("kvm-2")
    fleet.approve_all()

    places = fleet.places("scope=web")

    assert places.down() == {"web/web_0"}
    assert [turn.barrier for turn in places.queue] == [second.maintenance.id]
    fleet.complete()
    fleet.complete()
    assert list(fleet.engine.view().keys_under(PLACES.prefix)) == []


@pytest.mark.rule("M-14")
def test_a_cancelled_event_no_longer_waits_for_a_place() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    run(fleet.control.maintenances.cancel(OPERATOR, "kvm-2"))

    assert fleet.places("scope=web").queue == ()
    assert fleet.places("scope=app") == Places()


@pytest.mark.rule("M-14")
def test_a_machine_that_is_removed_gives_its_place_back() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    fleet.cause("delete", "web_0", force=True)
    fleet.complete("web")

    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_1"]


@pytest.mark.rule("M-14")
def test_a_machine_that_is_removed_no_longer_waits_for_a_place() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()
    assert fleet.places("scope=app").queue

    fleet.cause("delete", "app_0", force=True)
    fleet.complete("app")

    assert fleet.places("scope=app") == Places()


@pytest.mark.rule("M-14")
def test_a_machine_that_changes_its_group_takes_its_place_along() -> None:
    tags = {machine: {"db": "orders"} for machine in ("web_0", "web_1")}
    fleet = MaintainedFleet(TWO_HOSTS, MaintenanceBudget(each="db", most=1), tags=tags)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()

    fleet.do(SetTags(machine=fleet.ref("web_0"), tags=(("db", "users"),)))

    assert fleet.places("db=users").down() == {"web/web_0"}
    assert fleet.places("db=orders").down() == {"web/web_1"}
    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0", "web/web_1"]


@pytest.mark.rule("M-14")
def test_places_are_counted_anew_when_the_budgets_change() -> None:
    fleet = MaintainedFleet(TWO_HOSTS)
    fleet.maintain("kvm-1")
    fleet.approve_all()

    fleet.apply(TWO_HOSTS, ONE_EACH)

    assert fleet.places("scope=web").down() == {"web/web_0"}
    fleet.maintain("kvm-2")
    fleet.approve_all()
    assert fleet.down() == ["db/db_0", "web/web_0"]
    fleet.apply(TWO_HOSTS)
    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0", "web/web_1"]
    assert list(fleet.engine.view().keys_under(PLACES.prefix)) == []


@pytest.mark.rule("M-15")
def test_a_place_that_is_given_back_goes_to_the_first_in_the_queue_at_once() -> None:
    fleet = MaintainedFleet(THREE_HOSTS, ONE_EACH)
    for host in ("kvm-2", "kvm-1", "kvm-3"):
        fleet.maintain(host)
        fleet.advance("1s")
    fleet.approve_all()

    (finished,) = [event.id for event in fleet.pending("web") if not event.waiting]
    fleet.complete("web")

    lines = [(entry.kind, entry.event) for entry in fleet.history()]
    assert lines.index(("finished", finished)) < lines.index(
        ("started", next(event.id for event in fleet.pending("db") if not event.waiting))
    )
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-09")
def test_a_blocked_event_starts_after_a_restart() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2", on_silence=OnSilence.ASK)
    fleet.approve_all()

    fleet.restart()
    fleet.complete()

    assert fleet.down() == ["app/app_0", "web/web_1"]


@pytest.mark.rule("M-09")
def test_a_place_that_was_given_back_before_a_restart_is_taken_after_it() -> None:
    fleet = with_a_place_given_back(MemoryStore())

    fleet.restart()

    assert fleet.down() == ["db/db_0"]


@pytest.mark.rule("M-09")
def test_a_place_is_taken_once_the_store_works_again() -> None:
    store = FailingStore()
    fleet = with_a_place_given_back(store)

    store.failures = 1
    with pytest.raises(OSError, match="disk full"):
        run(fleet.engine.tick())
    run(fleet.engine.tick())

    assert fleet.down() == ["db/db_0"]


def with_a_place_given_back(store: Store) -> MaintainedFleet:
    """Return a fleet in which a machine waits for a place that is free, before its node has looked."""
    machines = {"web": {"web_0": "kvm-1"}, "db": {"db_0": "kvm-2"}}
    tags = {machine: {"db": "orders"} for machine in ("web_0", "db_0")}
    fleet = MaintainedFleet(machines, MaintenanceBudget(each="db", most=1), tags=tags, store=store)
    for host, scope in (("kvm-1", "web"), ("kvm-2", "db")):
        fleet.maintain(host)
        fleet.approve_all(scope)
    run(fleet.control.maintenances.complete(OPERATOR, "kvm-1"))
    assert fleet.down() == []
    return fleet


@pytest.mark.rule("M-09")
def test_the_history_says_once_what_a_blocked_event_waits_for() -> None:
    fleet = MaintainedFleet(TWO_HOSTS, ONE_EACH)
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")
    fleet.approve_all()
    fleet.advance("5h")

    blocked = [entry for entry in fleet.history(fleet.the_event("app").id) if entry.kind == "blocked"]

    assert [entry.reason for entry in blocked] == ["budget scope=web: web/web_0 is down"]


@pytest.mark.rule("M-05")
def test_a_rollout_waits_for_places_and_can_be_stopped() -> None:
    machines = {"web": {"web_0": "kvm-1", "web_1": "kvm-1"}, "db": {"db_0": "kvm-2"}}
    fleet = MaintainedFleet(machines, ONE_EACH)

    fleet.walk("web", "host-reboot")
    fleet.approve_all()
    fleet.advance("1h")

    assert fleet.down() == []
    assert fleet.waits_for("web") == "budget scope=web: 2 machines at once, and 1 is the most"
    fleet.stop_walk("web")
    assert fleet.pending("web") == ()
