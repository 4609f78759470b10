"""A maintenance happens once, in its window, when every machine on the host is ready."""

import pytest

from fairwarning.core.errors import HostMaintainedError, InvalidError, UnknownMaintenanceError
from fairwarning.core.maintenance.values import MaintenancePhase, OnSilence
from fairwarning.core.model import OPERATOR, EventId, EventStatus
from fairwarning.core.policy import Retention
from fairwarning.engine.retention import Pruner
from tests.core.maintained import TWO_HOSTS, MaintainedFleet
from tests.fleet_harness import run, span


@pytest.mark.rule("M-01")
def test_a_host_is_maintained_once_for_all_its_machines() -> None:
    fleet = MaintainedFleet()

    maintained = fleet.maintain("kvm-1")

    assert fleet.phase(maintained) is MaintenancePhase.SCHEDULED
    assert maintained.maintenance.machines == ("db/db_0", "web/web_0")
    fleet.approve_all("web")
    assert fleet.down() == []
    fleet.approve_all("db")
    assert fleet.down() == ["db/db_0", "web/web_0"]
    assert fleet.phase(maintained) is MaintenancePhase.STARTED
    fleet.complete("web")
    assert fleet.phase(maintained) is MaintenancePhase.STARTED
    fleet.complete("db")
    assert fleet.phase(maintained) is MaintenancePhase.DONE
    assert fleet.maintenance(maintained).ended_at == fleet.now
    assert fleet.control.maintenances.pending("kvm-1") == ()


@pytest.mark.rule("M-01")
def test_a_cancelled_maintenance_is_withdrawn_and_says_by_whom() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="5h")

    run(fleet.control.maintenances.cancel(OPERATOR, "kvm-1"))

    assert fleet.phase(maintained) is MaintenancePhase.WITHDRAWN
    assert fleet.maintenance(maintained).reason == "cancelled by operator"
    with pytest.raises(UnknownMaintenanceError):
        run(fleet.control.maintenances.cancel(OPERATOR, "kvm-1"))


@pytest.mark.rule("M-01")
def test_maintenances_that_end_at_one_instant_leave_both_hosts() -> None:
    fleet = MaintainedFleet()
    for host in ("kvm-1", "kvm-2"):
        fleet.maintain(host, opens="1h", closes="2h", on_silence=OnSilence.ASK)

    fleet.advance("2h")

    assert fleet.control.maintenances.pending("kvm-1") == fleet.control.maintenances.pending("kvm-2") == ()
    fleet.maintain("kvm-1", opens="1h")
    fleet.maintain("kvm-2", opens="1h")


@pytest.mark.rule("M-01")
@pytest.mark.parametrize(("first", "second"), [("5h", None), (None, "5h"), ("5h", "9h")])
def test_a_host_with_a_dated_maintenance_has_no_other(first: str | None, second: str | None) -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens=first)

    with pytest.raises(HostMaintainedError, match=f"maintenance {maintained.maintenance.id}"):
        fleet.maintain("kvm-1", cause="host-update", opens=second)

    assert len(fleet.pending("web")) == 1


@pytest.mark.rule("M-01")
def test_machines_of_several_hosts_are_one_batch() -> None:
    fleet = MaintainedFleet()

    maintained = fleet.maintain(None, "web_0", "app_0", opens="5h")

    fleet.approve_all()
    fleet.advance("5h")
    assert fleet.down() == ["app/app_0", "web/web_0"]
    fleet.complete()
    assert fleet.phase(maintained) is MaintenancePhase.DONE


@pytest.mark.rule("M-01")
def test_one_report_completes_a_host_and_says_where_machines_are_now() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1")
    fleet.approve_all()

    run(fleet.control.maintenances.complete(OPERATOR, "kvm-1", {"web_0": "kvm-9"}))

    assert fleet.phase(maintained) is MaintenancePhase.DONE
    assert fleet.machine("web_0").host == "kvm-9"
    assert fleet.machine("db_0").host == "kvm-1"


