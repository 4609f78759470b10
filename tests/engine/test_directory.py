"""Finding machines, hosts, sets and events by name."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import (
    AmbiguousNameError,
    UnknownEventError,
    UnknownHostError,
    UnknownMachineError,
)
from fairwarning.core.model import HostId, ScopeId, ScopeKind
from tests.fleet_harness import FleetHarness, span

SHOP = Blueprint(name="shop", kind=ScopeKind.CLOUD_SERVICE, roles=(("Front", 1),))
BANK = replace(SHOP, name="bank")
WEB = Blueprint(name="web", count=4, zones=("1", "2"), terminate_notice=span("5m"))


def test_a_machine_goes_by_its_name_or_by_its_full_name() -> None:
    directory = FleetHarness(WEB).engine.directory

    assert directory.machine("web_1") == directory.machine("web.zone2/web_1")
    assert directory.machine("web_1").full == "web.zone2/web_1"


@pytest.mark.parametrize("name", ["web_9", "web.zone1/web_1", "nowhere/web_1", "", "/"])
def test_an_unused_name_is_unknown(name: str) -> None:
    with pytest.raises(UnknownMachineError):
        FleetHarness(WEB).engine.directory.machine(name)


def test_a_name_that_several_have_needs_its_scope() -> None:
    directory = FleetHarness(SHOP, BANK).engine.directory

    with pytest.raises(AmbiguousNameError, match="bank/Front_IN_0, shop/Front_IN_0"):
        directory.machine("Front_IN_0")

    assert directory.machine("bank/Front_IN_0").scope == "bank"


def test_a_name_is_no_longer_ambiguous_once_the_other_is_gone() -> None:
    stage = FleetHarness(SHOP, BANK)

    stage.remove("shop", force=True)
    stage.advance("5s")

    assert stage.ref("Front_IN_0").scope == "bank"


def test_a_host_is_known_by_the_machines_on_it() -> None:
    rack = HostId("rack-7")
    stage = FleetHarness(replace(SHOP, host=rack), replace(BANK, host=rack))

    assert [ref.full for ref in stage.engine.directory.machines_on_host("rack-7")] == [
        "bank/Front_IN_0",
        "shop/Front_IN_0",
    ]

    stage.cause("redeploy", "shop/Front_IN_0")
    stage.advance("11m")

    assert [ref.full for ref in stage.engine.directory.machines_on_host("rack-7")] == ["bank/Front_IN_0"]
    with pytest.raises(UnknownHostError, match="no machine is on host nowhere"):
        stage.engine.directory.machines_on_host("nowhere")


@pytest.mark.rule("V-09")
def test_an_event_is_found_by_its_id_in_any_case_while_it_is_pending() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_1")

    assert stage.engine.directory.event(event.lower()) == ("web.zone2", event)

    stage.advance("1h")

    with pytest.raises(UnknownEventError):
        stage.engine.directory.event(event)


def test_a_set_is_known_by_its_scopes() -> None:
    directory = FleetHarness(WEB, SHOP).engine.directory

    assert directory.scopes_of_set("web") == ("web.zone1", "web.zone2")
    assert directory.scopes_of_set("shop") == ("shop",)
    assert directory.scopes_of_set("nothing") == ()


def test_scopes_that_share_a_barrier_are_decided_together_for_as_long_as_they_do() -> None:
    rack = HostId("rack-7")
    stage = FleetHarness(WEB, replace(SHOP, host=rack), replace(BANK, host=rack))
    directory = stage.engine.directory

    assert set(directory.together([ScopeId("web.zone1")])) == {"web.zone1", "web.zone2"}
    assert set(directory.together([ScopeId("shop")])) == {"shop"}

    stage.cause("host-reboot", "shop/Front_IN_0", "bank/Front_IN_0")

    assert set(directory.together([ScopeId("shop")])) == {"shop", "bank"}

    stage.advance("1h")

    assert set(directory.together([ScopeId("shop")])) == {"shop"}


def test_a_directory_is_the_same_after_a_restart() -> None:
    stage = FleetHarness(WEB, SHOP)
    (event,) = stage.cause("restart", "web_1")

    stage.restart()

    assert stage.engine.directory.event(event) == ("web.zone2", event)
    assert stage.ref("web_3").scope == "web.zone2"
