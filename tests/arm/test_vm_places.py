"""Virtual machines in sets, in groups and in lists."""

from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from tests.arm.azure import BASE, HOME, ROOT, at
from tests.arm.compute import AVAILABILITY_SET, NEWEST, SET, VM, compute, profile, scale_set

BOX = f"{VM}/box"
POLICY: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}


def in_set(member: str, path: str, **properties: Json) -> Json:
    return {"properties": {member: {"id": f"{ROOT}/providers/{path}"}, **properties}}


# -- in sets

SETS = [
    pytest.param("availabilitySet", f"{AVAILABILITY_SET}/app", {}, id="an availability set"),
    pytest.param(
        "virtualMachineScaleSet",
        f"{SET}/app",
        {
            "sku": {"capacity": 0},
            "properties": {"orchestrationMode": "Flexible", "virtualMachineProfile": profile(10)},
        },
        id="a flexible scale set",
    ),
]


@pytest.mark.parametrize(("member", "path", "body"), SETS)
def test_a_machine_in_a_set_that_is_read_and_put_back_stays_as_it_is(
    member: str, path: str, body: Json
) -> None:
    azure = compute()
    azure.put(path, body)
    azure.put(f"{VM}/one", in_set(member, path))
    before = azure.get(f"{VM}/one", version=NEWEST)

    azure.put(f"{VM}/one", before, version=NEWEST)

    assert azure.get(f"{VM}/one", version=NEWEST) == before


@pytest.mark.parametrize(("member", "path", "body"), SETS)
def test_a_machine_in_a_set_shares_its_scope_and_keeps_its_name(member: str, path: str, body: Json) -> None:
    azure = compute()
    azure.put(path, body)

    for name in ("one", "two"):
        azure.put(f"{VM}/{name}", in_set(member, path))

    assert azure.fleet.machines("lab/app") == ["one", "two"]
    assert at(azure.get(f"{VM}/two"), "properties", member, "id") == f"{ROOT}/providers/{path}"
    view = azure.get(f"{VM}/two/instanceView")
    assert at(view, "platformFaultDomain") == 1
    assert at(view, "platformUpdateDomain") == (1 if member == "availabilitySet" else None)


def test_each_machine_of_an_availability_set_has_the_notice_it_asked_for() -> None:
    azure = compute()
    path = f"{AVAILABILITY_SET}/app"
    azure.put(path, {})

    azure.put(f"{VM}/five", in_set("availabilitySet", path, **profile(5)))
    azure.put(f"{VM}/none", in_set("availabilitySet", path))
    azure.put(f"{VM}/nine", in_set("availabilitySet", path, **profile(9)))
    azure.patch(f"{VM}/five", {"properties": profile(6)})

    notices = [azure.fleet.machine(name).model.terminate_notice for name in ("five", "none", "nine")]
    assert notices == [timedelta(minutes=6), None, timedelta(minutes=9)]


@pytest.mark.rule("T-22")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(("member", "path", "body"), SETS)
def test_a_machine_in_a_set_has_no_policy_of_its_own(member: str, path: str, body: Json, method: str) -> None:
    azure = compute()
    azure.put(path, body)
    if method == "PATCH":
        azure.put(f"{VM}/one", in_set(member, path))

    refused = azure.refused(method, f"{VM}/one", in_set(member, path, scheduledEventsPolicy=POLICY))

    assert refused[:2] == (409, "OperationNotAllowed")
    assert "scheduledEventsPolicy" in refused[2]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            in_set("availabilitySet", f"{AVAILABILITY_SET}/no"), "InvalidResourceReference", id="is not there"
        ),
        pytest.param(in_set("availabilitySet", f"{SET}/web"), "LinkedInvalidPropertyId", id="is no such set"),
        pytest.param(
            in_set("virtualMachineScaleSet", f"{SET}/web"), "InvalidParameter", id="is a uniform scale set"
        ),
        pytest.param(
            {"properties": {"availabilitySet": {"id": "app"}}}, "LinkedInvalidPropertyId", id="is no id"
        ),
        pytest.param({"properties": {"availabilitySet": "app"}}, "LinkedInvalidPropertyId", id="is a string"),
        pytest.param(
            {
                "properties": {
                    "availabilitySet": {"id": f"{HOME}/{AVAILABILITY_SET}/far"},
                }
            },
            "InvalidResourceReference",
            id="is in another group",
        ),
    ],
)
def test_a_set_that_a_machine_cannot_be_in_is_refused(body: Json, code: str) -> None:
    azure = compute(Blueprint(name="far", kind=ScopeKind.AVAILABILITY_SET))
    azure.put(f"{SET}/web", scale_set(0))

    assert azure.refused("PUT", BOX, body)[:2] == (400, code)


@pytest.mark.rule("T-05")
def test_a_flexible_set_may_mix_spot_and_regular_machines_and_warns_the_regular_ones() -> None:
    azure = compute()
    flexible: Json = {"orchestrationMode": "Flexible", "virtualMachineProfile": profile(10)}
    azure.put(f"{SET}/flex", {"sku": {"capacity": 0}, "properties": flexible})
    azure.put(f"{VM}/cheap", in_set("virtualMachineScaleSet", f"{SET}/flex", priority="Spot"))
    azure.put(f"{VM}/dear", in_set("virtualMachineScaleSet", f"{SET}/flex"))

    cheap, dear = azure.fleet.machine("cheap"), azure.fleet.machine("dear")

    assert (cheap.spot, cheap.model.terminate_notice) == (True, None)
    assert (dear.spot, dear.model.terminate_notice) == (False, timedelta(minutes=10))


