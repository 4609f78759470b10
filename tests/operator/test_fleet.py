"""Machines and scopes: seeing them, making them, changing them, deleting them."""

from datetime import timedelta

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.machine_state import MachineState
from fairwarning.core.model import PowerState, ScopeKind
from fairwarning.operator import schemas
from tests.fleet_harness import NOON
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
ZONAL = Blueprint(name="web", count=4, zones=("1", "2"))


def names(answer: bytes) -> list[str]:
    """Return the names of the machines in an answer."""
    return [one.name for one in msgspec.json.decode(answer, type=schemas.MachinesBody).machines]


def ids(answer: bytes) -> list[str]:
    """Return the ids of the scopes in an answer."""
    return [one.id for one in msgspec.json.decode(answer, type=schemas.ScopesBody).scopes]


def test_all_machines_are_listed_scope_by_scope() -> None:
    desk = office(WEB, DB)

    assert names(desk.get("/machines")) == ["web_0", "web_1", "web_2", "db"]


def test_a_machine_is_shown_with_its_place_and_its_address() -> None:
    desk = office(WEB)

    assert desk.machine("web_1") == schemas.MachineBody(
        name="web_1",
        scope="web",
        set="web",
        instance="1",
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


def test_the_last_poll_is_told_to_the_minute_whatever_is_kept_of_it() -> None:
    desk = office(WEB)
    desk.stage.advance("10m")

    desk.stage.poll("web_1")

    assert desk.machine("web_0").polled_at == NOON + timedelta(minutes=10)
    assert desk.scope("web").polled_at == NOON + timedelta(minutes=10)


def test_a_machine_without_a_door_has_no_address() -> None:
    desk = office(Blueprint(name="elsewhere", kind=ScopeKind.STANDALONE))

    assert desk.machine("elsewhere").metadata is None


@pytest.mark.parametrize("path", ["web.zone2/web_1", "web.zone2%2Fweb_1", "web_1"])
def test_a_machine_may_be_named_with_its_scope(path: str) -> None:
    desk = office(ZONAL)

    assert desk.machine(path).scope == "web.zone2"


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
    desk = office(Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=spot, terminate_notice=notice))

    (event,) = desk.cause(cause, "batch").events
    before = desk.machine("batch").state
    desk.fine("POST", f"/events/{event.id}/approve")

    assert before == "warned"
    assert desk.machine("batch").state == state


def test_a_machine_nobody_could_warn_is_called_running_until_it_happens() -> None:
    desk = office(DB, watched=False)

    desk.cause("freeze", "db")

    assert desk.machine("db").state == "running"


def test_a_machine_is_stopped_and_started() -> None:
    desk = office(DB)

    stopped = desk.fine("PUT", "/machines/db/power", {"power": "stopped"})
    started = desk.fine("PUT", "/machines/db/power", {"power": "running"})

    assert msgspec.json.decode(stopped, type=schemas.MachineBody).state == "stopped"
    assert msgspec.json.decode(started, type=schemas.MachineBody).state == "running"


