"""A fleet in step with an inventory: machines come, move and go with it, except where events are pending."""

from datetime import timedelta

import pytest

from fairwarning.control.control import Control
from fairwarning.control.inventory import MOST_AT_ONCE, InventorySync, inventory_requests
from fairwarning.core.errors import InvalidError, MassRemovalError
from fairwarning.core.inventory import InventoryScope
from fairwarning.core.model import (
    PLATFORM,
    HostId,
    Machine,
    MachineModel,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.engine.clock import ManualClock
from tests.fleet_harness import NOON, FleetHarness, run


def scope(
    name: str,
    *machines: str,
    kind: ScopeKind = ScopeKind.AVAILABILITY_SET,
    host: str = "h1",
    notice: timedelta | None = None,
) -> InventoryScope:
    """Return a scope of an inventory."""
    facts = ScopeProperties(
        id=ScopeId(name), kind=kind, set_name=name, model=MachineModel(terminate_notice=notice)
    )
    return InventoryScope(
        facts,
        tuple(
            Machine(scope=facts.id, name=VmName(one), vm_id=f"id-{name}-{one}", host=HostId(host))
            for one in machines
        ),
    )


def apply(fleet: FleetHarness, *scopes: InventoryScope) -> InventorySync:
    """Bring a fleet in step with an inventory."""
    return run(Control(fleet.engine).apply_inventory(PLATFORM, scopes))


def test_the_machines_of_an_inventory_are_created() -> None:
    fleet = FleetHarness()

    sync = apply(fleet, scope("web", "a", "b"), scope("db", "db", kind=ScopeKind.STANDALONE))

    assert sync == InventorySync(written=3)
    assert fleet.machines("web") == ["a", "b"]
    assert fleet.machine("db").host == "h1"


def test_the_same_inventory_changes_nothing_the_second_time() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a", "b"))
    before = fleet.engine.position

    sync = apply(fleet, scope("web", "a", "b"))

    assert sync == InventorySync()
    assert fleet.engine.position == before


def test_machines_that_leave_the_inventory_leave_the_fleet() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a", "b"), scope("db", "db", kind=ScopeKind.STANDALONE))

    sync = apply(fleet, scope("web", "b", "c"))

    assert sync == InventorySync(written=1, removed=2)
    assert fleet.machines("web") == ["b", "c"]
    assert list(fleet.engine.scopes()) == ["web"]


def test_a_machine_with_a_pending_event_stays_until_the_event_is_over() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a", "b"))
    fleet.poll("a")
    fleet.cause("restart", "a")

    kept = apply(fleet)
    fleet.advance("20m")
    gone = apply(fleet)

    assert kept == InventorySync(removed=1, kept=("web/a",))
    assert gone == InventorySync(removed=1)
    assert not fleet.engine.scopes()


def test_a_machine_moves_to_the_host_that_the_inventory_names() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))
    fleet.stop("a")

    sync = apply(fleet, scope("web", "a", host="h2"))

    assert sync == InventorySync(written=1)
    assert (fleet.machine("a").host, fleet.machine("a").power) == ("h2", "stopped")


def test_a_machine_does_not_move_while_an_event_is_pending() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))
    fleet.poll("a")
    fleet.cause("restart", "a")

    apply(fleet, scope("web", "a", host="h2"))

    assert fleet.machine("a").host == "h1"


def test_the_terminate_notice_of_the_inventory_reaches_machines() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))

    apply(fleet, scope("web", "a", notice=timedelta(minutes=7)))
    apply(fleet, scope("web", "a"))

    assert fleet.machine("a").model == MachineModel(number=2, terminate_notice=timedelta(minutes=7))


def test_a_scope_that_comes_back_continues_its_incarnations() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))
    fleet.poll("a")
    (event,) = fleet.cause("restart", "a")
    fleet.cancel(event)
    before = fleet.incarnation("web")
    apply(fleet)

    apply(fleet, scope("web", "a"))

    assert fleet.incarnation("web") > before


def test_a_scope_of_another_kind_is_refused() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))

    with pytest.raises(InvalidError, match="web exists as availability-set; the inventory says standalone"):
        apply(fleet, scope("web", "a", kind=ScopeKind.STANDALONE))


def test_an_inventory_that_lacks_most_machines_is_refused() -> None:
    fleet = FleetHarness()
    names = [f"m{number}" for number in range(30)]
    apply(fleet, scope("web", *names))

    with pytest.raises(MassRemovalError, match="the inventory lacks 16 of the 30 machines of the fleet"):
        apply(fleet, scope("web", *names[:14]))
    run(Control(fleet.engine).apply_inventory(PLATFORM, (scope("web", *names[:14]),), remove_most=True))

    assert len(fleet.machines("web")) == 14


def test_two_nodes_apply_one_inventory_once() -> None:
    first = FleetHarness()
    second = FleetHarness(store=first.store)
    inventory = scope("web", "a", "b")

    together = apply(first, inventory), apply(second, inventory)

    assert together == (InventorySync(written=2), InventorySync())
    assert second.machines("web") == ["a", "b"]
    assert isinstance(second.engine.clock, ManualClock)
    assert second.now == NOON


def test_a_request_has_a_limited_number_of_machines() -> None:
    machines = [str(number) for number in range(400)]
    inventory = [scope(f"s{number}", *machines) for number in range(5)]

    requests = inventory_requests({}, inventory)

    assert [len(request.scopes) for request in requests] == [2, 2, 1]
    assert all(sum(len(one.machines) for one in request.scopes) <= MOST_AT_ONCE for request in requests)
