"""While the fleet or a host is on hold, nothing of the platform starts there."""

import pytest

from fairwarning.core.model import OPERATOR
from tests.core.maintained import MaintainedFleet
from tests.fleet_harness import run, span


@pytest.mark.rule("M-08")
def test_nothing_of_the_platform_starts_on_hold() -> None:
    fleet = MaintainedFleet()
    fleet.hold("firmware")
    fleet.maintain("kvm-1")
    fleet.cause("freeze", "app_0")

    fleet.approve_all()
    fleet.advance("1h")

    assert fleet.down() == []
    assert fleet.waits_for("web") == fleet.waits_for("app") == "hold: firmware"
    fleet.unhold()
    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0"]


@pytest.mark.rule("M-08")
def test_owners_go_on_while_the_fleet_is_on_hold() -> None:
    fleet = MaintainedFleet()
    fleet.hold("firmware")

    fleet.cause("restart", "app_0")

    assert fleet.down() == ["app/app_0"]


@pytest.mark.rule("M-07", "M-08")
def test_what_owners_have_approved_starts_while_the_fleet_is_on_hold() -> None:
    fleet = MaintainedFleet()
    fleet.poll("app_0")
    fleet.hold("firmware")
    (event,) = fleet.cause("restart", "app_0")
    assert fleet.down() == []

    fleet.approve(event)

    assert fleet.down() == ["app/app_0"]


@pytest.mark.rule("M-08")
def test_a_hold_of_a_host_is_for_this_host_alone() -> None:
    fleet = MaintainedFleet()
    fleet.hold(host="kvm-1")
    fleet.maintain("kvm-1")
    fleet.maintain("kvm-2")

    fleet.approve_all()

    assert fleet.down() == ["app/app_0", "web/web_1"]
    assert fleet.waits_for("db") == "hold: by operator"


@pytest.mark.rule("M-08")
@pytest.mark.parametrize("machines", [("web_0",), ("app_0", "web_0")])
def test_a_hold_of_a_host_is_for_its_machines_whatever_happens_to_them(machines: tuple[str, ...]) -> None:
    fleet = MaintainedFleet()
    fleet.hold("DIMM", host="kvm-1")
    fleet.cause("freeze", "web_0")
    fleet.maintain(None, *machines)

    fleet.approve_all()

    assert fleet.down() == []
    assert fleet.waits_for("web") == "hold: DIMM"
    fleet.unhold(host="kvm-1")
    assert fleet.down() == [fleet.ref(machine).full for machine in machines]


@pytest.mark.rule("M-08")
def test_a_hold_lasts_over_a_restart() -> None:
    fleet = MaintainedFleet()
    fleet.hold()
    fleet.restart()
    fleet.maintain("kvm-1")

    fleet.approve_all()

    assert fleet.down() == []
    fleet.restart()
    fleet.unhold()
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-09", "M-10")
def test_an_event_that_was_postponed_on_hold_starts_at_its_new_not_before() -> None:
    fleet = MaintainedFleet()
    fleet.hold()
    (event,) = fleet.cause("freeze", "app_0", notice="5m")
    fleet.advance("1h")

    run(fleet.control.maintenances.postpone(OPERATOR, event, fleet.now + span("1h")))
    fleet.unhold()
    fleet.advance("59m")

    assert fleet.down() == []
    fleet.advance("1m")
    assert fleet.down() == ["app/app_0"]


@pytest.mark.rule("M-08")
def test_a_hold_does_not_stop_what_has_started() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1")
    fleet.approve_all()

    fleet.hold()
    fleet.complete()

    assert fleet.pending("web") == fleet.pending("db") == ()


@pytest.mark.rule("M-08")
def test_a_window_that_closes_on_hold_withdraws_the_maintenance() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", opens="1h", closes="2h")
    fleet.approve_all()
    fleet.hold()

    fleet.advance("3h")
    fleet.unhold()

    assert fleet.down() == []
    assert fleet.pending("web") == ()
