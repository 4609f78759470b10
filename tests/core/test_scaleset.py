"""Scale sets in the core: scale-in, scale-out, the model, and sets of the same name in two groups."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, Protect, Upgrade
from fairwarning.core.errors import FairWarningError, InvalidError, NameTakenError, SpotIsNotWarnedError
from fairwarning.core.model import EventType, EvictionPolicy, Scope, ScopeId, ScopeKind
from fairwarning.core.scaleset import remaining, scale_in, scale_out
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=4, fault_domains=2)
ZONAL = Blueprint(name="web", count=5, zones=("1", "2"))
FLEX = Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=1, terminate_notice=span("5m"))
ID = ScopeId("web")


def scopes(stage: FleetHarness, name: str = "web") -> list[Scope]:
    return [stage.scope(one) for one in stage.engine.directory.scopes_of_set(name)]


def names(stage: FleetHarness, count: int) -> list[str]:
    return [ref.name for ref in scale_in(scopes(stage), count)]


def protect(stage: FleetHarness, *machines: str, protected: bool = True) -> None:
    for name in machines:
        stage.do(Protect(machine=stage.ref(name), protected=protected))


# -- scale-in


def test_the_newest_of_the_fullest_fault_domain_leaves_first() -> None:
    stage = FleetHarness(replace(WEB, count=5))

    assert names(stage, 3) == ["web_4", "web_3", "web_2"]


def test_the_fullest_zone_gives_first() -> None:
    stage = FleetHarness(ZONAL)

    assert names(stage, 2) == ["web_4", "web_3"]


def test_a_protected_machine_stays() -> None:
    stage = FleetHarness(WEB)
    protect(stage, "web_3", "web_2")

    assert names(stage, 4) == ["web_1", "web_0"]

    protect(stage, "web_3", protected=False)

    assert names(stage, 1) == ["web_3"]


@pytest.mark.rule("T-16")
def test_a_machine_with_a_pending_delete_is_neither_counted_nor_chosen() -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")))
    stage.cause("delete", "web_3")

    assert remaining(stage.scope("web")) == ("web_0", "web_1", "web_2")
    assert "web_3" not in names(stage, 4)


@pytest.mark.parametrize("count", [0, -3])
def test_a_scale_in_removes_no_machine_without_need(count: int) -> None:
    assert names(FleetHarness(WEB), count) == []


def test_protecting_a_machine_twice_is_nothing_new() -> None:
    stage = FleetHarness(WEB)
    protect(stage, "web_0")

    assert stage.do(Protect(machine=stage.ref("web_0"), protected=True)) == ()


# -- scale-out


@pytest.mark.parametrize(
    ("count", "gains"), [(0, {}), (-1, {}), (1, {"web.zone2": 1}), (4, {"web.zone1": 2, "web.zone2": 2})]
)
def test_the_emptiest_zone_gains_first(count: int, gains: dict[str, int]) -> None:
    stage = FleetHarness(ZONAL)

    assert dict(scale_out(scopes(stage), count)) == gains


def test_machines_are_added_by_name_where_names_are_free() -> None:
    stage = FleetHarness(FLEX)

    stage.do(AddMachines(seed="s", scope=ScopeId("flex"), names=("one", "two")))

    assert stage.machines("flex")[1:] == ["one", "two"]


@pytest.mark.parametrize(
    ("blueprint", "taken", "refusal"),
    [
        pytest.param(WEB, "mine", InvalidError, id="the machines of a uniform set are named after it"),
        pytest.param(FLEX, "a b", InvalidError, id="a name that cannot be one"),
        pytest.param(
            Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET),
            "app-0",
            NameTakenError,
            id="a name that is taken",
        ),
    ],
)
def test_a_name_that_cannot_be_had_is_refused(
    blueprint: Blueprint, taken: str, refusal: type[FairWarningError]
) -> None:
    stage = FleetHarness(blueprint)

    with pytest.raises(refusal):
        stage.do(AddMachines(seed="s", scope=ScopeId(blueprint.name), names=(taken,)))


def test_a_machine_added_to_an_empty_set_has_the_given_settings() -> None:
    stage = FleetHarness(replace(WEB, count=0))

    stage.do(AddMachines(seed="s", scope=ID, spot=True, eviction=EvictionPolicy.DELETE, tags=(("a", "b"),)))

    machine = stage.machine("web_0")
    assert (machine.spot, machine.eviction, machine.tags) == (True, EvictionPolicy.DELETE, (("a", "b"),))


def test_a_machine_added_without_settings_is_like_the_others() -> None:
    stage = FleetHarness(replace(WEB, spot=True, tags=(("a", "b"),)))

    stage.grow("web")

    assert (stage.machine("web_4").spot, stage.machine("web_4").tags) == (True, (("a", "b"),))


@pytest.mark.rule("T-05")
def test_a_spot_machine_among_others_is_not_warned_and_the_others_are() -> None:
    stage = FleetHarness(FLEX)
    flex = ScopeId("flex")

    stage.do(AddMachines(seed="s", scope=flex, names=("cheap",), spot=True))
    stage.do(AddMachines(seed="t", scope=flex, names=("dear",), spot=False))
    stage.do(ChangeModel(scopes=(flex,), terminate_notice=span("6m"), upgrades_itself=True))

    assert stage.machine("cheap").model.terminate_notice is None
    assert stage.machine("dear").model.terminate_notice == span("6m")


# -- the model


@pytest.mark.rule("T-06")
def test_a_set_that_upgrades_itself_gives_its_instances_every_new_model() -> None:
    stage = FleetHarness(WEB)
    stage.do(ChangeModel(scopes=(ID,), terminate_notice=span("5m"), upgrades_itself=True))

    stage.do(ChangeModel(scopes=(ID,), terminate_notice=span("7m")))

    assert {m.model.terminate_notice for m in stage.scope("web").machines.values()} == {span("7m")}
    assert stage.scope("web").facts.upgrades_itself


@pytest.mark.rule("T-06")
def test_a_set_that_no_longer_upgrades_itself_leaves_its_instances_as_they_are() -> None:
    stage = FleetHarness(replace(WEB, upgrades_itself=True))

    stage.do(ChangeModel(scopes=(ID,), terminate_notice=span("5m"), upgrades_itself=False))

    assert stage.machine("web_0").model.terminate_notice is None

    stage.do(Upgrade(machines=(stage.ref("web_0"),)))

    assert stage.machine("web_0").model == stage.scope("web").facts.model


@pytest.mark.rule("T-05")
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_spot_machines_get_no_notice_of_their_deletion(later: bool) -> None:
    stage = FleetHarness()
    spot = replace(WEB, spot=True)
    if later:
        stage.make(spot)

    with pytest.raises(SpotIsNotWarnedError, match="cannot be enabled for Spot machines"):
        stage.do(
            ChangeModel(scopes=(ID,), terminate_notice=span("5m"))
            if later
            else CreateSet(seed="s", blueprint=replace(spot, terminate_notice=span("5m")))
        )


@pytest.mark.rule("T-20")
def test_a_reimage_is_announced_where_the_instances_model_says_so() -> None:
    stage = FleetHarness(replace(WEB, image_notice=True))

    (event,) = stage.cause("reimage", "web_0")

    assert stage.event(event).kind is EventType.REBOOT
    assert stage.event(event).not_before == NOON + span("15m")


@pytest.mark.rule("T-20")
def test_a_reimage_is_simply_done_everywhere_else() -> None:
    stage = FleetHarness(WEB)
    stage.do(ChangeModel(scopes=(ID,), terminate_notice=None, image_notice=True))

    (event,) = stage.cause("reimage", "web_0")

    assert stage.shown("web_0") == ()
    assert not stage.event(event).waiting

    stage.advance("5s")

    assert stage.story(event) == ["started", "finished"]


# -- cancelled deletes


def test_a_set_whose_delete_was_withdrawn_for_one_instance_lives_on_with_it() -> None:
    stage = FleetHarness(replace(WEB, count=2, terminate_notice=span("5m")))
    spared, _ = stage.remove("web")

    stage.cancel(spared)
    stage.advance("5m5s")

    assert stage.machines("web") == ["web_0"]
    assert not stage.scope("web").facts.deleting


def test_a_set_that_is_being_deleted_does_not_grow() -> None:
    stage = FleetHarness(replace(WEB, terminate_notice=span("5m")))
    stage.remove("web")

    with pytest.raises(InvalidError, match="web is being deleted"):
        stage.grow("web")


# -- groups


def test_two_sets_of_one_name_live_apart_in_their_groups() -> None:
    stage = FleetHarness(WEB)
    stage.do(CreateSet(seed="s", blueprint=replace(WEB, group="lab", terminate_notice=span("5m"))))

    stage.remove("web", force=True)
    stage.advance("5s")

    assert list(stage.engine.scopes()) == ["lab/web"]
    assert stage.scope("lab/web").facts.set_id == "lab/web"


@pytest.mark.rule("T-14")
def test_the_deletes_of_a_namesake_are_behind_another_barrier() -> None:
    notice = replace(WEB, terminate_notice=span("5m"))
    stage = FleetHarness(notice)
    stage.do(CreateSet(seed="s", blueprint=replace(notice, group="lab")))
    stage.poll("lab/web/web_0")
    (ours,) = stage.cause("delete", "web/web_0")
    stage.cause("delete", "lab/web/web_0")

    stage.approve(ours)

    assert not stage.event(ours).waiting


def test_a_name_is_taken_only_in_its_own_group() -> None:
    stage = FleetHarness(WEB)

    stage.do(CreateSet(seed="s", blueprint=replace(WEB, group="lab")))

    with pytest.raises(NameTakenError, match="the name web is taken"):
        stage.do(CreateSet(seed="t", blueprint=replace(WEB, group="lab")))
