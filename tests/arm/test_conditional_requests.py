"""Conditional requests: a change is carried out only if the resource is as the client last saw it."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from tests.arm.arm_client import ONE, arm_client
from tests.arm.azure import Azure, at, header
from tests.arm.compute import HOME_SET, SET, VM, compute, model, profile, scale_set

pytestmark = pytest.mark.rule("T-25")

MACHINE: dict[str, Json] = {"location": "westeurope", "properties": {}}
INSTANCE = f"{HOME_SET}/web/virtualMachines/0"
#: A body that changes a resource, by the path of the resource.
CHANGES: dict[str, Json] = {
    f"{VM}/db": {**MACHINE, "tags": {"team": "data"}},
    f"{SET}/shop": {"sku": {"capacity": 2}},
    INSTANCE: {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}},
}


@pytest.fixture
def azure() -> Azure:
    azure = compute(Blueprint(name="web", count=2))
    azure.put(f"{VM}/db", MACHINE)
    azure.put(f"{SET}/shop", scale_set(1))
    return azure


@pytest.mark.parametrize("path", CHANGES)
def test_a_resource_that_is_as_the_client_saw_it_is_changed(azure: Azure, path: str) -> None:
    seen = azure.fine("GET", path)
    etag = str(at(seen.body, "etag"))

    changed = azure.send("PUT", path, CHANGES[path], if_match=etag)

    assert changed.status == 200
    assert header(seen, "ETag") == etag
    assert header(changed, "ETag") == at(azure.get(path), "etag") != etag


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_resource_that_has_changed_since_is_not_changed_again(azure: Azure, path: str, method: str) -> None:
    etag = str(at(azure.get(path), "etag"))
    azure.put(path, CHANGES[path])
    after = azure.get(path)

    refusal = azure.send(method, path, {"tags": {"mine": "yes"}}, if_match=etag)

    message = f"Etag provided in if-match header {etag} does not match etag {at(after, 'etag')} of resource."
    assert refusal.status == 412
    assert refusal.body == {"error": {"code": "PreconditionFailed", "message": message}}
    assert azure.get(path) == after


@pytest.mark.parametrize("name", ["db", "new"])
def test_a_star_asks_whether_there_is_a_resource(azure: Azure, name: str) -> None:
    path, exists = f"{VM}/{name}", name == "db"

    assert azure.send("PUT", path, MACHINE, if_match="*").status == (200 if exists else 412)
    assert azure.send("PUT", path, MACHINE, if_none_match="*").status == (412 if exists else 201)


def test_a_change_can_depend_on_an_etag_only(azure: Azure) -> None:
    refusal = azure.send("PUT", f"{VM}/db", MACHINE, if_none_match='"1"')

    assert (refusal.status, at(refusal.body, "error", "code")) == (400, "InvalidParameter")


def test_what_happens_to_a_machine_does_not_change_its_etag(azure: Azure) -> None:
    before = azure.get(f"{VM}/db?$expand=instanceView")
    azure.poll("db")

    azure.post(f"{VM}/db/restart")

    after = azure.get(f"{VM}/db")
    assert at(after, "properties", "provisioningState") == "Updating"
    assert at(after, "etag") == at(before, "etag")


def test_a_document_that_is_sent_back_leaves_the_etag_as_it_is(azure: Azure) -> None:
    for path in CHANGES:
        document = azure.get(path)

        assert at(azure.put(path, document).body, "etag") == at(document, "etag")
        assert azure.get(path) == document


def test_every_change_of_a_set_changes_its_etag(azure: Azure) -> None:
    bodies: list[Json] = [model(**profile(11)), {"tags": {"a": "b"}}, {"sku": {"capacity": 4}}]

    etags = [at(azure.put(f"{SET}/shop", body).body, "etag") for body in bodies]
    azure.post(f"{SET}/shop/delete", {"instanceIds": ["0"]})
    etags.append(at(azure.get(f"{SET}/shop"), "etag"))

    assert len({str(etag) for etag in etags}) == 4


def test_clients_of_older_versions_see_no_etag(azure: Azure) -> None:
    response = azure.fine("GET", f"{SET}/shop", version="2023-07-01")

    assert at(response.body, "etag") is None
    assert header(response, "ETag") is None


def test_the_condition_comes_in_headers() -> None:
    client = arm_client()
    path = f"{ONE}/resourceGroups/fairwarning/providers/{VM}/db?api-version=2024-07-01"
    client.send("PUT", path, MACHINE)

    stale = client.send("PUT", path, MACHINE, headers={"If-Match": '"999"'})
    existing = client.send("PUT", path, MACHINE, headers={"If-None-Match": "*"})

    assert [stale.status_code, existing.status_code] == [412, 412]
    assert client.send("GET", path).headers["etag"]
