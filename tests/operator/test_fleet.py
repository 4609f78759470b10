"""Machines and scopes: listing, creating, changing and deleting them."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.fleet import MachineState
from fairwarning.core.model import PowerState, ScopeKind
from fairwarning.operator import schemas
from fairwarning.operator.app import create_app
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, FleetHarness
from tests.operator.operator_client import OperatorTestClient, address, operator_client
from tests.store.gate import Gate

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
ZONAL = Blueprint(name="web", count=4, zones=("1", "2"))


def names(body: bytes) -> list[str]:
    """Return the names of the machines in a body."""
    return [machine.name for machine in msgspec.json.decode(body, type=schemas.MachinesBody).machines]


def ids(body: bytes) -> list[str]:
    """Return the ids of the scopes in a body."""
    return [scope.id for scope in msgspec.json.decode(body, type=schemas.ScopesBody).scopes]


def test_all_machines_are_listed_scope_by_scope() -> None:
    client = operator_client(WEB, DB)

    assert names(client.get("/machines")) == ["web_0", "web_1", "web_2", "db"]


def test_a_machine_is_shown_with_its_domains_and_its_address() -> None:
    client = operator_client(WEB)

    assert client.machine("web_1") == schemas.MachineDetailBody(
        name="web_1",
        scope="web",
        set="web",
        instance="1",
        computer_name="web000001",
        power=PowerState.RUNNING,
        state=MachineState.RUNNING,
        update_domain=1,
        fault_domain=1,
        host="host-web-1-1",
        spot=False,
        enabled=True,
        polled_at=NOON,
        latest_model_applied=True,
        fault=None,
        metadata="http://metadata/web_1",
        alternatives=["unix:/run/web_1.sock"],
    )


def test_the_last_poll_is_shown_before_it_is_stored() -> None:
    client = operator_client(WEB)
    client.stage.advance("10m")

    client.stage.poll("web_1")

    assert client.machine("web_0").polled_at == NOON + timedelta(minutes=10)
    assert client.scope("web").polled_at == NOON + timedelta(minutes=10)


def test_a_machine_without_a_listener_has_no_address() -> None:
    client = operator_client(Blueprint(name="elsewhere", kind=ScopeKind.STANDALONE))

    assert client.machine("elsewhere").metadata is None


@pytest.mark.parametrize("path", ["web.zone2/web_1", "web.zone2%2Fweb_1", "web_1"])
def test_a_machine_may_be_named_with_its_scope(path: str) -> None:
    client = operator_client(ZONAL)

    assert client.machine(path).scope == "web.zone2"


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        pytest.param("freeze", "frozen", id="a freeze pauses"),
        pytest.param("restart", "rebooting", id="a restart reboots"),
        pytest.param("redeploy", "moving", id="a redeploy moves"),
        pytest.param("evict", "evicting", id="an eviction evicts"),
        pytest.param("delete", "terminating", id="a delete terminates"),
    ],
)
def test_a_machine_is_warned_first_and_then_in_the_state_its_event_brings(cause: str, state: str) -> None:
    spot = cause == "evict"
    notice = None if spot else timedelta(minutes=5)
    batch = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=spot, terminate_notice=notice)
    client = operator_client(batch)

    (event,) = client.cause(cause, "batch").events
    before = client.machine("batch").state
    client.call("POST", f"/events/{event.id}/approve")

    assert before == "warned"
    assert client.machine("batch").state == state


def test_a_machine_that_was_not_warned_is_running_until_its_event_starts() -> None:
    client = operator_client(DB, polled=False)

    client.cause("freeze", "db")

    assert client.machine("db").state == "running"


def test_a_machine_is_stopped_and_started() -> None:
    client = operator_client(DB)

    stopped = client.call("PUT", "/machines/db/power", {"power": "stopped"})
    started = client.call("PUT", "/machines/db/power", {"power": "running"})

    assert msgspec.json.decode(stopped, type=schemas.MachineBody).state == "stopped"
    assert msgspec.json.decode(started, type=schemas.MachineBody).state == "running"


def test_a_machine_is_reported_to_be_on_another_host() -> None:
    client = operator_client(WEB)

    moved = client.call("PATCH", "/machines/web/web_0", {"host": "kvm-20"})

    assert msgspec.json.decode(moved, type=schemas.MachineBody).host == "kvm-20"
    assert [client.machine(f"web_{number}").host for number in (0, 1)] == ["kvm-20", "host-web-1-1"]
    (*_, line) = client.history().history
    assert (line.kind, line.type, line.resources, line.by) == ("moved", "host", ["web_0"], "operator")
    assert line.reason == "from host-web-0-0 to kvm-20"


def test_a_machine_is_deleted_with_notice() -> None:
    client = operator_client(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = msgspec.json.decode(
        client.call("DELETE", "/machines/web_0", status=202), type=schemas.AnnouncedBody
    )

    (event,) = answer.events
    assert answer.warned
    assert (event.type, event.not_before) == ("Terminate", NOON + timedelta(minutes=5))
    assert event.resources == ["web_0"]


def test_a_forced_delete_skips_the_notice() -> None:
    client = operator_client(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = client.call("DELETE", "/machines/web_0?force=true", status=202)

    announced = msgspec.json.decode(answer, type=schemas.AnnouncedBody)
    assert not announced.warned
    assert announced.hint is None
    assert announced.events[0].status == "Started"


def test_a_set_is_deleted_with_one_event_per_machine_and_then_gone() -> None:
    client = operator_client(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = msgspec.json.decode(client.call("DELETE", "/scopes/web", status=202), type=schemas.AnnouncedBody)
    client.advance("10m")

    assert [event.resources for event in answer.events] == [["web_0"], ["web_1"]]
    assert client.refused("GET", "/scopes/web").status == 404


def test_deleting_a_set_without_machines_leads_to_no_event() -> None:
    client = operator_client(Blueprint(name="web", count=0))

    answer = client.call("DELETE", "/scopes/web", status=202)

    assert msgspec.json.decode(answer, type=schemas.AnnouncedBody).events == []
    assert client.refused("GET", "/scopes/web").status == 404


def test_a_scope_is_shown_with_all_its_properties() -> None:
    client = operator_client(WEB)
    (event,) = client.cause("restart", "web_0").events

    assert client.scope("web") == schemas.ScopeBody(
        id="web",
        set="web",
        kind=ScopeKind.SCALE_SET,
        zone="",
        incarnation=2,
        version=3,
        enabled=True,
        enabled_at=NOON,
        polled_at=NOON,
        machines=["web_0", "web_1", "web_2"],
        events=[event.id],
        update_domains=5,
        fault_domains=5,
        terminate_notice=None,
        approvals=schemas.ApprovalsBody(user_reboot=False, user_redeploy=False, all_instances_down=True),
        walk=None,
    )


def test_a_set_is_created_as_requested() -> None:
    client = operator_client()

    made = client.call(
        "POST",
        "/scopes",
        {
            "name": "web", "kind": "scale-set", "count": 3, "zones": ["1", "2"], "terminate_notice": "PT10M",
            "update_domains": 3, "approvals": {"user_reboot": True},
            "tags": {"team": "shop"},
        },
        201,
    )  # fmt: skip

    assert ids(made) == ["web.zone1", "web.zone2"]
    scope = client.scope("web.zone1")
    assert scope.machines == ["web_0", "web_2"]
    assert (scope.zone, scope.terminate_notice, scope.update_domains) == ("1", "10m", 3)
    assert scope.approvals == schemas.ApprovalsBody(
        user_reboot=True, user_redeploy=False, all_instances_down=True
    )
    assert client.stage.machine("web_2").tags == (("team", "shop"),)


@pytest.mark.rule("T-05")
def test_a_spot_set_is_created_but_not_with_a_terminate_notice() -> None:
    client = operator_client()
    wanted: dict[str, Json] = {"name": "web", "kind": "scale-set", "spot": True, "eviction": "Delete"}

    problem = client.refused("POST", "/scopes", {**wanted, "terminate_notice": "5m"})
    client.call("POST", "/scopes", wanted, 201)

    assert problem.status == 409
    assert client.machine("web_0").spot


def test_a_cloud_service_has_roles() -> None:
    client = operator_client()

    client.call("POST", "/scopes", {"name": "shop", "kind": "cloud-service", "roles": {"FrontEnd": 2}}, 201)

    assert client.scope("shop").machines == ["FrontEnd_IN_0", "FrontEnd_IN_1"]


def test_machines_may_be_placed_on_one_host() -> None:
    client = operator_client()

    for name in ("one", "two"):
        client.call("POST", "/scopes", {"name": name, "kind": "standalone", "host": "rack-7"}, 201)

    assert {client.machine(name).host for name in ("one", "two")} == {"rack-7"}


def test_machines_are_added_to_a_set() -> None:
    client = operator_client(WEB)

    added = client.call("POST", "/scopes/web/machines", {"count": 2}, 201)

    assert names(added) == ["web_3", "web_4"]
    assert client.scope("web").machines == ["web_0", "web_1", "web_2", "web_3", "web_4"]


@pytest.mark.rule("T-06")
def test_a_changed_notice_counts_for_an_instance_once_it_is_upgraded() -> None:
    client = operator_client(WEB)

    changed = client.call("PATCH", "/scopes/web", {"terminate_notice": "10m"})
    before = [client.machine(name).latest_model_applied for name in ("web_0", "web_1")]
    upgraded = client.call("POST", "/scopes/web/upgrade", {"machines": ["web_0"]})

    assert msgspec.json.decode(changed, type=schemas.ScopesBody).scopes[0].terminate_notice == "10m"
    assert before == [False, False]
    assert names(upgraded) == ["web_0"]
    assert [client.machine(name).latest_model_applied for name in ("web_0", "web_1")] == [True, False]


def test_a_zonal_set_is_changed_and_upgraded_in_all_its_zones() -> None:
    client = operator_client(ZONAL)

    changed = client.call("PATCH", "/scopes/web", {"terminate_notice": "5m"})
    upgraded = client.call("POST", "/scopes/web/upgrade")

    assert ids(changed) == ["web.zone1", "web.zone2"]
    assert names(upgraded) == ["web_0", "web_2", "web_1", "web_3"]


def test_one_zone_of_a_set_is_changed_by_its_scope() -> None:
    client = operator_client(ZONAL)

    assert ids(client.call("PATCH", "/scopes/web.zone2", {"terminate_notice": "5m"})) == ["web.zone2"]
    assert client.scope("web.zone1").terminate_notice is None


def test_a_null_notice_removes_it_and_a_missing_one_keeps_it() -> None:
    client = operator_client(Blueprint(name="web", terminate_notice=timedelta(minutes=5)))

    client.call("PATCH", "/scopes/web", {})
    kept = client.scope("web").terminate_notice
    client.call("PATCH", "/scopes/web", {"terminate_notice": None})

    assert kept == "5m"
    assert client.scope("web").terminate_notice is None


def test_approval_settings_are_changed_one_by_one() -> None:
    client = operator_client(WEB)

    client.call("PATCH", "/scopes/web", {"approvals": {"user_reboot": True}})
    client.call("PATCH", "/scopes/web", {"approvals": {"all_instances_down": False}})

    assert client.scope("web").approvals == schemas.ApprovalsBody(
        user_reboot=True, user_redeploy=False, all_instances_down=False
    )


@pytest.fixture(scope="module")
def client() -> OperatorTestClient:
    twins = [Blueprint(name=name, names=("app",), kind=ScopeKind.AVAILABILITY_SET) for name in ("one", "two")]
    return operator_client(WEB, ZONAL_TWIN, *twins)


ZONAL_TWIN = Blueprint(name="twin", count=2, zones=("1", "2"))


def test_a_change_of_a_set_with_zones_is_one_commit() -> None:
    gate = Gate(MemoryStore())
    stage = FleetHarness(Blueprint(name="shop", count=4, zones=("1", "2", "3")), store=gate)
    app = create_app(Control(stage.engine), endpoints=address)
    client = OperatorTestClient(stage, app, asyncio.Event())
    gate.batches.clear()

    client.call("PATCH", "/scopes/shop", {"terminate_notice": "6m", "approvals": {"user_reboot": True}})

    (commit,) = gate.batches
    assert set(commit.after) == {"shop.zone1", "shop.zone2", "shop.zone3"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        pytest.param("GET", "/machines/nobody", None, 404, None, id="an unknown machine"),
        pytest.param("GET", "/machines/web/nobody", None, 404, None, id="an unknown machine of a scope"),
        pytest.param("GET", "/machines/app", None, 409, None, id="a name two machines have"),
        pytest.param("GET", "/machines/", None, 404, None, id="a machine without a name"),
        pytest.param("PUT", "/machines/web_0/power", {"power": "off"}, 422, "power", id="an unknown power"),
        pytest.param("PUT", "/machines/web_0/power", {}, 422, "power", id="no power"),
        pytest.param("PATCH", "/machines/nobody", {"host": "h"}, 404, None, id="moving an unknown machine"),
        pytest.param("PATCH", "/machines/app", {"host": "h"}, 409, None, id="moving one of two machines"),
        pytest.param("PATCH", "/machines/web_0", {}, 422, "host", id="a move without a host"),
        pytest.param("PATCH", "/machines/web_0", {"host": ""}, 422, "host", id="an empty host"),
        pytest.param("PATCH", "/machines/web_0", {"host": "a\u202eb"}, 422, "host", id="a hidden character"),
        pytest.param("PATCH", "/machines/web_0", {"size": "s"}, 422, "size", id="what no move is about"),
        pytest.param("DELETE", "/machines/nobody", None, 404, None, id="deleting an unknown machine"),
        pytest.param("DELETE", "/machines/web_0?force=maybe", None, 422, "force", id="an invalid force"),
        pytest.param("DELETE", "/machines/web_0?farce=1", None, 422, "farce", id="a misspelt parameter"),
        pytest.param(
            "DELETE", "/machines/web_0?force=true&force=false", None, 422, "force", id="force and no force"
        ),
        pytest.param("GET", "/scopes/nowhere", None, 404, None, id="an unknown scope"),
        pytest.param("PATCH", "/scopes/nowhere", {}, 404, None, id="changing an unknown set"),
        pytest.param(
            "PATCH", "/scopes/web", {"terminate_notice": "1h"}, 422, "terminate_notice", id="a long notice"
        ),
        pytest.param(
            "PATCH", "/scopes/web", {"terminate_notice": "soon"}, 422, "terminate_notice", id="no duration"
        ),
        pytest.param(
            "PATCH", "/scopes/web", {"approvals": {"all": True}}, 422, "approvals.all", id="a nested member"
        ),
        pytest.param("DELETE", "/scopes/nowhere", None, 404, None, id="deleting an unknown set"),
        pytest.param("POST", "/scopes", {"name": "web"}, 409, None, id="a name that is taken"),
        pytest.param("POST", "/scopes", {"name": "a b"}, 422, "name", id="a name with a space"),
        pytest.param("POST", "/scopes", {}, 422, "name", id="no name"),
        pytest.param("POST", "/scopes", {"name": "x", "count": 1001}, 422, "count", id="too many machines"),
        pytest.param("POST", "/scopes", {"name": "x", "count": "3"}, 422, "count", id="a count as text"),
        pytest.param("POST", "/scopes", {"name": "x", "kind": "pool"}, 422, "kind", id="an unknown kind"),
        pytest.param("POST", "/scopes", {"name": "x", "zones": ["a/b"]}, 422, "zones[0]", id="invalid zone"),
        pytest.param(
            "POST", "/scopes", {"name": "x", "fault_domains": 0}, 422, "fault_domains", id="no fault domain"
        ),
        pytest.param("POST", "/scopes", {"name": "x", "colour": 1}, 422, "colour", id="an unknown member"),
        pytest.param("POST", "/scopes", {"name": "x", "by": "a" * 101}, 422, "by", id="a name too long"),
        pytest.param("POST", "/scopes", ["web"], 422, None, id="a list instead of an object"),
        pytest.param("POST", "/scopes/nowhere/machines", {}, 404, None, id="adding to an unknown scope"),
        pytest.param("POST", "/scopes/web/machines", {"count": 0}, 422, "count", id="adding no machine"),
        pytest.param(
            "POST", "/scopes/web/upgrade", {"machines": ["app"]}, 409, "machines[0]", id="an ambiguous name"
        ),
        pytest.param(
            "POST", "/scopes/web/upgrade", {"machines": ["twin_0"]}, 404, "machines[0]",
            id="an instance of another set",
        ),
    ],
)  # fmt: skip
def test_an_invalid_request_is_refused_naming_the_field(
    client: OperatorTestClient, method: str, path: str, body: Json, status: int, field: str | None
) -> None:
    problem = client.refused(method, path, body)

    assert problem.status == status
    assert problem.field == (msgspec.UNSET if field is None else field)
