"""Scopes: which machines share a document, the names of machines and their domains (S rules)."""

import re
from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import AmbiguousNameError, InvalidError, NameTakenError, UnknownEventError
from fairwarning.core.model import EventStatus, HostId, ScopeKind
from fairwarning.core.policy import Policy
from tests.fleet_harness import FleetHarness, span

VM = Blueprint(name="box", kind=ScopeKind.STANDALONE)
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=3)
WEB = Blueprint(name="web", count=3)
FLEX = Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=3)
SHOP = Blueprint(name="shop", kind=ScopeKind.CLOUD_SERVICE, roles=(("FrontEnd", 2), ("BackEnd", 1)))
NO_UPDATE_DOMAIN = 0


# -- visibility


@pytest.mark.rule("S-01")
@pytest.mark.parametrize("blueprint", [VM, PAIR, WEB, FLEX, SHOP], ids=lambda one: str(one.kind))
def test_every_machine_of_a_scope_reads_the_same_document(blueprint: Blueprint) -> None:
    stage = FleetHarness(blueprint)
    machines = stage.machines(blueprint.name)

    (event,) = stage.cause("restart", machines[0])

    assert len({stage.document(name) for name in machines}) == 1
    assert event.encode() in stage.document(machines[-1])


@pytest.mark.rule("S-01")
@pytest.mark.rule("R-18")
def test_no_machine_reads_the_events_of_another_scope() -> None:
    stage = FleetHarness(VM, PAIR, WEB, FLEX, SHOP)

    stage.cause("restart", "web_0")

    for scope in ("box", "app", "flex", "shop"):
        assert stage.shown(stage.machines(scope)[0]) == ()
        assert stage.incarnation(scope) == 1


@pytest.mark.rule("S-02")
def test_machines_of_one_zone_that_stand_alone_see_only_their_own_events() -> None:
    stage = FleetHarness(VM, replace(VM, name="crate"))
    stage.cause("restart", "box")

    assert stage.shown("crate") == ()


@pytest.mark.rule("S-02")
@pytest.mark.rule("R-24")
def test_a_zonal_set_has_a_document_per_zone() -> None:
    stage = FleetHarness(replace(WEB, count=4, zones=("1", "3")))

    stage.cause("restart", "web_0")

    assert stage.machines("web.zone1") == ["web_0", "web_2"]
    assert stage.machines("web.zone3") == ["web_1", "web_3"]
    assert len(stage.shown("web_2")) == 1
    assert stage.shown("web_1") == ()
    assert (stage.incarnation("web.zone1"), stage.incarnation("web.zone3")) == (2, 1)


@pytest.mark.rule("S-03")
def test_without_broadcast_only_the_affected_machine_sees_and_approves_its_event() -> None:
    stage = FleetHarness(replace(WEB, fault_domains=1, broadcast=False))
    (event,) = stage.cause("freeze", "web_1")

    assert [one.id for one in stage.shown("web_1")] == [event]
    assert stage.shown("web_0") == ()

    with pytest.raises(UnknownEventError):
        stage.approve(event, by="web_0")
    stage.approve(event, by="web_1")

    assert stage.status(event) is EventStatus.STARTED


# -- domains


@pytest.mark.rule("S-04")
@pytest.mark.parametrize("blueprint", [PAIR, WEB, SHOP], ids=lambda one: str(one.kind))
def test_an_event_never_spans_two_update_domains(blueprint: Blueprint) -> None:
    stage = FleetHarness(replace(blueprint, host=HostId("rack-7")))
    machines = stage.machines(blueprint.name)

    events = stage.cause("host-reboot", *machines)

    domains = [{stage.machine(name).update_domain for name in stage.event(one).resources} for one in events]
    assert all(len(one) == 1 for one in domains)
    assert len(domains) == len({stage.machine(name).update_domain for name in machines})


@pytest.mark.rule("S-04")
def test_the_promise_of_one_update_domain_can_be_broken_on_purpose() -> None:
    stage = FleetHarness(replace(WEB, host=HostId("rack-7")), policy=Policy(one_update_domain=False))

    (event,) = stage.cause("host-reboot", "web_0", "web_1", "web_2")

    assert stage.event(event).resources == ("web_0", "web_1", "web_2")


