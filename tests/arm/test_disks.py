"""Managed disks: those of machines, and those that a machine has left behind."""

import re

import pytest

from fairwarning.arm import groups
from fairwarning.arm.documents import overlay
from fairwarning.arm.resources import lists
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from fairwarning.metadata import instance
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import SET, TABLES, VM, both, compute, model, scale_set
from tests.arm.deploying import listed

pytestmark = pytest.mark.rule("T-31")

DISK = "Microsoft.Compute/disks"
DB, WEB = f"{VM}/db", f"{SET}/web"
HERE: Json = {"location": "westeurope"}
EVERYWHERE = f"{ROOT.partition('/resourceGroups/')[0]}/providers/{DISK}"
NAME = re.compile(r"db_OsDisk_1_[0-9a-f]{32}")


def machine(os_disk: Json = None, *data_disks: Json) -> Json:
    storage: Json = {"osDisk": os_disk, "dataDisks": [*data_disks]}
    return {"location": "westeurope", "properties": {"storageProfile": storage}}


def storage(azure: Azure, path: str) -> Json:
    return at(azure.get(path), "properties", "storageProfile")


def disk_id(name: str) -> str:
    return f"{ROOT}/providers/{DISK}/{name}"


def delete_machine(azure: Azure, path: str = DB) -> None:
    azure.delete(path)
    azure.approve_all()
    azure.advance("1m")


def test_a_machine_has_a_disk_of_its_own() -> None:
    azure = compute()
    azure.put(DB, HERE)

    disk = at(storage(azure, DB), "osDisk")
    name = str(at(disk, "name"))

    assert NAME.fullmatch(name)
    assert at(disk, "managedDisk", "id") == disk_id(name)
    assert {member: at(disk, member) for member in ("osType", "createOption", "caching", "diskSizeGB")} == {
        "osType": "Linux",
        "createOption": "FromImage",
        "caching": "ReadWrite",
        "diskSizeGB": 30,
    }
    assert at(disk, "deleteOption") == "Detach"


def test_the_disk_is_what_the_client_says() -> None:
    azure = compute()
    sent: Json = {
        "name": "root",
        "caching": "None",
        "diskSizeGB": 64,
        "deleteOption": "Delete",
        "osType": "Windows",
        "managedDisk": {"storageAccountType": "Standard_LRS"},
    }
    azure.put(DB, machine(sent))

    disk = at(storage(azure, DB), "osDisk")

    assert disk == both(sent, {"createOption": "FromImage", "managedDisk": {"id": disk_id("root")}})
    assert at(azure.get(f"{DISK}/root"), "sku", "name") == "Standard_LRS"
    assert at(azure.get(f"{DISK}/root"), "properties", "diskSizeGB") == 64


def test_null_is_nothing_said() -> None:
    azure = compute()
    azure.put(DB, machine({"name": None, "diskSizeGB": None, "deleteOption": None, "managedDisk": None}))

    disk = at(storage(azure, DB), "osDisk")

    assert NAME.fullmatch(str(at(disk, "name")))
    assert (at(disk, "diskSizeGB"), at(disk, "deleteOption")) == (30, "Detach")


def test_data_disks_have_names_and_ids() -> None:
    azure = compute()
    sent: tuple[Json, ...] = (
        {"lun": 0, "createOption": "Empty", "diskSizeGB": 8},
        {"lun": 3, "createOption": "Empty", "diskSizeGB": 16, "name": "logs", "caching": "ReadOnly"},
    )
    azure.put(DB, machine(None, *sent))

    first, second = (at(storage(azure, DB), "dataDisks", number) for number in (0, 1))

    assert re.fullmatch(r"db_disk2_[0-9a-f]{32}", str(at(first, "name")))
    assert (at(first, "caching"), at(first, "deleteOption")) == ("None", "Detach")
    assert at(second, "managedDisk", "id") == disk_id("logs")
    assert (at(second, "lun"), at(second, "caching")) == (3, "ReadOnly")
    assert len(azure.names(DISK)) == 3