def test_a_machine_is_deleted_with_notice() -> None:
    desk = office(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = msgspec.json.decode(
        desk.fine("DELETE", "/machines/web_0", status=202), type=schemas.AnnouncedBody
    )

    (event,) = answer.events
    assert answer.warned
    assert (event.type, event.not_before) == ("Terminate", NOON + timedelta(minutes=5))
    assert event.resources == ["web_0"]


def test_a_forced_delete_skips_the_notice() -> None:
    desk = office(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = desk.fine("DELETE", "/machines/web_0?force=true", status=202)

    announced = msgspec.json.decode(answer, type=schemas.AnnouncedBody)
    assert not announced.warned
    assert announced.hint is None
    assert announced.events[0].status == "Started"


def test_a_set_is_deleted_with_one_event_per_machine_and_then_gone() -> None:
    desk = office(Blueprint(name="web", count=2, terminate_notice=timedelta(minutes=5)))

    answer = msgspec.json.decode(desk.fine("DELETE", "/scopes/web", status=202), type=schemas.AnnouncedBody)
    desk.advance("10m")

    assert [event.resources for event in answer.events] == [["web_0"], ["web_1"]]
    assert desk.refused("GET", "/scopes/web").status == 404


def test_deleting_a_set_without_machines_leads_to_no_event() -> None:
    desk = office(Blueprint(name="web", count=0))

    answer = desk.fine("DELETE", "/scopes/web", status=202)

    assert msgspec.json.decode(answer, type=schemas.AnnouncedBody).events == []
    assert desk.refused("GET", "/scopes/web").status == 404


def test_a_scope_is_shown_with_what_is_true_of_it_as_a_whole() -> None:
    desk = office(WEB)
    (event,) = desk.cause("restart", "web_0").events

    assert desk.scope("web") == schemas.ScopeBody(
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


def test_a_set_is_made_as_asked() -> None:
    desk = office()

    made = desk.fine(
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
    scope = desk.scope("web.zone1")
    assert scope.machines == ["web_0", "web_2"]
    assert (scope.zone, scope.terminate_notice, scope.update_domains) == ("1", "10m", 3)
    assert scope.approvals == schemas.ApprovalsBody(
        user_reboot=True, user_redeploy=False, all_instances_down=True
    )
    assert desk.stage.machine("web_2").tags == (("team", "shop"),)


@pytest.mark.rule("T-05")
def test_a_spot_set_is_made_but_not_with_notice_of_its_deletion() -> None:
    desk = office()
    wanted: dict[str, Json] = {"name": "web", "kind": "scale-set", "spot": True, "eviction": "Delete"}

    problem = desk.refused("POST", "/scopes", {**wanted, "terminate_notice": "5m"})
    desk.fine("POST", "/scopes", wanted, 201)

    assert problem.status == 409
    assert desk.machine("web_0").spot


def test_a_cloud_service_has_roles() -> None:
    desk = office()

    desk.fine("POST", "/scopes", {"name": "shop", "kind": "cloud-service", "roles": {"FrontEnd": 2}}, 201)

    assert desk.scope("shop").machines == ["FrontEnd_IN_0", "FrontEnd_IN_1"]


def test_machines_may_be_placed_on_one_host() -> None:
    desk = office()

    for name in ("one", "two"):
        desk.fine("POST", "/scopes", {"name": name, "kind": "standalone", "host": "rack-7"}, 201)

    assert {desk.machine(name).host for name in ("one", "two")} == {"rack-7"}


def test_a_set_grows() -> None:
    desk = office(WEB)

    added = desk.fine("POST", "/scopes/web/machines", {"count": 2}, 201)

    assert names(added) == ["web_3", "web_4"]
    assert desk.scope("web").machines == ["web_0", "web_1", "web_2", "web_3", "web_4"]


@pytest.mark.rule("T-06")
def test_a_changed_notice_counts_for_an_instance_once_it_is_upgraded() -> None:
    desk = office(WEB)

    changed = desk.fine("PATCH", "/scopes/web", {"terminate_notice": "10m"})
    before = [desk.machine(name).latest_model_applied for name in ("web_0", "web_1")]
    upgraded = desk.fine("POST", "/scopes/web/upgrade", {"machines": ["web_0"]})

    assert msgspec.json.decode(changed, type=schemas.ScopesBody).scopes[0].terminate_notice == "10m"
    assert before == [False, False]
    assert names(upgraded) == ["web_0"]
    assert [desk.machine(name).latest_model_applied for name in ("web_0", "web_1")] == [True, False]


def test_a_zonal_set_is_changed_and_upgraded_in_all_its_zones() -> None:
    desk = office(ZONAL)

    changed = desk.fine("PATCH", "/scopes/web", {"terminate_notice": "5m"})
    upgraded = desk.fine("POST", "/scopes/web/upgrade")

    assert ids(changed) == ["web.zone1", "web.zone2"]
    assert names(upgraded) == ["web_0", "web_2", "web_1", "web_3"]


def test_one_zone_of_a_set_is_changed_by_its_scope() -> None:
    desk = office(ZONAL)

    assert ids(desk.fine("PATCH", "/scopes/web.zone2", {"terminate_notice": "5m"})) == ["web.zone2"]
    assert desk.scope("web.zone1").terminate_notice is None


def test_a_notice_is_taken_away_with_null_and_left_alone_by_silence() -> None:
    desk = office(Blueprint(name="web", terminate_notice=timedelta(minutes=5)))

    desk.fine("PATCH", "/scopes/web", {})
    kept = desk.scope("web").terminate_notice
    desk.fine("PATCH", "/scopes/web", {"terminate_notice": None})

    assert kept == "5m"
    assert desk.scope("web").terminate_notice is None


def test_what_a_scope_approves_by_itself_is_changed_one_by_one() -> None:
    desk = office(WEB)

    desk.fine("PATCH", "/scopes/web", {"approvals": {"user_reboot": True}})
    desk.fine("PATCH", "/scopes/web", {"approvals": {"all_instances_down": False}})

    assert desk.scope("web").approvals == schemas.ApprovalsBody(
        user_reboot=True, user_redeploy=False, all_instances_down=False
    )


@pytest.fixture(scope="module")
def desk() -> Office:
    return office(WEB, ZONAL_TWIN, Blueprint(name="one", names=("app",), kind=ScopeKind.AVAILABILITY_SET),
                  Blueprint(name="two", names=("app",), kind=ScopeKind.AVAILABILITY_SET))  # fmt: skip


ZONAL_TWIN = Blueprint(name="twin", count=2, zones=("1", "2"))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        pytest.param("GET", "/machines/nobody", None, 404, None, id="an unknown machine"),
        pytest.param("GET", "/machines/web/nobody", None, 404, None, id="an unknown machine of a scope"),
        pytest.param("GET", "/machines/app", None, 409, None, id="a name two machines have"),
        pytest.param("GET", "/machines/", None, 404, None, id="a machine without a name"),
        pytest.param("PUT", "/machines/web_0/power", {"power": "off"}, 422, "power", id="an unknown power"),
        pytest.param("PUT", "/machines/web_0/power", {}, 422, "power", id="no power at all"),
        pytest.param("DELETE", "/machines/nobody", None, 404, None, id="deleting an unknown machine"),
        pytest.param("DELETE", "/machines/web_0?force=maybe", None, 422, "force", id="half a force"),
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
            "PATCH", "/scopes/web", {"approvals": {"all": True}}, 422, "approvals.all", id="a deep stranger"
        ),
        pytest.param("DELETE", "/scopes/nowhere", None, 404, None, id="deleting an unknown set"),
        pytest.param("POST", "/scopes", {"name": "web"}, 409, None, id="a name that is taken"),
        pytest.param("POST", "/scopes", {"name": "a b"}, 422, "name", id="a name with a space"),
        pytest.param("POST", "/scopes", {}, 422, "name", id="no name"),
        pytest.param("POST", "/scopes", {"name": "x", "count": 1001}, 422, "count", id="too many machines"),
        pytest.param("POST", "/scopes", {"name": "x", "count": "3"}, 422, "count", id="a count in words"),
        pytest.param("POST", "/scopes", {"name": "x", "kind": "pool"}, 422, "kind", id="an unknown kind"),
        pytest.param("POST", "/scopes", {"name": "x", "zones": ["a/b"]}, 422, "zones[0]", id="an odd zone"),
        pytest.param(
            "POST", "/scopes", {"name": "x", "fault_domains": 0}, 422, "fault_domains", id="no fault domain"
        ),
        pytest.param("POST", "/scopes", {"name": "x", "colour": 1}, 422, "colour", id="an unknown member"),
        pytest.param("POST", "/scopes", {"name": "x", "by": "a\nb"}, 422, "by", id="an asker on two lines"),
        pytest.param("POST", "/scopes", ["web"], 422, None, id="a list instead of an object"),
        pytest.param("POST", "/scopes/nowhere/machines", {}, 404, None, id="growing an unknown scope"),
        pytest.param("POST", "/scopes/web/machines", {"count": 0}, 422, "count", id="growing by nothing"),
        pytest.param(
            "POST", "/scopes/web/upgrade", {"machines": ["app"]}, 409, "machines[0]", id="an unclear instance"
        ),
        pytest.param(
            "POST", "/scopes/web/upgrade", {"machines": ["twin_0"]}, 404, "machines[0]",
            id="an instance of another set",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_naming_the_field(
    desk: Office, method: str, path: str, body: Json, status: int, field: str | None
) -> None:
    problem = desk.refused(method, path, body)

    assert problem.status == status
    assert problem.field == (msgspec.UNSET if field is None else field)