@pytest.mark.rule("S-04")
@pytest.mark.parametrize(
    ("kind", "update_domains", "fault_domains"),
    [
        (ScopeKind.AVAILABILITY_SET, 5, 2),
        (ScopeKind.SCALE_SET, 5, 5),
        (ScopeKind.FLEXIBLE_SET, NO_UPDATE_DOMAIN, 3),
        (ScopeKind.CLOUD_SERVICE, 5, 2),
    ],
)
def test_machines_are_spread_over_the_domains_of_their_kind(
    kind: ScopeKind, update_domains: int, fault_domains: int
) -> None:
    stage = FleetHarness(Blueprint(name="set", kind=kind, count=20))

    machines = stage.scope("set").machines.values()

    assert len({machine.update_domain for machine in machines}) == max(update_domains, 1)
    assert len({machine.fault_domain for machine in machines}) == fault_domains
    assert all(
        len({m.update_domain for m in machines if m.host == host}) == 1 for host in {m.host for m in machines}
    )


@pytest.mark.rule("S-04")
def test_each_zone_spreads_its_own_machines() -> None:
    stage = FleetHarness(replace(FLEX, count=9, zones=("1", "2", "3")))

    for zone in "123":
        machines = stage.scope(f"flex.zone{zone}").machines.values()
        assert [machine.fault_domain for machine in machines] == [0, 1, 2]


# -- names


@pytest.mark.rule("S-06")
@pytest.mark.parametrize(
    ("blueprint", "names"),
    [
        pytest.param(VM, ["box"], id="a standalone machine has its own name"),
        pytest.param(PAIR, ["app-0", "app-1", "app-2"], id="an availability set counts"),
        pytest.param(replace(PAIR, names=("a", "b", "c")), ["a", "b", "c"], id="or has names given"),
        pytest.param(WEB, ["web_0", "web_1", "web_2"], id="a scale set appends the instance id"),
        pytest.param(
            SHOP, ["FrontEnd_IN_0", "FrontEnd_IN_1", "BackEnd_IN_0"], id="a role numbers its instances"
        ),
    ],
)
def test_machines_are_named_after_their_kind(blueprint: Blueprint, names: list[str]) -> None:
    assert FleetHarness(blueprint).machines(blueprint.name) == names


@pytest.mark.rule("S-06")
def test_an_instance_of_a_flexible_set_has_eight_hexadecimal_characters() -> None:
    names = FleetHarness(replace(FLEX, count=50)).machines("flex")

    assert len(set(names)) == 50
    assert all(re.fullmatch(r"flex_[0-9a-f]{8}", name) for name in names)


@pytest.mark.rule("S-06")
@pytest.mark.parametrize(
    ("blueprint", "shown"),
    [
        pytest.param(WEB, b'"Resources":["_web_0"]', id="a machine has an underscore"),
        pytest.param(SHOP, b'"Resources":["FrontEnd_IN_0"]', id="a role instance has none"),
    ],
)
def test_the_oldest_version_puts_an_underscore_before_iaas_names(blueprint: Blueprint, shown: bytes) -> None:
    stage = FleetHarness(blueprint)
    machine = stage.machines(blueprint.name)[0]

    stage.cause("restart", machine)

    assert shown in stage.document(machine, "2017-03-01")


@pytest.mark.rule("S-07")
def test_names_are_bare_and_unique_only_inside_their_scope() -> None:
    stage = FleetHarness(SHOP, replace(SHOP, name="bank"))

    (event,) = stage.cause("restart", "bank/FrontEnd_IN_0")

    assert stage.event(event).resources == ("FrontEnd_IN_0",)
    assert b'"ResourceType":"VirtualMachine","Resources":["FrontEnd_IN_0"]' in stage.document(
        "bank/BackEnd_IN_0"
    )
    assert stage.pending("shop") == ()
    with pytest.raises(AmbiguousNameError, match="use one of: bank/FrontEnd_IN_0, shop/FrontEnd_IN_0"):
        stage.cause("restart", "FrontEnd_IN_0")


# -- growing