@pytest.mark.rule("M-01")
def test_a_report_about_a_machine_that_is_not_on_the_host_is_refused() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1")
    fleet.approve_all()

    with pytest.raises(InvalidError, match="app_0 is not one of the machines"):
        run(fleet.control.maintenances.complete(OPERATOR, "kvm-1", {"app_0": "kvm-9"}))

    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-03")
def test_an_approval_before_the_window_means_ready_and_starts_nothing() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", opens="16h")
    opens = fleet.after("16h")

    fleet.approve_all()

    assert fleet.the_event("web").not_before == opens
    fleet.advance("15h59m")
    assert fleet.down() == []
    fleet.advance("1m")
    assert fleet.down() == ["db/db_0", "web/web_0"]
    assert fleet.now == opens


@pytest.mark.rule("M-03")
def test_guests_see_the_later_of_notice_and_opening() -> None:
    fleet = MaintainedFleet()

    fleet.maintain("kvm-1", opens="5m")

    assert fleet.the_event("web").not_before == fleet.after("15m")
    fleet.advance("6m")
    fleet.approve_all()
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-04")
def test_what_is_not_started_when_the_window_closes_is_withdrawn() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="1h", closes="5h", on_silence=OnSilence.ASK)

    fleet.advance("5h")
    fleet.approve_all()

    assert fleet.pending("web") == ()
    assert fleet.phase(maintained) is MaintenancePhase.WITHDRAWN
    assert fleet.maintenance(maintained).reason == "its window has closed"


@pytest.mark.rule("M-04")
@pytest.mark.parametrize(
    ("opens", "closes", "problem"),
    [
        pytest.param("1h", "1h", "must close after it opens", id="a window of no length"),
        pytest.param(None, "15m", "the notice ends at", id="a window that closes with the notice"),
        pytest.param("0s", None, "is over", id="a window that opens now"),
    ],
)
def test_a_window_without_room_for_the_notice_is_refused(
    opens: str | None, closes: str | None, problem: str
) -> None:
    fleet = MaintainedFleet()

    with pytest.raises(InvalidError, match=problem):
        fleet.maintain("kvm-1", opens=opens, closes=closes)

    assert fleet.pending("web") == ()


@pytest.mark.rule("M-02")
def test_a_maintenance_starts_whole_or_not_at_all() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1")
    fleet.advance("10m")
    fleet.apply({**TWO_HOSTS, "new": {"new_0": "kvm-1"}})

    fleet.advance("5m")
    assert fleet.down() == []
    assert fleet.waits_for("web") == "approval of new"

    fleet.advance("10m")
    assert fleet.down() == ["db/db_0", "new/new_0", "web/web_0"]


@pytest.mark.rule("M-11")
def test_a_key_stands_for_one_maintenance_after_its_end_too() -> None:
    fleet = MaintainedFleet()
    first = fleet.maintain("kvm-1", opens="5h", key="CHG-1234")
    before = fleet.engine.position

    again = fleet.maintain("kvm-1", opens="5h", key="CHG-1234")

    assert again == first
    assert fleet.engine.position == before
    fleet.advance("5h")
    fleet.complete()
    over = fleet.maintain("kvm-1", opens="5h", key="CHG-1234")
    assert over.maintenance.id == first.maintenance.id
    assert over.maintenance.phase is MaintenancePhase.DONE
    assert over.events == ()
    other = fleet.maintain("kvm-1", opens="5h", key="CHG-1235")
    assert other.maintenance.id != first.maintenance.id


@pytest.mark.rule("M-11")
def test_a_key_of_another_cause_is_refused() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", key="CHG-1234")

    with pytest.raises(InvalidError, match="key: stands for a host-reboot of host kvm-1"):
        fleet.maintain("kvm-1", cause="freeze", key="CHG-1234")


