"""Invalid requests to the management API get an error of Azure, never a failure of the server."""

import re
from collections.abc import Iterator

import httpx2
import pytest

from fairwarning.arm import app
from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json
from tests.arm.arm_client import ONE, ArmClient, arm_client

COMPUTE = f"{ONE}/resourceGroups/lab/providers/Microsoft.Compute"
VERSION = "api-version=2024-07-01"
NUMBER = "00000000-0000-0000-0000-000000000000"


def deep(levels: int) -> Json:
    """Return nested objects with a value at a path."""
    document: Json = 1
    for _ in range(levels):
        document = {"a": document}
    return document


#: What stands where a path has a name, if it is something that is there.
THERE = {
    "subscription": SUBSCRIPTION,
    "group": "lab",
    "name": "web",
    "instance": "0",
    "type": "virtualMachineScaleSets",
    "location": "westeurope",
    "event": NUMBER,
    "operation": NUMBER,
    "provider": "Microsoft.Compute",
}

#: What stands there instead if the path leads to another type of thing.
OTHERS = {"Microsoft.Compute/virtualMachines": "db", "Microsoft.Compute/availabilitySets": "app"}

#: Bodies of every wrong type, at every depth that is read.
BODIES: dict[str, Json] = {
    "nothing": None,
    "a list": [],
    "a word": "no",
    "a number": 7,
    "an empty object": {},
    "properties of the wrong type": {"location": 5, "properties": [], "sku": "big", "tags": [1], "zones": 3},
    "profiles of the wrong type": {
        "location": "westeurope",
        "sku": {"name": {}, "capacity": "many"},
        "zones": [{}],
        "tags": {"a": {}},
        "properties": {
            "virtualMachineProfile": [],
            "upgradePolicy": 1,
            "availabilitySet": "pair",
            "scheduledEventsPolicy": 4,
            "template": [],
            "parameters": 3,
            "roleProfile": {"roles": [3]},
            "subnets": "all",
        },
    },
    "notices of the wrong type": {
        "location": "westeurope",
        "sku": {"capacity": -1},
        "properties": {
            "orchestrationMode": ["Uniform"],
            "priority": {},
            "evictionPolicy": [],
            "platformFaultDomainCount": "one",
            "virtualMachineProfile": {"scheduledEventsProfile": {"terminateNotificationProfile": "PT5M"}},
            "scheduledEventsProfile": {"terminateNotificationProfile": {"notBeforeTimeout": ["PT5M"]}},
            "scheduledEventsPolicy": {"userInitiatedReboot": {"automaticallyApprove": {}}},
            "mode": "Incremental",
            "template": {"resources": [{"type": 4, "name": [], "apiVersion": {}}]},
            "roleProfile": {"roles": [{"name": 3, "sku": {"capacity": "two"}}]},
        },
    },
    "a huge number": {"location": "westeurope", "sku": {"capacity": 10**30}, "properties": {}},
    "instances of the wrong type": {"instanceIds": [{}, 1, None], "value": [4], "roleInstances": ["no", 4]},
    "instances that are not there": {"instanceIds": ["99", "../../x"], "value": [NUMBER]},
    "strange letters": {
        "location": "\u0000",
        "tags": {"\U0001f600": "\u202e"},
        "properties": {"a": "\x7f"},
    },
    "a deep document": {"properties": deep(60)},
}

#: Names to send with every route; each takes over half a second.
WORDS = ("nobody", "%00", "..", "a%2Fb")
MORE_WORDS = ("x" * 300, "é", "*", "'", "{}")


@pytest.fixture(scope="module")
def client() -> ArmClient:
    face = arm_client()
    things: tuple[tuple[str, Json], ...] = (
        (f"{ONE}/resourceGroups/lab", {"location": "westeurope"}),
        (f"{COMPUTE}/virtualMachineScaleSets/web", {"location": "westeurope", "sku": {"capacity": 2}}),
        (f"{COMPUTE}/virtualMachines/db", {"location": "westeurope", "properties": {}}),
        (f"{COMPUTE}/availabilitySets/app", {"location": "westeurope", "properties": {}}),
    )
    for path, body in things:
        answer = face.send("PUT", f"{path}?{VERSION}", body)
        assert answer.status_code < 300, answer.text
    return face


def filled(route: ArmRoute, **instead: str) -> str:
    """Return a path that matches the route."""
    own = [name for kind, name in OTHERS.items() if f"/{kind}/{{name}}" in route.template]
    names = THERE | {"name": (*own, THERE["name"])[0]} | instead
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), route.template)


