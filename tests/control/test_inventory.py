"""A fleet in step with an inventory: machines come, move and go with it, except where events are pending."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from zlib import crc32

import pytest

from fairwarning.control.control import Control
from fairwarning.control.inventory import (
    MOST_AT_ONCE,
    InventorySync,
    inventory_requests,
)
from fairwarning.core.errors import InvalidError, MassRemovalError, OlderInventoryError, StorageError
from fairwarning.core.inventory import InventoryScope, InventoryVersion
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
from fairwarning.core.stored.kinds import INVENTORY
from fairwarning.engine.clock import ManualClock
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, FleetHarness, run
from tests.nodes.node import StoreLink


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


def version_of(*scopes: InventoryScope) -> InventoryVersion:
    """Return the version of an inventory."""
    return InventoryVersion(digest=f"{crc32(repr(scopes).encode()):08x}")


def apply(
    fleet: FleetHarness, *scopes: InventoryScope, remove_most: bool = False, replaces: str | None = None
) -> InventorySync:
    """Bring a fleet in step with an inventory, which may be an old one unless ``replaces`` is given."""
    version = version_of(*scopes)
    record = INVENTORY.find(fleet.engine.texts().get)
    known = "" if record is None else str(record.version)
    return run(
        Control(fleet.engine).apply_inventory(
            PLATFORM,
            scopes,
            version,
            replaces=known if replaces is None else replaces,
            remove_most=remove_most,
        )
    )


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


def placed(host: str, update_domain: int, *, given: bool = False, domains: int = 5) -> InventoryScope:
    """Return a set with one machine in an update domain, which the inventory gives or leaves open."""
    web = scope("web", "a", host=host)
    machine = replace(web.machines[0], update_domain=update_domain)
    names = frozenset({machine.name}) if given else frozenset()
    return InventoryScope(replace(web.facts, update_domains=domains), (machine,), names)


@pytest.mark.rule("F-07")
@pytest.mark.parametrize(
    ("later", "domain"),
    [
        pytest.param(placed("h1", 2), 1, id="it keeps its domain on its host"),
        pytest.param(placed("h2", 2), 2, id="it has the domain of another host that it moves to"),
        pytest.param(placed("h1", 2, given=True), 2, id="it moves to the domain that the inventory gives"),
        pytest.param(placed("h1", 0, domains=1), 0, id="it leaves a domain that the set no longer has"),
    ],
)
def test_a_machine_that_exists_changes_its_update_domain_only_for_a_reason(
    later: InventoryScope, domain: int
) -> None:
    fleet = FleetHarness()
    apply(fleet, placed("h1", 1))

    apply(fleet, later)

    assert fleet.machine("a").update_domain == domain


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
    apply(fleet, scope("web", *names[:14]), remove_most=True)

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


@pytest.mark.rule("F-02", "F-03", "F-04")
def test_an_inventory_that_was_replaced_does_not_come_back_unless_told() -> None:
    first = FleetHarness()
    old, new = scope("web", "a", "b"), scope("web", "b", "c")
    apply(first, old)
    first.advance("1h")
    apply(first, new)
    second = FleetHarness(store=first.store)
    written = second.engine.position

    with pytest.raises(OlderInventoryError, match="was replaced at 2026-11-16 13:00:00Z") as refused:
        apply(second, old, replaces="")
    unchanged = second.engine.position == written
    apply(second, old, replaces=refused.value.current)

    assert unchanged
    assert sorted(second.machines("web")) == ["a", "b"]
    with pytest.raises(OlderInventoryError):
        apply(second, new, replaces="")


def test_a_refused_inventory_stores_no_version() -> None:
    fleet = FleetHarness()
    apply(fleet, scope("web", "a"))
    before = fleet.engine.texts()[INVENTORY.key()]

    with pytest.raises(InvalidError, match="web exists as availability-set"):
        apply(fleet, scope("web", "a", kind=ScopeKind.STANDALONE))

    assert fleet.engine.texts()[INVENTORY.key()] == before


LARGE = [str(number) for number in range(MOST_AT_ONCE)]


@pytest.mark.rule("F-02")
def test_a_node_completes_the_inventory_of_a_node_that_died_half_way() -> None:
    store = StoreLink(MemoryStore())
    inventory = scope("web", *LARGE), scope("db", *LARGE)
    store.cut_after = 2  # the version, and the first of two requests

    with pytest.raises(StorageError):
        apply(FleetHarness(store=store), *inventory, replaces="")
    survivor = FleetHarness(store=store.inner)
    half = list(survivor.engine.scopes())
    sync = apply(survivor, *inventory, replaces="")

    assert half == ["web"]
    assert sync == InventorySync(written=MOST_AT_ONCE)


@pytest.mark.rule("F-06")
def test_nodes_that_apply_different_inventories_at_once_end_with_one_of_them() -> None:
    store = MemoryStore()
    first, second = FleetHarness(store=store), FleetHarness(store=store)
    inventories = [(scope("web", *LARGE), scope(name, *LARGE)) for name in ("a", "b")]

    async def story() -> list[InventorySync | BaseException]:
        applications = [
            Control(fleet.engine).apply_inventory(PLATFORM, inventory, version_of(*inventory))
            for fleet, inventory in zip((first, second), inventories, strict=True)
        ]
        return await asyncio.gather(*applications, return_exceptions=True)

    outcomes = run(story())
    after = FleetHarness(store=store).engine
    record = INVENTORY.find(after.texts().get)

    assert record is not None
    winner = [version_of(*inventory) for inventory in inventories].index(record.version)
    assert isinstance(outcomes[winner], InventorySync)
    assert isinstance(outcomes[1 - winner], OlderInventoryError)
    assert list(after.scopes()) == ["web", "ab"[winner]]


@pytest.mark.rule("F-06")
def test_a_node_that_was_behind_applies_its_newer_inventory_to_what_the_others_have_changed() -> None:
    first = FleetHarness()
    apply(first, scope("web", "a"))
    behind = FleetHarness(store=first.store)
    apply(first, scope("web", "a", "b"))

    apply(behind, scope("web", "a"), scope("db", "c"), replaces="")

    assert (behind.machines("web"), behind.machines("db")) == (["a"], ["c"])


def test_a_request_has_a_limited_number_of_machines() -> None:
    machines = [str(number) for number in range(400)]
    inventory = [scope(f"s{number}", *machines) for number in range(5)]

    requests = inventory_requests({}, inventory)

    assert [len(request.scopes) for request in requests] == [2, 2, 1]
    assert all(sum(len(one.machines) for one in request.scopes) <= MOST_AT_ONCE for request in requests)