@pytest.mark.rule("M-11")
def test_a_maintenance_is_forgotten_with_the_history_of_its_time() -> None:
    fleet = MaintainedFleet()
    over, pending = fleet.maintain("kvm-1"), fleet.maintain("kvm-2", opens="90d")
    run(fleet.control.maintenances.cancel(OPERATOR, "kvm-1"))
    fleet.advance("31d")
    retention = Retention(age=span("30d"))
    forget = fleet.control.maintenances.forget

    async def needed() -> frozenset[EventId]:
        return frozenset()

    run(Pruner(fleet.store, fleet.engine.leases, fleet.clock.now, retention, needed, forget).prune())

    assert fleet.control.maintenances.find(over.maintenance.id) is None
    assert fleet.phase(pending) is MaintenancePhase.SCHEDULED


@pytest.mark.rule("M-11")
def test_a_key_is_known_when_no_machine_is_on_the_host_any_more() -> None:
    fleet = MaintainedFleet()
    first = fleet.maintain("kvm-1", opens="5h", key="CHG-1234")
    for machine in ("web_0", "db_0"):
        fleet.move(machine, "kvm-2")

    again = fleet.maintain("kvm-1", opens="5h", key="CHG-1234")

    assert again.maintenance.id == first.maintenance.id
    assert again.maintenance.phase is MaintenancePhase.WITHDRAWN


def test_a_dry_run_shows_what_would_happen_and_changes_nothing() -> None:
    fleet = MaintainedFleet()
    before = fleet.engine.position

    shown = fleet.maintain("kvm-1", opens="5h", dry_run=True)

    assert fleet.engine.position == before
    assert shown.maintenance.machines == ("db/db_0", "web/web_0")
    assert {event.not_before for event in shown.events} == {fleet.after("5h")}
    fleet.maintain("kvm-1", opens="5h")
    with pytest.raises(HostMaintainedError):
        fleet.maintain("kvm-1", opens="6h", dry_run=True)


@pytest.mark.rule("M-12")
def test_a_machine_that_has_left_the_host_is_spared() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="5h")

    fleet.move("db_0", "kvm-2")

    assert fleet.pending("db") == ()
    fleet.advance("5h")
    assert fleet.down() == ["web/web_0"]
    fleet.complete()
    assert fleet.phase(maintained) is MaintenancePhase.DONE


@pytest.mark.rule("M-12")
def test_a_machine_that_reaches_the_host_is_warned() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="5h")

    fleet.move("app_0", "kvm-1")

    assert fleet.the_event("app").not_before == fleet.after("5h")
    assert fleet.maintenance(maintained).machines == ("db/db_0", "web/web_0", "app/app_0")
    fleet.advance("5h")
    assert fleet.down() == ["app/app_0", "db/db_0", "web/web_0"]


@pytest.mark.rule("M-12")
def test_a_machine_that_reaches_the_host_has_the_not_before_of_the_others() -> None:
    fleet = MaintainedFleet()
    maintenances = fleet.control.maintenances
    run(maintenances.announce(OPERATOR, "host-reboot", host="kvm-1", notice=span("5h")))

    fleet.move("app_0", "kvm-1")

    assert fleet.the_event("app").not_before == fleet.the_event("web").not_before == fleet.after("5h")


@pytest.mark.rule("M-12")
def test_a_machine_that_reaches_the_host_has_the_window_and_the_consent_of_the_others() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", opens="5h", closes="9h", on_silence=OnSilence.ASK)

    fleet.move("app_0", "kvm-1")

    event = fleet.the_event("app")
    assert (event.opens, event.withdraw_at, event.consent) == (fleet.after("5h"), fleet.after("9h"), True)


@pytest.mark.rule("M-12")
def test_a_host_waits_for_another_date_if_a_newcomer_cannot_be_warned_in_time() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="1h", closes="2h", on_silence=OnSilence.ASK)
    fleet.advance("1h50m")

    fleet.move("app_0", "kvm-1")

    assert fleet.phase(maintained) is MaintenancePhase.WITHDRAWN
    assert "app/app_0 came at" in fleet.maintenance(maintained).reason
    assert fleet.pending("web") == fleet.pending("app") == ()