def test_the_machine_reads_the_same_disks_about_itself() -> None:
    azure = compute()
    azure.put(
        DB, machine({"name": "root"}, {"lun": 1, "createOption": "Empty", "diskSizeGB": 8, "name": "logs"})
    )
    core = azure.fleet.machine("db")

    facts = instance.instance_facts(core, azure.fleet.scope(core.scope).facts, azure.fleet.engine.stored)
    inside = at(instance.document(facts, "2021-12-13"), "compute", "storageProfile")

    assert at(inside, "osDisk", "name") == "root"
    assert at(inside, "osDisk", "managedDisk", "id") == disk_id("root")
    assert at(inside, "dataDisks", 0, "managedDisk", "id") == disk_id("logs")
    assert (at(inside, "dataDisks", 0, "lun"), at(inside, "dataDisks", 0, "diskSizeGB")) == ("1", "8")


def test_a_disk_says_which_machine_has_it() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}))
    running = azure.get(f"{DISK}/ROOT")
    azure.post(f"{DB}/deallocate")

    stopped = azure.get(f"{DISK}/root")

    assert at(running, "managedBy") == at(stopped, "managedBy") == f"{ROOT}/providers/{DB}"
    states = [at(document, "properties", "diskState") for document in (running, stopped)]
    assert states == ["Attached", "Reserved"]
    assert at(running, "properties", "osType") == "Linux"
    assert at(running, "attachment") is None
    assert azure.names(EVERYWHERE) == ["root"]


@pytest.mark.parametrize("member", ["attachment", "Attachment"])
def test_a_client_cannot_say_which_machine_has_a_disk(member: str) -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}))
    vm_id = at(azure.get(DB), "properties", "vmId")
    lie: Json = {"machine": f"{ROOT}/providers/{DB}", "vmId": vm_id, "deleteOption": "Delete"}

    azure.put(f"{DISK}/free", {"location": "westeurope", member: lie})
    azure.patch(f"{DISK}/root", {member: {"machine": "", "deleteOption": "Delete"}})

    states = [at(azure.get(f"{DISK}/{name}"), "properties", "diskState") for name in ("free", "root")]
    assert states == ["Unattached", "Attached"]


def test_a_disk_that_was_not_to_be_deleted_outlives_its_machine() -> None:
    azure = compute()
    azure.put(
        DB,
        machine(
            {"name": "root"}, {"lun": 0, "name": "logs", "createOption": "Empty", "deleteOption": "Delete"}
        ),
    )

    delete_machine(azure)
    azure.restart()

    left = azure.get(f"{DISK}/root")
    assert azure.names(DISK) == ["root"]
    assert (at(left, "managedBy"), at(left, "properties", "diskState")) == (None, "Unattached")
    assert azure.delete(f"{DISK}/root").status == 200
    assert azure.refused("GET", f"{DISK}/root")[:2] == (404, "ResourceNotFound")
    assert azure.delete(f"{DISK}/root").status == 204


def test_a_disk_goes_with_its_machine_before_and_after_it_is_cleaned_up() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root", "deleteOption": "Delete"}))
    document = azure.context.committed().document(disk_id("root"))
    assert document is not None
    delete_machine(azure)
    cleaned = azure.context.committed().document(disk_id("root"))

    azure.keep({disk_id("root"): document})

    assert cleaned is None
    assert azure.names(DISK) == []
    assert azure.send("GET", f"{DISK}/root").status == 404


def test_an_attached_disk_is_not_deleted() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}))

    assert azure.refused("DELETE", f"{DISK}/root")[:2] == (409, "OperationNotAllowed")
    assert azure.names(DISK) == ["root"]


