"""The tags of subscriptions, groups and resources, by themselves."""

import asyncio

import pytest

from fairwarning.arm.app import ROUTES
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind, replace
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import AVAILABILITY_SET, SET, VM, make_set_of_0_2, scale_set
from tests.fleet_harness import run

pytestmark = pytest.mark.rule("T-33")

SUBSCRIPTION = ROOT.partition("/resourceGroups/")[0]
NET = "Microsoft.Network/virtualNetworks/net"
TAGS = "providers/Microsoft.Resources/tags/default"
HERE: dict[str, Json] = {"location": "westeurope"}
OLD: Json = {"team": "Blue", "env": "test"}


@pytest.fixture
def azure() -> Azure:
    azure = Azure(ROUTES, blueprints=[Blueprint(name="made", kind=ScopeKind.STANDALONE)])
    azure.put(f"{VM}/db", HERE)
    azure.put(f"{SET}/web", scale_set(1))
    azure.put(f"{AVAILABILITY_SET}/app", HERE)
    azure.put("Microsoft.Compute/disks/logs", HERE)
    azure.put(NET, HERE)
    return azure


@pytest.fixture
def machines() -> Azure:
    """Give one machine of every shape that is a resource of its own."""
    azure = Azure(ROUTES, blueprints=[Blueprint(name="made", kind=ScopeKind.STANDALONE)])
    azure.put(f"{VM}/db", {**HERE, "tags": OLD})
    azure.put(f"{AVAILABILITY_SET}/app", HERE)
    app: Json = {"availabilitySet": {"id": f"{ROOT}/providers/{AVAILABILITY_SET}/app"}}
    azure.put(f"{VM}/app0", {**HERE, "properties": app})
    azure.put(f"{SET}/pool", scale_set(1, orchestrationMode="Flexible"))
    return azure


def guest_tags(azure: Azure, name: str) -> dict[str, str]:
    """Return the tags that the guest of a machine reads."""
    scopes = azure.fleet.engine.scopes().values()
    (machine,) = [machine for scope in scopes for machine in scope.machines.values() if machine.name == name]
    return dict(machine.tags)


def body(tags: Json, operation: str | None = None) -> Json:
    return {"properties": {"tags": tags}} | ({} if operation is None else {"operation": operation})


def read(azure: Azure, path: str) -> Json:
    return at(azure.get(f"{path}/{TAGS}"), "properties", "tags")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(ROOT, id="a group"),
        pytest.param(f"{VM}/db", id="a machine"),
        pytest.param(f"{HOME}/{VM}/made", id="a machine that no client created"),
        pytest.param(f"{SET}/web", id="a scale set"),
        pytest.param(f"{SET}/web/virtualMachines/0", id="an instance"),
        pytest.param(f"{AVAILABILITY_SET}/app", id="an availability set"),
        pytest.param("Microsoft.Compute/disks/logs", id="a disk"),
        pytest.param(NET, id="a network"),
    ],
)
def test_the_tags_are_those_of_the_resource(azure: Azure, path: str) -> None:
    before = azure.get(path)

    azure.put(f"{path}/{TAGS}", body(OLD))
    azure.patch(f"{path}/{TAGS}", body({"ENV": "live"}, "Merge"))

    after = azure.get(path)
    assert read(azure, path) == at(after, "tags") == {"team": "Blue", "ENV": "live"}
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert {**before, "tags": at(after, "tags"), "etag": None} == {**after, "etag": None}


def test_a_subscription_has_tags(azure: Azure) -> None:
    created = azure.put(f"{SUBSCRIPTION}/{TAGS}", body(OLD))

    azure.restart()

    assert created.body == azure.get(f"{SUBSCRIPTION}/{TAGS}")
    assert created.body == {
        "id": f"{SUBSCRIPTION}/{TAGS}",
        "name": "default",
        "type": "Microsoft.Resources/tags",
        "properties": {"tags": OLD},
    }
    assert read(azure, ROOT) == {}