# -- lists


def test_machines_that_up_has_made_are_in_the_home_group() -> None:
    azure = compute(
        Blueprint(name="db", kind=ScopeKind.STANDALONE),
        Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2),
        Blueprint(name="web", count=2),
    )

    assert azure.names(f"{HOME}/{VM}") == ["app-0", "app-1", "db"]
    assert azure.names(VM) == []
    shown = azure.get(f"{HOME}/{VM}/app-1?$expand=instanceView")
    assert at(shown, "properties", "networkProfile", "networkInterfaces") == []
    assert at(shown, "properties", "instanceView", "platformUpdateDomain") == 1
    assert str(at(shown, "properties", "availabilitySet", "id")).endswith("/availabilitySets/app")


@pytest.mark.parametrize("path", [f"{HOME}/{SET}/WEB", f"{HOME}/{AVAILABILITY_SET}/App"])
def test_sets_that_up_has_made_answer_to_their_names_in_any_case(path: str) -> None:
    azure = compute(Blueprint(name="web"), Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET))

    assert at(azure.get(path), "name") == path.rpartition("/")[2].lower()


@pytest.mark.parametrize("name", ["DB", "App-1", "db"])
def test_machines_that_up_has_made_answer_to_their_names_in_any_case(name: str) -> None:
    azure = compute(
        Blueprint(name="db", kind=ScopeKind.STANDALONE),
        Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2),
        Blueprint(name="DB", kind=ScopeKind.STANDALONE, group="shop"),
    )

    assert at(azure.get(f"{HOME}/{VM}/{name}"), "name") == name.lower()


def test_a_name_in_any_case_is_one_of_a_virtual_machine_of_that_group() -> None:
    azure = compute(Blueprint(name="web"), Blueprint(name="db", kind=ScopeKind.STANDALONE, group="shop"))

    assert azure.refused("GET", f"{HOME}/{VM}/WEB_0")[0] == 404
    assert azure.refused("GET", f"{HOME}/{VM}/DB")[0] == 404


def test_the_machines_of_one_flexible_set_can_be_asked_for() -> None:
    azure = compute()
    azure.put(BOX, {})
    for name in ("one", "two"):
        azure.put(f"{SET}/{name}", scale_set(1, orchestrationMode="Flexible"))

    found = azure.names(f"{VM}?$filter='virtualMachineScaleSet/id' eq '{ROOT}/providers/{SET}/ONE'")

    assert [name.partition("_")[0] for name in found] == ["one"]
    assert azure.refused("GET", f"{VM}?$filter=name eq 'x'")[:2] == (400, "InvalidFilterInQueryString")


def test_a_list_says_how_the_machines_are_doing_where_it_is_asked() -> None:
    azure = compute()
    azure.put(BOX, {})

    shown = azure.get(f"{VM}?statusOnly=true")

    assert at(shown, "value", 0, "properties", "instanceView", "statuses", 1, "code") == "PowerState/running"


def test_a_long_list_comes_in_pages_that_hold_everything_once() -> None:
    azure = compute(Blueprint(name="big", kind=ScopeKind.AVAILABILITY_SET, count=1000), watched=False)
    azure.put(BOX, {})
    names: list[str] = []
    path = "/subscriptions/1/providers/Microsoft.Compute/virtualMachines"
    sizes = []

    while path:
        page = azure.get(path)
        names += [str(at(one, "name")) for one in _value(page)]
        sizes.append(len(_value(page)))
        path = str(at(page, "nextLink") or "")
        assert path == "" or path.startswith(f"{BASE}/subscriptions/1/")

    assert sizes == [200, 200, 200, 200, 200, 1]
    assert sorted(names) == sorted(["box", *azure.fleet.machines("big")])


def test_a_machine_that_goes_while_a_list_is_read_takes_no_other_off_it() -> None:
    azure = compute(Blueprint(name="big", kind=ScopeKind.AVAILABILITY_SET, count=201), watched=False)
    first = azure.get(f"{HOME}/{VM}")
    last = at(_value(first)[-1], "name")
    azure.fleet.cause("delete", "big-0", force=True)
    azure.advance("5s")

    second = azure.get(str(at(first, "nextLink")))

    assert [at(one, "name") for one in _value(second)] == ["big-99"]
    assert last == "big-98"


def _value(page: Json) -> list[Json]:
    value = at(page, "value")
    assert isinstance(value, list)
    return value


def test_the_same_name_may_stand_in_two_groups() -> None:
    azure = compute(Blueprint(name="box", kind=ScopeKind.STANDALONE))
    azure.put(BOX, {"tags": {"in": "lab"}})

    assert at(azure.get(BOX), "tags") == {"in": "lab"}
    assert at(azure.get(f"{HOME}/{BOX}"), "tags") == {}
    assert at(azure.get(BOX), "properties", "vmId") != at(azure.get(f"{HOME}/{BOX}"), "properties", "vmId")


def test_a_stage_without_machines_has_an_empty_list() -> None:
    azure = compute()

    assert azure.get("/subscriptions/1/providers/Microsoft.Compute/virtualMachines") == {"value": []}
