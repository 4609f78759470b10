"""Who is right about the host of a machine: whoever spoke last, the inventory only by another line."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import DRIVER, ReportOutcomes
from fairwarning.core.errors import UnfinishedMigrationError, UnknownMachineError
from fairwarning.core.fleet import Observation, Progress
from fairwarning.core.inventory import InventoryScope
from fairwarning.core.model import NO_HOST, OPERATOR, EventId, HostId
from fairwarning.core.policy import Policy
from fairwarning.core.stored.releases import NEWEST, OLDEST
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine.ports import Store
from fairwarning.store.memory import MemoryStore
from tests.control.test_inventory import apply, scope
from tests.fleet_harness import FleetHarness, run

#: The policy of a server of real machines.
REAL = Policy(emulator=False)

Mover = Callable[[FleetHarness, str, str], None]


class SharedWithAnOlderRelease(MemoryStore):
    """A store that nodes of release 0.2 may use, until the migration is finished."""

    oldest_reader = OLDEST

    def finish(self) -> None:
        """Let everything be written that this release knows."""
        self.oldest_reader = NEWEST


def fleet_of(*inventory: InventoryScope, store: Store | None = None) -> FleetHarness:
    """Return a fleet of real machines, in step with an inventory."""
    fleet = FleetHarness(policy=REAL, driver=ExternalDriver(), store=store)
    apply(fleet, *inventory)
    return fleet


def report(fleet: FleetHarness, machine: str, host: str) -> None:
    """Let an operator report the host of a machine."""
    run(Control(fleet.engine).move(OPERATOR, machine, host))


def started(fleet: FleetHarness, machine: str) -> EventId:
    """Return an event of a machine that has started."""
    for event in fleet.pending("web"):
        if event.cause == "redeploy":
            return event.id
    (event_id,) = fleet.cause("redeploy", machine, notice="0s")
    return event_id


def see(fleet: FleetHarness, machine: str, host: str) -> None:
    """Let a driver see a machine on a host, at the end of an event."""
    event = started(fleet, machine)
    ref = fleet.ref(machine)
    seen = Observation(event, ref.name, Progress.DONE, host=HostId(host))
    fleet.do(ReportOutcomes(scope=ref.scope, observations=(seen,), by=DRIVER))


def complete(fleet: FleetHarness, machine: str, host: str) -> None:
    """Let an operator report the end of an event, and the host of its machine."""
    event = started(fleet, machine)
    run(Control(fleet.engine).complete(OPERATOR, event, [machine], host))


MOVERS = [
    pytest.param(report, id="an operator reports it"),
    pytest.param(complete, id="an operator reports it with the end of an event"),
    pytest.param(see, id="a driver sees it"),
]


def places(fleet: FleetHarness, machine: str = "a") -> tuple[str, str]:
    """Return the host of a machine, and the host that it remembers of its line."""
    return fleet.machine(machine).host, fleet.machine(machine).listed_host


@pytest.mark.rule("F-08")
@pytest.mark.parametrize("move", MOVERS)
def test_a_machine_that_was_moved_stays_moved_while_its_line_stays(move: Mover) -> None:
    fleet = fleet_of(scope("web", "a", "b"))

    move(fleet, "a", "h7")
    apply(fleet, scope("web", "a", "b"))
    apply(fleet, scope("web", "a", "b", "c"))
    fleet.restart()
    apply(fleet, scope("web", "a", "b", "c"))

    assert [fleet.machine(name).host for name in "abc"] == ["h7", "h1", "h1"]


@pytest.mark.rule("F-08")
@pytest.mark.parametrize("move", MOVERS)
def test_the_inventory_wins_again_when_the_line_names_another_host(move: Mover) -> None:
    fleet = fleet_of(scope("web", "a"))
    move(fleet, "a", "h7")

    apply(fleet, scope("web", "a", host="h2"))

    assert places(fleet) == ("h2", NO_HOST)


@pytest.mark.rule("F-08")
def test_the_host_of_the_line_is_remembered_over_several_moves() -> None:
    fleet = fleet_of(scope("web", "a"))

    report(fleet, "a", "h7")
    see(fleet, "a", "h8")
    apply(fleet, scope("web", "a"))

    assert places(fleet) == ("h8", "h1")


@pytest.mark.rule("F-08")
def test_a_machine_that_moves_back_is_where_its_line_says() -> None:
    fleet = fleet_of(scope("web", "a"))

    report(fleet, "a", "h7")
    report(fleet, "a", "h1")

    assert places(fleet) == ("h1", NO_HOST)


@pytest.mark.rule("F-08")
def test_a_line_that_follows_the_machine_has_nothing_left_to_remember() -> None:
    fleet = fleet_of(scope("web", "a"))
    report(fleet, "a", "h7")

    apply(fleet, scope("web", "a", host="h7"))
    followed = places(fleet)
    apply(fleet, scope("web", "a"))

    assert followed == ("h7", NO_HOST)
    assert places(fleet) == ("h1", NO_HOST)


@pytest.mark.rule("F-08")
def test_the_rest_of_its_line_reaches_a_machine_that_was_moved() -> None:
    fleet = fleet_of(scope("web", "a"))
    report(fleet, "a", "h7")

    apply(fleet, tagged(scope("web", "a")))

    assert places(fleet) == ("h7", "h1")
    assert fleet.machine("a").tags == (("team", "blue"),)


@pytest.mark.rule("F-07")
def test_a_machine_that_was_moved_keeps_its_update_domain_while_its_line_stays() -> None:
    fleet = fleet_of(scope("web", "a", "b"))
    report(fleet, "a", "h7")
    line = scope("web", "a", "b")
    regrouped = line._replace(machines=tuple(replace(one, update_domain=1) for one in line.machines))

    apply(fleet, regrouped._replace(facts=replace(line.facts, update_domains=5)))

    assert [fleet.machine(name).update_domain for name in "ab"] == [0, 0]


def tagged(inventory: InventoryScope) -> InventoryScope:
    """Return a scope of an inventory whose machines have a tag, and are in another update domain."""
    machines = (replace(one, tags=(("team", "blue"),), update_domain=3) for one in inventory.machines)
    return InventoryScope(replace(inventory.facts, update_domains=5), tuple(machines))


@pytest.mark.rule("F-08")
def test_nodes_agree_on_a_machine_that_was_moved() -> None:
    first = fleet_of(scope("web", "a"))
    report(first, "a", "h7")
    second = FleetHarness(policy=REAL, store=first.store)

    written = second.engine.position
    apply(second, scope("web", "a"))

    assert second.engine.position == written
    assert second.scope("web") == first.scope("web")


@pytest.mark.rule("F-08")
def test_a_server_without_an_inventory_has_no_line_to_remember() -> None:
    fleet = FleetHarness(Blueprint(name="web"))

    report(fleet, "web_0", "h7")

    assert places(fleet, "web_0") == ("h7", NO_HOST)


def test_a_report_of_the_host_that_is_known_changes_nothing() -> None:
    fleet = fleet_of(scope("web", "a"))
    before = fleet.engine.position

    report(fleet, "a", "h1")

    assert fleet.engine.position == before


def test_the_history_says_who_moved_a_machine_from_where_to_where() -> None:
    fleet = fleet_of(scope("web", "a"))
    before = len(fleet.history())

    report(fleet, "a", "h7")
    fleet.stop("a")

    (line,) = fleet.history()[before:]
    assert (line.kind, line.type, line.resources, line.by) == ("moved", "host", ("a",), "operator")
    assert line.reason == "from h1 to h7"


def test_all_machines_that_an_event_leaves_are_moved_with_its_end() -> None:
    fleet = fleet_of(scope("web", "a", "b", "c"))
    (event,) = fleet.cause("host-reboot", "a", "b", notice="0s")

    run(Control(fleet.engine).complete(OPERATOR, event, [], "h7"))

    assert [fleet.machine(name).host for name in "abc"] == ["h7", "h7", "h1"]
    assert fleet.pending("web") == ()


def test_machines_that_a_maintenance_has_emptied_a_host_of_are_moved_with_its_end() -> None:
    fleet = fleet_of(scope("web", "a", "b"))
    maintenances = Control(fleet.engine).maintenances
    run(maintenances.announce(OPERATOR, "host-reboot", host="h1", notice=timedelta(0)))

    run(maintenances.complete(OPERATOR, "h1", {"web/b": "h7"}))

    assert [places(fleet, name) for name in "ab"] == [("h1", NO_HOST), ("h7", "h1")]
    assert [line.reason for line in fleet.history() if line.kind == "moved"] == ["from h1 to h7"]


def test_a_machine_that_does_not_exist_cannot_be_moved() -> None:
    with pytest.raises(UnknownMachineError):
        report(fleet_of(scope("web", "a")), "b", "h7")


# -- a pending event


@pytest.mark.rule("F-09")
def test_a_machine_with_a_pending_event_gets_the_host_of_its_line_and_the_rest_afterwards() -> None:
    fleet = fleet_of(scope("web", "a"))
    fleet.poll("a")
    (event,) = fleet.cause("restart", "a")
    later = tagged(scope("web", "a", host="h2"))

    apply(fleet, later)
    apply(fleet, later)
    during = fleet.machine("a")
    fleet.cancel(event)
    apply(fleet, later)
    after = fleet.machine("a")
    written = fleet.engine.position
    apply(fleet, later)

    assert (during.host, during.tags, during.update_domain) == ("h2", (), 0)
    assert (after.host, after.tags, after.update_domain) == ("h2", (("team", "blue"),), 3)
    assert (after.listed_host, fleet.engine.position) == (NO_HOST, written)


@pytest.mark.rule("F-09")
def test_a_machine_whose_line_keeps_its_host_waits_for_the_end_of_its_event() -> None:
    fleet = fleet_of(scope("web", "a"))
    fleet.poll("a")
    fleet.cause("restart", "a")
    written = fleet.engine.position

    apply(fleet, tagged(scope("web", "a")))

    assert fleet.machine("a").tags == ()
    assert fleet.engine.position > written  # the version


@pytest.mark.rule("F-08", "F-09")
@pytest.mark.parametrize("move", [MOVERS[0], MOVERS[2]])
def test_a_machine_that_moves_on_after_its_line_had_changed_stays_there(move: Mover) -> None:
    fleet = fleet_of(scope("web", "a"))
    fleet.poll("a")
    fleet.cause("freeze", "a")
    apply(fleet, scope("web", "a", host="h2"))

    move(fleet, "a", "h7")
    apply(fleet, scope("web", "a", host="h2"))

    assert places(fleet) == ("h7", "h2")


# -- until an upgrade is finished


@pytest.mark.rule("U-01")
@pytest.mark.parametrize("move", [MOVERS[0], MOVERS[1]])
def test_until_the_upgrade_is_finished_an_operator_cannot_move_a_machine(move: Mover) -> None:
    store = SharedWithAnOlderRelease()
    fleet = fleet_of(scope("web", "a"), store=store)

    with pytest.raises(UnfinishedMigrationError, match="db migrate --finish"):
        move(fleet, "a", "h7")
    refused = fleet.machine("a").host
    store.finish()
    move(fleet, "a", "h8")

    assert (refused, fleet.machine("a").host) == ("h1", "h8")


@pytest.mark.rule("U-01")
def test_until_the_upgrade_is_finished_the_next_inventory_moves_a_machine_back_as_before() -> None:
    store = SharedWithAnOlderRelease()
    fleet = fleet_of(scope("web", "a"), store=store)

    see(fleet, "a", "h7")
    seen = places(fleet)
    apply(fleet, scope("web", "a"))

    assert seen == ("h7", NO_HOST)
    assert places(fleet) == ("h1", NO_HOST)


@pytest.mark.rule("U-01")
def test_until_the_upgrade_is_finished_a_machine_with_a_pending_event_waits_for_its_host() -> None:
    store = SharedWithAnOlderRelease()
    fleet = fleet_of(scope("web", "a"), store=store)
    fleet.poll("a")
    fleet.cause("restart", "a")

    apply(fleet, scope("web", "a", host="h2"))
    before = fleet.machine("a").host
    store.finish()
    apply(fleet, scope("web", "a", host="h2"))

    assert (before, fleet.machine("a").host) == ("h1", "h2")