@pytest.mark.rule("M-12")
def test_two_machines_that_come_at_one_instant_have_events_of_their_own() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="5h")

    fleet.apply({**TWO_HOSTS, "new": {"new_0": "kvm-1", "new_1": "kvm-1"}})

    assert len({event.id for event in fleet.pending("new")}) == 2
    assert fleet.maintenance(maintained).machines == ("db/db_0", "web/web_0", "new/new_0", "new/new_1")


@pytest.mark.rule("M-12")
def test_two_machines_that_come_too_late_withdraw_the_maintenance_once() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="1h", closes="2h", on_silence=OnSilence.ASK)
    event = fleet.the_event("web").id
    fleet.advance("1h50m")

    fleet.apply({**TWO_HOSTS, "new": {"new_0": "kvm-1", "new_1": "kvm-1"}})

    assert fleet.story(event).count("cancelled") == 1
    assert fleet.maintenance(maintained).reason.startswith("new/new_0, new/new_1 came at")
    assert fleet.pending("new") == ()


@pytest.mark.rule("M-12")
def test_two_machines_that_leave_at_one_instant_are_both_spared() -> None:
    fleet = MaintainedFleet({"web": {"web_0": "kvm-1", "web_1": "kvm-1", "web_2": "kvm-1"}})
    fleet.maintain("kvm-1", cause="live-migrate")
    fleet.approve_all()
    fleet.maintain("kvm-1")

    moved = {"web_0": "kvm-2", "web_1": "kvm-2"}
    run(fleet.control.maintenances.complete(OPERATOR, "kvm-1", moved))

    assert fleet.the_event("web").undone == ("web_2",)


@pytest.mark.rule("M-13")
def test_silence_withdraws_a_maintenance_that_skips() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="1h", on_silence=OnSilence.SKIP)
    fleet.approve_all("web")

    fleet.advance("1h")

    assert fleet.phase(maintained) is MaintenancePhase.WITHDRAWN
    assert fleet.maintenance(maintained).reason == "no approval of db"
    assert fleet.down() == []


@pytest.mark.rule("M-13")
def test_a_maintenance_that_asks_waits_for_the_silent_machine() -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", opens="1h", on_silence=OnSilence.ASK)
    fleet.approve_all("web")

    fleet.advance("9h")

    assert fleet.down() == []
    assert fleet.waits_for("web") == "approval of db"
    fleet.approve_all("db")
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-10")
def test_a_postponed_maintenance_keeps_its_approvals_and_gets_a_new_document() -> None:
    fleet = MaintainedFleet()
    fleet.poll("web_0")
    maintained = fleet.maintain("kvm-1", opens="5h", closes="9h", on_silence=OnSilence.ASK)
    fleet.approve_all()
    incarnation = fleet.incarnation("web")
    until = fleet.now + span("7h")

    run(fleet.control.maintenances.postpone(OPERATOR, "kvm-1", until))

    assert fleet.the_event("web").not_before == until
    assert fleet.incarnation("web") == incarnation + 1
    assert fleet.maintenance(maintained).opens == until
    fleet.advance("6h59m")
    assert fleet.down() == []
    fleet.advance("1m")
    assert fleet.down() == ["db/db_0", "web/web_0"]


@pytest.mark.rule("M-10")
@pytest.mark.parametrize(("until", "problem"), [("4h", "later than NotBefore"), ("9h", "before the window")])
def test_a_maintenance_is_postponed_within_its_window_alone(until: str, problem: str) -> None:
    fleet = MaintainedFleet()
    fleet.maintain("kvm-1", opens="5h", closes="9h")

    with pytest.raises(InvalidError, match=problem):
        run(fleet.control.maintenances.postpone(OPERATOR, "kvm-1", fleet.now + span(until)))


def test_a_maintenance_goes_on_after_a_restart() -> None:
    fleet = MaintainedFleet()
    maintained = fleet.maintain("kvm-1", opens="5h")
    fleet.approve_all()

    fleet.restart()
    fleet.advance("5h")

    assert fleet.down() == ["db/db_0", "web/web_0"]
    assert fleet.status(fleet.the_event("web").id) is EventStatus.STARTED
    fleet.complete()
    assert fleet.phase(maintained) is MaintenancePhase.DONE