@pytest.mark.parametrize(
    ("operation", "given", "left"),
    [
        pytest.param("Merge", {"a": "b"}, {"team": "Blue", "env": "test", "a": "b"}, id="some more"),
        pytest.param("merge", {"Team": "red"}, {"env": "test", "Team": "red"}, id="another value"),
        pytest.param("Replace", {"a": "b"}, {"a": "b"}, id="others"),
        pytest.param("Delete", {"TEAM": "Blue"}, {"env": "test"}, id="less, by name and value"),
        pytest.param("Delete", {"team": ""}, {"env": "test"}, id="less, by name"),
        pytest.param("Delete", {"team": None}, {"env": "test"}, id="less, by name and null"),
        pytest.param("Delete", {"team": "red", "x": "y"}, OLD, id="nothing less, for other values"),
    ],
)
def test_a_patch_changes_some_tags(azure: Azure, operation: str, given: Json, left: Json) -> None:
    azure.put(f"{NET}/{TAGS}", body(OLD))

    response = azure.patch(f"{NET}/{TAGS}", body(given, operation))

    assert at(response.body, "properties", "tags") == left
    assert read(azure, NET) == left


def test_a_delete_removes_all_tags(azure: Azure) -> None:
    azure.put(f"{NET}/{TAGS}", body(OLD))

    response = azure.delete(f"{NET}/{TAGS}")

    assert (response.status, response.body) == (200, None)
    assert read(azure, NET) == {}


def test_a_patch_of_a_network_replaces_its_tags(azure: Azure) -> None:
    azure.put(f"{NET}/{TAGS}", body(OLD))

    azure.patch(NET, {"tags": {"a": "b"}})

    assert read(azure, NET) == {"a": "b"}


def test_tags_that_are_merged_at_the_same_time_are_all_there(azure: Azure) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(
            *(
                azure.answer("PATCH", f"{VM}/db/{TAGS}", body({f"tag{number}": "x"}, "Merge"))
                for number in range(10)
            )
        )

    run(all_at_once())

    tags = read(azure, f"{VM}/db")
    assert isinstance(tags, dict)
    assert len(tags) == 10


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "code"),
    [
        ("GET", f"{VM}/none", None, 404, "ResourceNotFound"),
        ("PUT", f"{VM}/none", body(OLD), 404, "ResourceNotFound"),
        ("GET", "Microsoft.Network/virtualNetworks/none", None, 404, "ResourceNotFound"),
        ("GET", f"{ROOT}x", None, 404, "ResourceGroupNotFound"),
        ("GET", f"{ROOT}/providers/Microsoft.Nothing/things/one", None, 404, "ResourceNotFound"),
        ("PATCH", NET, body(OLD), 400, "InvalidParameter"),
        ("PATCH", NET, body(OLD, "Add"), 400, "InvalidParameter"),
        ("PUT", NET, body([]), 400, "InvalidParameter"),
        ("PUT", NET, body({"a": 1}), 400, "InvalidParameter"),
        ("PUT", NET, body({"a" * 513: "x"}), 400, "InvalidParameter"),
        ("PUT", NET, body({"a": "x" * 257}), 400, "InvalidParameter"),
        ("PUT", NET, body({f"tag{number}": "x" for number in range(51)}), 400, "InvalidParameter"),
    ],
)
def test_what_makes_no_sense_is_refused(
    azure: Azure, method: str, path: str, sent: Json, status: int, code: str
) -> None:
    assert azure.refused(method, f"{path}/{TAGS}", sent)[:2] == (status, code)