def check(answer: httpx2.Response, what: str) -> None:
    """Check that a response is no failure of the server, and that az can print it if it is an error."""
    assert answer.status_code < 500, f"{what}: {answer.text}"
    if answer.status_code >= 400 and not what.startswith("HEAD "):
        error = answer.json()["error"]
        assert re.fullmatch(r"[A-Z]\w+", error["code"]), f"{what}: {error}"
        assert error["message"], what


def changing() -> Iterator[ArmRoute]:
    # What is deleted is missed by the other cases.
    return (route for route in app.ROUTES if route.method in ("PUT", "PATCH", "POST"))


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])
def test_no_body_makes_the_server_fail(client: ArmClient, body: Json) -> None:
    for route in changing():
        path = filled(route)

        answer = client.send(route.method, f"{path}?{VERSION}", body)

        check(answer, f"{route.method} {path}")


@pytest.mark.parametrize(
    "word", [*WORDS, *(pytest.param(word, marks=pytest.mark.slow) for word in MORE_WORDS)]
)
def test_no_name_makes_the_server_fail(client: ArmClient, word: str) -> None:
    for route in app.ROUTES:
        for name in re.findall(r"\{(\w+)\}", route.template):
            path = filled(route, **{name: word})

            answer = client.send(route.method, f"{path}?{VERSION}", {} if route.method != "GET" else None)

            check(answer, f"{route.method} {path}")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"{", id="half an object"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b'{"a": NaN}', id="no number"),
        pytest.param(b"[" * 100_000, id="a hundred thousand brackets"),
        pytest.param(b'{"a":1,"a":{}}', id="a member twice"),
        pytest.param(b'{"sku":{"capacity":1e999}}', id="infinity"),
        pytest.param(b'"\\ud800"', id="half a letter"),
    ],
)
def test_what_is_not_json_is_refused(client: ArmClient, content: bytes) -> None:
    for route in changing():
        headers = {"Content-Type": "application/json"}

        answer = client.send(route.method, f"{filled(route)}?{VERSION}", content=content, headers=headers)

        check(answer, f"{route.method} {route.template}")


@pytest.mark.parametrize(
    "query",
    [
        "$skiptoken=%ff",
        "$expand=everything",
        "$filter=(((",
        "$filter=resourceType%20eq%20",
        "$top=-1",
        "forceDeletion=perhaps",
        "monitor=perhaps",
        "platformUpdateDomain=x",
        "api-version=2024-07-01",
    ],
)
def test_no_query_makes_the_server_fail(client: ArmClient, query: str) -> None:
    for route in app.ROUTES:
        if route.method in ("GET", "HEAD", "POST"):
            answer = client.send(route.method, f"{filled(route)}?{VERSION}&{query}")

            check(answer, f"{route.method} {route.template}")


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        pytest.param(
            "GET", f"{COMPUTE}/virtualMachines/absent", None, (404, "ResourceNotFound"), id="unknown machine"
        ),
        pytest.param(
            "GET",
            f"{ONE}/resourceGroups/nowhere/providers/Microsoft.Compute/virtualMachines/web",
            None,
            (404, "ResourceGroupNotFound"),
            id="unknown group",
        ),
        pytest.param(
            "PUT",
            f"/subscriptions/{NUMBER}/resourceGroups/lab",
            {"location": "westeurope"},
            (404, "SubscriptionNotFound"),
            id="another subscription",
        ),
        pytest.param(
            "PUT",
            f"{ONE}/resourceGroups/lab/providers/Microsoft.Resources/deployments/d",
            {"properties": {"mode": "Incremental", "template": {"resources": [{"name": "[nope()]"}]}}},
            (400, "InvalidTemplate"),
            id="a template with an unknown function",
        ),
        pytest.param(
            "PUT",
            f"{COMPUTE}/virtualMachines/new",
            {"location": "westeurope", "properties": {"availabilitySet": {"id": "/subscriptions/x"}}},
            (400, "LinkedInvalidPropertyId"),
            id="an id that is none",
        ),
        pytest.param(
            "POST",
            f"{COMPUTE}/virtualMachineScaleSets/web/delete",
            {"instanceIds": ["99"]},
            (400, "InvalidParameter"),
            id="an instance that is not there",
        ),
    ],
)
def test_a_refusal_is_called_what_azure_calls_it(
    client: ArmClient, method: str, path: str, body: Json, refusal: tuple[int, str]
) -> None:
    assert client.refused(method, f"{path}?{VERSION}", body) == refusal