def test_data_disks_are_attached_and_detached() -> None:
    azure = compute()
    azure.put(DB, HERE)
    azure.put(
        f"{DISK}/logs",
        both(HERE, {"properties": {"diskSizeGB": 8, "creationData": {"createOption": "Empty"}}}),
    )
    before = at(azure.get(f"{DISK}/logs"), "properties", "diskState")
    found = azure.get(DB)
    attached: Json = [{"lun": 0, "createOption": "Attach", "managedDisk": {"id": disk_id("logs")}}]

    azure.put(DB, both(found, {"properties": {"storageProfile": {"dataDisks": attached}}}))
    during = azure.get(f"{DISK}/logs")
    azure.put(DB, both(azure.get(DB), {"properties": {"storageProfile": {"dataDisks": []}}}))

    assert before == "Unattached"
    assert at(during, "managedBy") == f"{ROOT}/providers/{DB}"
    assert at(during, "properties", "diskSizeGB") == 8
    assert at(azure.get(f"{DISK}/logs"), "properties", "diskState") == "Unattached"
    delete_machine(azure)
    assert "logs" in azure.names(DISK)


def test_a_detached_disk_stays_even_if_it_was_to_go_with_the_machine() -> None:
    azure = compute()
    azure.put(
        DB,
        machine(
            {"name": "root", "deleteOption": "Delete"},
            {"lun": 0, "name": "logs", "createOption": "Empty", "deleteOption": "Delete"},
        ),
    )

    azure.patch(DB, {"properties": {"storageProfile": {"dataDisks": []}}})
    delete_machine(azure)

    assert azure.names(DISK) == ["logs"]


def test_what_becomes_of_a_disk_can_be_changed() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}))

    azure.patch(DB, {"properties": {"storageProfile": {"osDisk": {"deleteOption": "Delete"}}}})
    delete_machine(azure)

    assert azure.names(DISK) == []


def test_instances_have_disks_that_go_with_them() -> None:
    azure = compute()
    disks: Json = [{"lun": 0, "createOption": "Empty", "diskSizeGB": 8}]
    azure.put(WEB, both(scale_set(2), model(storageProfile={"dataDisks": disks})))

    profile = storage(azure, f"{WEB}/virtualMachines/0")
    name = str(at(profile, "osDisk", "name"))
    data = str(at(profile, "dataDisks", 0, "name"))
    disk = azure.get(f"{DISK}/{name}")
    listed = azure.names(DISK)
    azure.delete(f"{WEB}/virtualMachines/0")
    azure.approve_all()
    azure.advance("1m")

    assert re.fullmatch(r"web_web_0_OsDisk_1_[0-9a-f]{32}", name)
    assert re.fullmatch(r"web_web_0_disk2_[0-9a-f]{32}", data)
    assert at(profile, "osDisk", "managedDisk", "id") == disk_id(name)
    assert at(disk, "managedBy") == f"{ROOT}/providers/{WEB}/virtualMachines/0"
    assert len(listed) == 4
    assert {name, data} < set(listed)
    assert not {name, data} & set(azure.names(DISK))
    assert (
        at(azure.get(WEB), "properties", "virtualMachineProfile", "storageProfile", "osDisk", "name") is None
    )


def test_flexible_instances_have_disks_that_go_with_them() -> None:
    azure = compute()
    azure.put(WEB, both(scale_set(1), {"properties": {"orchestrationMode": "Flexible"}}))
    (name,) = azure.names(f"{WEB}/virtualMachines")

    disk = at(storage(azure, f"{VM}/{name}"), "osDisk")

    assert at(disk, "deleteOption") == "Delete"
    assert azure.names(DISK) == [at(disk, "name")]
    assert at(azure.get(f"{DISK}/{at(disk, 'name')}"), "managedBy") == f"{ROOT}/providers/{VM}/{name}"


def test_machines_that_no_client_created_have_disks_too() -> None:
    azure = compute(Blueprint(name="db", kind=ScopeKind.STANDALONE))
    (name,) = azure.names(f"{HOME}/{DISK}")

    disk = azure.get(f"{HOME}/{DISK}/{name}")

    assert at(storage(azure, f"{HOME}/{VM}/db"), "osDisk", "managedDisk", "id") == at(disk, "id")
    assert at(storage(azure, f"{HOME}/{VM}/db"), "osDisk", "deleteOption") == "Delete"
    assert azure.refused("DELETE", f"{HOME}/{DISK}/{name}")[:2] == (409, "OperationNotAllowed")