@pytest.mark.rule("I-11")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"{VM}/db", id="a machine alone"),
        pytest.param(f"{HOME}/{VM}/made", id="a machine that no client created"),
        pytest.param(f"{VM}/app0", id="a machine of an availability set"),
        pytest.param(f"{VM}/{{pool}}", id="a machine of a flexible set"),
        pytest.param(f"{SET}/pool/virtualMachines/{{pool}}", id="an instance of a flexible set"),
    ],
)
def test_a_changed_tag_of_a_machine_reaches_its_guest_at_once(machines: Azure, path: str) -> None:
    path = path.format(pool=machines.names(f"{SET}/pool/virtualMachines")[0])
    name = path.rpartition("/")[2]

    machines.put(path, {**HERE, "tags": {"a": "b"}})
    patched = guest_tags(machines, name)
    machines.patch(f"{path}/{TAGS}", body({"c": "d"}, "Merge"))

    assert patched == {"a": "b"}
    assert guest_tags(machines, name) == at(machines.get(path), "tags") == {"a": "b", "c": "d"}


@pytest.mark.rule("I-11")
def test_a_change_that_is_silent_about_tags_keeps_them(machines: Azure) -> None:
    machines.patch(f"{VM}/db", {"properties": {"licenseType": "None"}})

    assert guest_tags(machines, "db") == OLD


def test_a_machine_keeps_its_changed_tags_when_the_server_is_restarted(machines: Azure) -> None:
    machines.patch(f"{VM}/db", {"tags": {"a": "b"}})

    machines.restart()

    assert guest_tags(machines, "db") == at(machines.get(f"{VM}/db"), "tags") == {"a": "b"}


def test_the_document_of_a_machine_holds_no_copy_of_its_tags(machines: Azure) -> None:
    machines.patch(f"{VM}/db", {"tags": {"a": "b"}})

    stored = machines.context.committed().document(f"{ROOT}/providers/{VM}/db")

    assert stored is not None
    assert "tags" not in stored


def test_a_changed_tag_of_a_machine_is_found_in_the_list_of_all_resources(machines: Azure) -> None:
    machines.patch(f"{VM}/db", {"tags": {"a": "b"}})
    machines.patch(f"{SET}/pool", {"tags": {"a": "b"}})

    listed = machines.get(f"{ROOT}/resources?$filter=tagName eq 'a' and tagValue eq 'b'")

    assert [at(resource, "name") for resource in items(listed)] == ["pool", "db"]


def items(listed: Json) -> list[Json]:
    found = at(listed, "value")
    assert isinstance(found, list)
    return found


# -- tags of a uniform scale set


@pytest.fixture
def tagged() -> Azure:
    """Give a uniform scale set of two instances with tags."""
    azure = Azure(ROUTES)
    azure.put(f"{SET}/web", {**as_document(scale_set(2)), "tags": {"env": "test", "team": "Blue"}})
    return azure


def as_document(body: Json) -> dict[str, Json]:
    assert isinstance(body, dict)
    return body


def restart(azure: Azure, number: int, verb: str = "restart") -> None:
    azure.post(f"{SET}/web/virtualMachines/{number}/{verb}")
    azure.advance("20m")


@pytest.mark.rule("I-11")
@pytest.mark.parametrize("verb", ["restart", "reimage"])
def test_a_changed_tag_of_a_scale_set_reaches_an_instance_when_it_restarts(tagged: Azure, verb: str) -> None:
    created = guest_tags(tagged, "web_0")
    tagged.patch(f"{SET}/web", {"tags": {"env": "live", "tier": "1"}})
    shown = at(tagged.get(f"{SET}/web"), "tags")
    before = guest_tags(tagged, "web_0")

    restart(tagged, 0, verb)

    assert created == before == {"env": "test", "team": "Blue"}
    assert shown == {"env": "live", "tier": "1"}
    assert guest_tags(tagged, "web_0") == shown
    assert at(tagged.get(f"{SET}/web/virtualMachines/0"), "tags") == shown
    assert guest_tags(tagged, "web_1") == created


