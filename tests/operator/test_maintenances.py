"""Maintenances, hosts and holds by the operator API."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import HostId, ScopeKind
from fairwarning.drivers.external import ExternalDriver
from fairwarning.operator import maintenance_schemas
from tests.fleet_harness import NOON
from tests.operator.operator_client import OperatorTestClient, operator_client

ALONE = (
    Blueprint(name="web", kind=ScopeKind.STANDALONE, host=HostId("kvm-1")),
    Blueprint(name="db", kind=ScopeKind.STANDALONE, host=HostId("kvm-1")),
    Blueprint(name="app", kind=ScopeKind.STANDALONE, host=HostId("kvm-2")),
)


def fleet() -> OperatorTestClient:
    """Return a client of three machines on two hosts, which operators act on."""
    return operator_client(*ALONE, driver=ExternalDriver(), zone=ZoneInfo("Europe/Berlin"))


def announce(client: OperatorTestClient, **request: Json) -> maintenance_schemas.MaintenanceBody:
    """Announce a maintenance."""
    body = client.call("POST", "/maintenances", {"cause": "host-reboot", **request}, 201)
    return msgspec.json.decode(body, type=maintenance_schemas.MaintenanceBody)


def host(client: OperatorTestClient, name: str) -> maintenance_schemas.HostBody:
    """Return a host."""
    return msgspec.json.decode(client.get(f"/hosts/{name}"), type=maintenance_schemas.HostBody)


@pytest.mark.rule("M-03")
def test_instants_are_in_the_zone_of_the_fleet_and_printed_back_with_their_offset() -> None:
    client = fleet()

    made = announce(client, host="kvm-1", at="Thu 02:00", until="Thu 06:00")

    assert made.when == "not before Thu 2026-11-19 02:00 +01:00, until Thu 2026-11-19 06:00 +01:00"
    assert [event.waits_for for event in made.events] == [
        "window, Thu 2026-11-19 02:00 +01:00 · approval of db, web"
    ] * 2
    assert {(event.host, event.maintenance) for event in made.events} == {("kvm-1", made.id)}


@pytest.mark.rule("M-11")
def test_a_repeated_request_with_a_key_gets_the_same_maintenance() -> None:
    client = fleet()

    first = announce(client, host="kvm-1", at="+5h", key="CHG-1")

    assert announce(client, host="kvm-1", at="+6h", key="CHG-1") == first


def test_a_dry_run_is_shown_and_not_stored() -> None:
    client = fleet()

    shown = announce(client, host="kvm-1", at="+5h", dry_run=True)

    assert shown.machines == ["db/db", "web/web"]
    assert shown.not_before == NOON + timedelta(hours=5)
    assert msgspec.json.decode(client.get("/maintenances")) == {"maintenances": []}


def test_a_host_shows_who_has_answered() -> None:
    client = fleet()
    made = announce(client, host="kvm-1", at="+5h")
    client.call("POST", f"/events/{made.events[0].id}/approve", {})

    shown = host(client, "kvm-1")

    assert shown.state == "announced"
    assert [(tenant.scope, tenant.answer) for tenant in shown.tenants] == [
        ("db", "approved"),
        ("web", "not approved"),
    ]
    assert [maintenance.id for maintenance in shown.maintenances] == [made.id]
    assert client.refused("GET", "/hosts/kvm-9").status == 404


def test_a_host_is_completed_with_one_request_and_stays_known() -> None:
    client = fleet()
    made = announce(client, host="kvm-1")
    for event in made.events:
        client.call("POST", f"/events/{event.id}/approve", {})
    assert host(client, "kvm-1").state == "in-maintenance"

    client.call("POST", "/hosts/kvm-1/complete", {"moved": {"db": "kvm-2"}})

    over = msgspec.json.decode(
        client.get(f"/maintenances/{made.id}"), type=maintenance_schemas.MaintenanceBody
    )
    assert (over.phase, over.events) == ("done", [])
    assert host(client, "kvm-1").state == "in-service"
    assert [tenant.scope for tenant in host(client, "kvm-2").tenants] == ["app", "db"]
    listed = msgspec.json.decode(
        client.get("/maintenances?host=kvm-1&over=true"), type=maintenance_schemas.MaintenancesBody
    )
    assert [maintenance.id for maintenance in listed.maintenances] == [made.id]


def test_a_host_is_cancelled_and_postponed_with_one_request() -> None:
    client = fleet()
    announce(client, host="kvm-1", at="+5h")

    client.call("POST", "/hosts/kvm-1/postpone", {"until": "+6h"})

    assert {event.not_before for event in client.events()} == {NOON + timedelta(hours=6)}
    client.call("POST", "/hosts/kvm-1/cancel", {})
    assert client.events() == []
    assert client.refused("POST", "/hosts/kvm-1/cancel", {}).status == 404


@pytest.mark.rule("M-08")
def test_a_hold_is_set_shown_and_ended() -> None:
    client = fleet()

    client.call("PUT", "/hold", {"reason": "storage"})

    held = msgspec.json.decode(client.get("/hold"), type=maintenance_schemas.HoldBody)
    assert (held.held, held.reason, held.by, held.since) == (True, "storage", "operator", NOON)
    client.call("PUT", "/hosts/kvm-1/hold", {})
    client.call("DELETE", "/hold", status=204)
    client.call("DELETE", "/hold", status=204)
    assert not msgspec.json.decode(client.get("/hold"), type=maintenance_schemas.HoldBody).held
    assert host(client, "kvm-1").hold.held
    lines = [line for line in client.history().history if line.type == "fleet"]
    assert [(line.kind, line.reason) for line in lines] == [
        ("held", "the fleet (storage)"),
        ("held", "host kvm-1"),
        ("unheld", "the fleet"),
    ]


def test_metrics_count_what_events_wait_for() -> None:
    client = fleet()
    announce(client, host="kvm-1", at="+5h")

    client.call("PUT", "/hold", {})

    metrics = client.get("/metrics").decode()
    assert 'fairwarning_waiting_events{reason="window"} 2' in metrics
    assert 'fairwarning_waiting_events{reason="approval"} 2' in metrics
    assert 'fairwarning_waiting_events{reason="hold"} 2' in metrics
    assert 'fairwarning_waiting_events{reason="budget"} 0' in metrics
    assert "fairwarning_hold 1" in metrics


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        pytest.param({"host": "kvm-1", "at": "Fri 25:00"}, "at", id="an instant that is none"),
        pytest.param({"host": "kvm-1", "until": "+1m"}, "until", id="a window without room for the notice"),
        pytest.param({"host": "kvm-1", "cause": "restart"}, "cause", id="a cause of a user"),
        pytest.param({"host": "kvm-1", "on_silence": "no"}, "on_silence", id="an unknown answer"),
        pytest.param({"at": "+5h"}, "machines", id="no machine"),
    ],
)
def test_a_request_that_makes_no_maintenance_is_refused(request_: dict[str, str], field: str) -> None:
    client = fleet()

    refusal = client.refused("POST", "/maintenances", {"cause": "host-reboot", **request_})

    assert (refusal.status, refusal.field) == (422, field)
    assert client.events() == []