def test_disks_are_resources_of_their_group_and_go_with_it() -> None:
    azure = Azure(*TABLES, groups.ROUTES, lists.ROUTES)
    azure.put(
        DB,
        machine(
            {"name": "root"}, {"lun": 0, "name": "logs", "createOption": "Empty", "deleteOption": "Delete"}
        ),
    )
    before = azure.names(f"{ROOT}/resources")
    delete_machine(azure)
    between = azure.names(f"{ROOT}/resources")

    azure.delete(ROOT)
    azure.put(ROOT, HERE)

    assert before == ["logs", "root", "db"]
    assert between == ["root"]
    assert azure.names(f"{ROOT}/resources") == []


@pytest.mark.parametrize("name", ["nothing", "db_OsDisk_1_" + "0" * 32, "web_web_0_OsDisk_1_" + "0" * 32])
def test_there_is_no_other_disk(name: str) -> None:
    azure = compute()
    azure.put(DB, HERE)
    azure.put(WEB, scale_set(1))

    assert azure.refused("GET", f"{DISK}/{name}")[:2] == (404, "ResourceNotFound")


def test_a_disk_keeps_its_own_tags_and_size() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}))

    azure.patch(f"{DISK}/root", {"tags": {"a": "b"}, "properties": {"diskSizeGB": 128}})
    azure.patch(DB, {"tags": {"x": "y"}})

    assert at(azure.get(f"{DISK}/root"), "tags") == {"a": "b"}
    assert at(azure.get(f"{DISK}/root"), "properties", "diskSizeGB") == 128


def test_the_disks_of_a_set_are_each_listed_once_whatever_else_is_known_about_them() -> None:
    azure = compute()
    disks: Json = [{"lun": 0, "createOption": "Empty", "diskSizeGB": 8}]
    azure.put(WEB, both(scale_set(3), model(storageProfile={"dataDisks": disks})))
    before = azure.names(DISK)

    azure.patch(f"{DISK}/{before[3]}", {"tags": {"a": "b"}})
    azure.patch(f"{DISK}/{before[4]}", {"tags": {"a": "b"}})
    azure.put(f"{WEB}/virtualMachines/2", {"location": "westeurope", "tags": {"a": "b"}})

    assert len(before) == 6
    assert sorted(azure.names(DISK)) == sorted(before)


# Attaching and detaching disks by themselves.


def attach(azure: Azure, path: str = DB, **lists: Json) -> Json:
    return azure.post(f"{path}/attachDetachDataDisks", {**lists}).body


@pytest.mark.rule("T-36")
def test_disks_are_attached_and_detached_by_themselves() -> None:
    azure = compute()
    azure.put(
        DB, machine({"name": "root"}, {"lun": 0, "name": "logs", "createOption": "Empty", "diskSizeGB": 4})
    )
    azure.put(f"{DISK}/spare", both(HERE, {"properties": {"diskSizeGB": 8}}))

    attached = attach(azure, dataDisksToAttach=[{"diskId": disk_id("SPARE"), "caching": "ReadOnly"}])
    both_there = azure.get(f"{DISK}/spare")
    detached = attach(azure, dataDisksToDetach=[{"diskId": disk_id("logs")}])

    second = at(attached, "dataDisks", 1)
    assert (at(second, "lun"), at(second, "name"), at(second, "caching")) == (1, "spare", "ReadOnly")
    assert at(second, "diskSizeGB") == 8
    assert at(both_there, "managedBy") == f"{ROOT}/providers/{DB}"
    assert [at(detached, "dataDisks", 0, "name")] == ["spare"]
    assert at(azure.get(f"{DISK}/logs"), "properties", "diskState") == "Unattached"
    assert at(detached, "osDisk", "name") == "root"


@pytest.mark.rule("T-36")
def test_a_disk_of_another_machine_is_not_attached() -> None:
    azure = compute()
    azure.put(
        DB, machine({"name": "root"}, {"lun": 0, "name": "logs", "createOption": "Empty", "diskSizeGB": 4})
    )
    azure.put(f"{VM}/box", HERE)
    taken: Json = {"lun": 0, "createOption": "Attach", "managedDisk": {"id": disk_id("logs")}}
    storage: Json = {"properties": {"storageProfile": {"dataDisks": [taken]}}}
    lists: Json = {"dataDisksToAttach": [{"diskId": disk_id("logs")}]}

    refusals = [
        azure.refused("PATCH", f"{VM}/box", storage)[:2],
        azure.refused("POST", f"{VM}/box/attachDetachDataDisks", lists)[:2],
    ]

    assert refusals == [(409, "ConflictingUserInput")] * 2
    assert at(azure.get(f"{DISK}/logs"), "managedBy") == f"{ROOT}/providers/{DB}"