@pytest.mark.rule("S-06")
def test_a_set_grows_without_using_an_instance_id_twice() -> None:
    stage = FleetHarness(replace(WEB, spot=True, tags=(("team", "blue"),)))
    stage.cause("delete", "web_2")
    stage.advance("5s")

    stage.grow("web", 2)

    assert stage.machines("web") == ["web_0", "web_1", "web_3", "web_4"]
    assert stage.machine("web_4").spot
    assert stage.machine("web_4").tags == (("team", "blue"),)


@pytest.mark.rule("S-06")
def test_the_zones_of_a_set_share_one_count_of_instances() -> None:
    stage = FleetHarness(replace(WEB, count=3, zones=("1", "2")))

    stage.grow("web.zone2", 2)

    assert stage.machines("web.zone1") == ["web_0", "web_2"]
    assert stage.machines("web.zone2") == ["web_1", "web_3", "web_5"]


@pytest.mark.parametrize("blueprint", [VM, SHOP], ids=lambda one: str(one.kind))
def test_some_scopes_do_not_grow(blueprint: Blueprint) -> None:
    with pytest.raises(InvalidError, match="machines cannot be added to a"):
        FleetHarness(blueprint).grow(blueprint.name)


# -- what cannot be built


@pytest.mark.parametrize(
    ("blueprint", "problem"),
    [
        pytest.param(replace(WEB, name="we b"), "name: 'we b' must be letters", id="a name with a space"),
        pytest.param(replace(WEB, name=""), "name: ", id="no name"),
        pytest.param(replace(WEB, count=-1), "count: ", id="fewer than none"),
        pytest.param(replace(WEB, count=1001), "count: .* 1000", id="more than a set can hold"),
        pytest.param(
            replace(VM, count=2), "count: must be 1 for a standalone machine", id="two that stand alone"
        ),
        pytest.param(replace(WEB, names=("a", "b", "c")), "names: ", id="names for a scale set"),
        pytest.param(
            replace(PAIR, names=("a", "b")),
            "names: must be one different name per machine",
            id="too few names",
        ),
        pytest.param(replace(PAIR, names=("a", "b", "b")), "names: ", id="the same name twice"),
        pytest.param(replace(PAIR, zones=("1",)), "zones: ", id="zones for an availability set"),
        pytest.param(replace(WEB, zones=("1", "1")), "zones: a zone is named twice", id="a zone twice"),
        pytest.param(replace(WEB, fault_domains=0), "fault_domains: ", id="no fault domain"),
        pytest.param(replace(WEB, update_domains=-1), "update_domains: ", id="negative update domains"),
        pytest.param(
            replace(WEB, roles=(("A", 1),)), "roles: a scale-set has no roles", id="roles in a scale set"
        ),
        pytest.param(
            replace(SHOP, roles=(("A", 1), ("A", 1))), "roles: a role is named twice", id="a role twice"
        ),
        pytest.param(
            replace(WEB, terminate_notice=span("4m")), "terminate_notice: ", id="too short a notice"
        ),
    ],
)
def test_a_blueprint_that_makes_no_sense_is_refused(blueprint: Blueprint, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem):
        FleetHarness(blueprint)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(WEB, WEB, id="the same set again"),
        pytest.param(WEB, replace(WEB, kind=ScopeKind.AVAILABILITY_SET), id="another kind of set"),
        pytest.param(WEB, replace(WEB, zones=("1", "2")), id="a zonal set of a plain set's name"),
        pytest.param(replace(WEB, zones=("1", "2")), WEB, id="a plain set of a zonal set's name"),
        pytest.param(
            replace(WEB, zones=("1",)), replace(WEB, zones=("2",)), id="another zone of a zonal set"
        ),
        pytest.param(replace(VM, name="web.zone1"), replace(WEB, zones=("1",)), id="a zone's name is in use"),
    ],
)
def test_a_name_is_taken_once(first: Blueprint, second: Blueprint) -> None:
    stage = FleetHarness(first)

    with pytest.raises(NameTakenError, match="the name web is taken"):
        stage.make(second)


def test_a_name_is_free_again_once_its_set_is_gone() -> None:
    stage = FleetHarness(WEB)
    stage.remove("web", force=True)
    stage.advance("5s")

    stage.make(replace(WEB, count=1))

    assert stage.machines("web") == ["web_0"]
    assert stage.incarnation("web") == 2