@pytest.mark.rule("I-11")
def test_a_changed_tag_of_a_scale_set_reaches_an_instance_when_its_disks_change(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web", {"tags": {"env": "live"}})
    disk: Json = {"lun": 0, "createOption": "Empty", "diskSizeGB": 8}

    tagged.put(
        f"{SET}/web/virtualMachines/0", {**HERE, "properties": {"storageProfile": {"dataDisks": [disk]}}}
    )
    tagged.put(f"{SET}/web/virtualMachines/1", {**HERE, "properties": {"licenseType": "None"}})

    assert guest_tags(tagged, "web_0") == {"env": "live"}
    assert guest_tags(tagged, "web_1") == {"env": "test", "team": "Blue"}


@pytest.mark.rule("I-11")
def test_a_client_that_sends_the_tags_that_it_has_read_changes_disks_all_the_same(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web", {"tags": {"env": "live"}})
    paths = [f"{SET}/web/virtualMachines/{number}" for number in (0, 1)]
    read, other = (as_document(tagged.get(path)) for path in paths)
    disk: Json = {"lun": 0, "createOption": "Empty", "diskSizeGB": 8}
    changed: Json = {"storageProfile": {"dataDisks": [disk]}}

    tagged.put(paths[0], {**read, "properties": changed})
    tagged.put(paths[1], {**other, "properties": changed, "tags": {"own": "1"}})

    assert guest_tags(tagged, "web_0") == {"env": "live"}
    assert guest_tags(tagged, "web_1") == {"own": "1"}


@pytest.mark.rule("I-11")
def test_a_restart_brings_nothing_that_a_change_of_disks_has_brought_before(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web", {"tags": {"env": "live"}})
    disk: Json = {"lun": 0, "createOption": "Empty", "diskSizeGB": 8}
    tagged.put(
        f"{SET}/web/virtualMachines/0", {**HERE, "properties": {"storageProfile": {"dataDisks": [disk]}}}
    )
    tagged.patch(f"{SET}/web/virtualMachines/0", {"tags": {"env": "own"}})

    restart(tagged, 0)

    assert guest_tags(tagged, "web_0") == {"env": "own"}


@pytest.mark.rule("I-11")
def test_tags_that_an_instance_has_of_its_own_survive_a_restart(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web/virtualMachines/0", {"tags": {"env": "test", "team": "Red", "own": "1"}})
    at_once = guest_tags(tagged, "web_0")
    restart(tagged, 0)
    unchanged = guest_tags(tagged, "web_0")
    tagged.patch(f"{SET}/web", {"tags": {"team": "Blue", "new": "2"}})

    restart(tagged, 0)

    assert at_once == unchanged == {"env": "test", "team": "Red", "own": "1"}
    assert guest_tags(tagged, "web_0") == {"team": "Red", "own": "1", "new": "2"}


@pytest.mark.rule("I-11")
def test_neither_an_upgrade_nor_a_new_model_brings_tags_and_a_tag_is_no_new_model(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web", {"tags": {"env": "live"}})
    latest = at(tagged.get(f"{SET}/web/virtualMachines/0"), "properties", "latestModelApplied")
    tagged.patch(f"{SET}/web", {"sku": {"name": "Standard_D4s_v5"}})
    tagged.post(f"{SET}/web/manualupgrade", {"instanceIds": ["0"]})
    upgraded = guest_tags(tagged, "web_0")

    restart(tagged, 0)

    assert latest is True
    assert upgraded == {"env": "test", "team": "Blue"}
    assert guest_tags(tagged, "web_0") == {"env": "live"}


@pytest.mark.rule("I-11")
def test_a_changed_tag_of_a_flexible_set_reaches_no_machine_that_it_has(machines: Azure) -> None:
    (name,) = machines.fleet.machines("lab/pool")
    machines.patch(f"{SET}/pool", {"tags": {"env": "live"}})

    machines.post(f"{VM}/{name}/restart")
    machines.advance("20m")

    assert at(machines.get(f"{SET}/pool"), "tags") == {"env": "live"}
    assert guest_tags(machines, name) == {}


@pytest.mark.rule("I-11")
def test_new_instances_have_the_tags_of_their_set(tagged: Azure) -> None:
    tagged.patch(f"{SET}/web", {"tags": {"env": "live"}})

    tagged.patch(f"{SET}/web", {"sku": {"capacity": 3}})

    assert guest_tags(tagged, "web_2") == {"env": "live"}


def test_a_scale_set_keeps_its_tags_and_its_document_no_copy_of_them(tagged: Azure) -> None:
    tagged.put(f"{SET}/bare", scale_set(1))
    tagged.patch(f"{SET}/bare/virtualMachines/0", {"tags": {"own": "1"}})
    tagged.patch(f"{SET}/web", {"tags": {}})

    tagged.restart()

    assert at(tagged.get(f"{SET}/web"), "tags") == at(tagged.get(f"{SET}/bare"), "tags") == {}
    for name in ("web", "bare"):
        assert "tags" not in (tagged.context.committed().document(f"{ROOT}/providers/{SET}/{name}") or {})


@pytest.mark.rule("I-11")
def test_a_changed_tag_of_a_scale_set_reaches_instances_in_all_of_its_zones(tagged: Azure) -> None:
    tagged.put(f"{SET}/wide", {**as_document(scale_set(2, zones=("1", "2"))), "tags": {"env": "test"}})
    tagged.patch(f"{SET}/wide", {"tags": {"env": "live"}})

    tagged.post(f"{SET}/wide/restart")
    tagged.advance("40m")

    assert [guest_tags(tagged, name) for name in ("wide_0", "wide_1")] == [{"env": "live"}] * 2


# -- documents of release 0.2


def add_tags(azure: Azure, path: str, tags: Json) -> None:
    """Store tags in a document, as release 0.2 did."""
    key = f"{ROOT}/providers/{path}"
    azure.keep({key: {**(azure.context.committed().document(key) or {}), "tags": tags}})


@pytest.mark.parametrize("listed", [False, True], ids=["by clients", "by an inventory"])
def test_tags_in_documents_of_release_0_2_are_moved_to_their_machines(machines: Azure, listed: bool) -> None:
    machines.put(f"{SET}/web", scale_set(2))
    machines.patch(f"{SET}/web/virtualMachines/0", {"tags": {}})
    paths = (f"{VM}/db", f"{SET}/web/virtualMachines/0")
    for number, path in enumerate(paths):
        add_tags(machines, path, {"n": str(number)})
    before = [at(machines.get(path), "tags") for path in paths]
    machines.fleet.engine.policy = replace(machines.fleet.engine.policy, emulator=not listed)

    machines.restart()

    # What an inventory lists is what its machines have.
    expected: list[Json] = [OLD, {}] if listed else [{"n": "0"}, {"n": "1"}]
    assert before == [{"n": "0"}, {"n": "1"}]
    assert [at(machines.get(path), "tags") for path in paths] == expected
    assert [guest_tags(machines, name) for name in ("db", "web_0", "web_1")] == [*expected, {}]
    documents = [machines.context.committed().document(f"{ROOT}/providers/{path}") or {} for path in paths]
    assert not any("tags" in document for document in documents)


@pytest.mark.parametrize("listed", [False, True], ids=["by clients", "by an inventory"])
def test_tags_in_the_document_of_a_set_of_release_0_2_are_moved_to_all_scopes_of_the_set(
    machines: Azure, listed: bool
) -> None:
    make_set_of_0_2(machines)
    machines.keep({f"{ROOT}/providers/{SET}/old": {"name": "old", "tags": {"a": "1"}}})
    before = at(machines.get(f"{SET}/old"), "tags")
    machines.fleet.engine.policy = replace(machines.fleet.engine.policy, emulator=not listed)

    machines.restart()

    scopes = [scope for scope in machines.fleet.engine.scopes().values() if scope.facts.set_name == "old"]
    expected = None if listed else (("a", "1"),)
    assert before == {"a": "1"}
    assert at(machines.get(f"{SET}/old"), "tags") == ({} if listed else before)
    assert [scope.facts.model.tags for scope in scopes] == [expected] * 2
    assert "tags" not in (machines.context.committed().document(f"{ROOT}/providers/{SET}/old") or {})