@pytest.mark.rule("T-36")
@pytest.mark.parametrize(
    ("lists", "status", "code"),
    [
        ({"dataDisksToAttach": [{"diskId": disk_id("none")}]}, 404, "ResourceNotFound"),
        ({"dataDisksToAttach": [{"diskId": "none"}]}, 400, "LinkedInvalidPropertyId"),
        ({"dataDisksToAttach": [{}]}, 400, "LinkedInvalidPropertyId"),
        ({"dataDisksToDetach": [{"diskId": disk_id("none")}]}, 400, "InvalidParameter"),
    ],
)
def test_disks_that_are_not_there_are_neither_attached_nor_detached(
    lists: Json, status: int, code: str
) -> None:
    azure = compute()
    azure.put(DB, HERE)

    assert azure.refused("POST", f"{DB}/attachDetachDataDisks", lists)[:2] == (status, code)


@pytest.mark.rule("T-36")
def test_an_attached_disk_gets_the_first_free_lun_unless_the_client_gives_another() -> None:
    azure = compute()
    azure.put(DB, machine({"name": "root"}, {"lun": 0, "name": "logs", "createOption": "Empty"}))
    for name in "abcd":
        azure.put(f"{DISK}/{name}", HERE)
    given: list[dict[str, Json]] = [{}, {"lun": 3}, {}, {}]

    attached = attach(
        azure,
        dataDisksToAttach=[{"diskId": disk_id(name), **lun} for name, lun in zip("abcd", given, strict=True)],
    )

    assert [at(attached, "dataDisks", number, "lun") for number in range(5)] == [0, 1, 3, 2, 4]


EMPTY: list[Json] = [{"lun": lun, "name": f"data-{lun}", "createOption": "Empty"} for lun in range(65)]


@pytest.mark.rule("T-36")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("PUT", f"{VM}/new", machine(None, *EMPTY), id="a machine that is created"),
        pytest.param("PUT", DB, machine(None, *EMPTY), id="a machine that is replaced"),
        pytest.param("PATCH", DB, machine(None, *EMPTY), id="a machine that is changed"),
        pytest.param(
            "POST",
            f"{DB}/attachDetachDataDisks",
            {"dataDisksToAttach": [{"diskId": disk_id("none")}] * 64},
            id="disks that are attached, before any of them is looked for",
        ),
    ],
)
def test_a_machine_has_at_most_64_data_disks(method: str, path: str, body: Json) -> None:
    azure = compute()
    azure.put(DB, machine(None, EMPTY[0]))

    assert azure.refused(method, path, body) == (
        409,
        "OperationNotAllowed",
        "The maximum number of data disks allowed to be attached to a VM of this size is 64.",
    )
    assert azure.put(DB, machine(None, *EMPTY[:64])).status == 200


def test_a_machine_that_has_too_many_data_disks_from_an_earlier_release_may_lose_them() -> None:
    azure = compute()
    azure.put(DB, machine(None, *EMPTY[:64]))
    key = f"{ROOT}/providers/{DB}"
    stored = azure.context.committed().document(key)
    more: list[Json] = [{**item, "lun": 100, "name": "more"} for item in EMPTY[:1] if isinstance(item, dict)]
    kept = [*listed(at(stored, "properties", "storageProfile", "dataDisks")), *more * 2]
    azure.keep({key: overlay(stored, {"properties": {"storageProfile": {"dataDisks": kept}}})})

    azure.patch(DB, {"tags": {"a": "b"}})
    left = attach(azure, dataDisksToDetach=[{"diskId": disk_id("data-0")}])

    assert len(listed(at(left, "dataDisks"))) == 65
