"""A server of real machines: it has nothing of the emulator, and only its inventory creates machines."""

import re
import ssl
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx2
import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.errors import EmulatorOnlyError, MachinesListedError
from fairwarning.core.policy import EMULATOR_ACTIONS, LISTED_ACTIONS, Action, Policy, check_available
from fairwarning.server import FleetServer
from tests.cli.server import call
from tests.config.files import loaded
from tests.running import Running, arm_token, in_thread

FILE = """
driver = "external"
[operator]
listen = "127.0.0.1:0"
[management]
listen = "127.0.0.1:0"
[metadata]
sockets = "sockets"
[[set]]
name = "pool"
kind = "scale-set"
[[machine]]
name = "pool_0"
set = "pool"
[[machine]]
name = "db"
[[machine]]
name = "mail"
group = "Prod"
"""

#: Where clients of the management API find the machines.
GROUP = "fairwarning/providers/Microsoft.Compute"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run one server for all tests of this module; they leave its machines as they are."""
    service = FleetServer(loaded(tmp_path_factory.mktemp("real"), FILE).settings)
    in_thread(service.__aenter__())
    try:
        trust = ssl.create_default_context(cafile=service.ca)
        with (
            httpx2.Client(base_url=service.operator_url, trust_env=False) as operator,
            httpx2.Client(base_url=service.arm_url or "", verify=trust, trust_env=False) as arm,
            httpx2.Client(trust_env=False) as guests,
        ):
            arm.headers["Authorization"] = f"Bearer {arm_token(arm)}"
            yield Running(service, operator, arm, guests)
    finally:
        in_thread(service.__aexit__(None, None, None))


EMULATOR_ROUTES: list[tuple[str, str, Json]] = [
    ("PUT", "/machines/db/fault", {"fault": "429"}),
    ("DELETE", "/machines/db/fault", None),
    ("POST", "/clock/advance", {"by": "15m"}),
    ("POST", "/clock/next", {}),
    ("PUT", "/clock/speed", {"speed": 60}),
    ("PUT", "/clock/speed", "no request at all"),
]


@pytest.mark.parametrize(("method", "path", "body"), EMULATOR_ROUTES)
def test_a_route_of_the_emulator_is_not_found(server: Running, method: str, path: str, body: Json) -> None:
    answer = server.fleet(method, path, body)

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        f"{method} /fleet/v1{path} is a feature of the emulator (fairwarning up), not of fairwarning serve"
    )


def test_the_openapi_document_has_no_routes_of_the_emulator(server: Running) -> None:
    paths = server.fleet("GET", "/openapi.json").json()["paths"]

    assert [path for path in paths if "fault" in path or "/clock/" in path] == []
    assert "/fleet/v1/clock" in paths


@pytest.mark.parametrize("path", ["/clock", "/create", "/create/scale-set"])
def test_a_page_of_the_emulator_is_not_found(server: Running, path: str) -> None:
    assert server.operator.get(path, headers={"accept": "text/html"}).status_code == 404


@pytest.mark.parametrize("path", ["/", "/machines/db/db", "/history", "/maintenance", "/events"])
def test_a_page_has_no_way_to_the_emulator(server: Running, path: str) -> None:
    page = server.operator.get(path, headers={"accept": "text/html"})

    assert page.status_code == 200
    assert (
        re.findall(r"(?:href|action)=\"/(?:clock|create|machines/[^\"]*/(?:fault|heal))[^\"]*\"", page.text)
        == []
    )


@pytest.mark.parametrize("path", ["/clock/speed", "/create/scale-set", "/machines/db/db/fault"])
def test_a_form_of_the_emulator_is_not_found(server: Running, path: str) -> None:
    answer = server.operator.post(path, headers={"accept": "text/html"}, data={"speed": "60"})

    assert answer.status_code in (404, 405)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/scopes", {"name": "new", "count": 1}, id="a new set"),
        pytest.param("/scopes/pool/machines", {"count": 1}, id="more machines of a set"),
    ],
)
def test_the_operator_api_creates_no_machine(server: Running, path: str, body: Json) -> None:
    answer = server.fleet("POST", path, body)

    assert answer.status_code == 409
    assert "machines come from the inventory of fairwarning serve; change its file" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            f"{GROUP}/virtualMachines/new",
            {"location": "westeurope", "properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}}},
            id="a new machine",
        ),
        pytest.param(
            f"{GROUP}/virtualMachineScaleSets/new",
            {"location": "westeurope", "sku": {"name": "Standard_D2s_v5", "capacity": 2}},
            id="a new scale set",
        ),
        pytest.param(
            f"{GROUP}/virtualMachineScaleSets/pool",
            {"location": "westeurope", "sku": {"name": "Standard_D2s_v5", "capacity": 5}},
            id="a larger scale set",
        ),
        pytest.param(
            f"{GROUP}/availabilitySets/new",
            {"location": "westeurope", "sku": {"name": "Aligned"}},
            id="a new availability set",
        ),
    ],
)
def test_the_management_api_creates_no_machine(server: Running, path: str, body: Json) -> None:
    before = server.fleet("GET", "/machines").json()

    answer = server.manage("PUT", path, body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OperationNotAllowed")
    assert "the inventory of fairwarning serve" in answer.json()["error"]["message"]
    assert server.fleet("GET", "/machines").json() == before


@pytest.mark.rule("I-11")
def test_the_management_api_changes_no_tags_that_the_inventory_lists(server: Running) -> None:
    other = server.manage("PATCH", f"{GROUP}/virtualMachines/db", {"tags": {"team": "blue"}})
    same = server.manage("PATCH", f"{GROUP}/virtualMachines/db", {"tags": {}})

    assert (other.status_code, same.status_code) == (409, 200)
    assert "cannot set tags: machines come from the inventory" in other.json()["error"]["message"]
    assert server.manage("GET", f"{GROUP}/virtualMachines/db").json()["tags"] == {}


def test_a_template_creates_no_machine(server: Running) -> None:
    resource: Json = {
        "type": "Microsoft.Compute/virtualMachines",
        "apiVersion": "2024-07-01",
        "name": "new",
        "location": "westeurope",
        "properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}},
    }
    template: Json = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": [resource],
    }
    path = "fairwarning/providers/Microsoft.Resources/deployments/one"

    server.manage("PUT", path, {"properties": {"mode": "Incremental", "template": template}}, "2022-09-01")
    deployment = server.manage("GET", path, version="2022-09-01")

    assert "inventory of fairwarning serve" in deployment.text
    assert [one["name"] for one in server.fleet("GET", "/machines").json()["machines"]] == [
        "pool_0",
        "db",
        "mail",
    ]


def test_a_machine_of_the_inventory_is_managed_as_ever(server: Running) -> None:
    shown = server.manage("GET", f"{GROUP}/virtualMachines/db")
    restarted = server.manage("POST", f"{GROUP}/virtualMachines/db/restart")

    assert (shown.status_code, restarted.status_code) == (200, 202)


def test_a_machine_is_found_in_the_group_that_the_inventory_names(server: Running) -> None:
    shown = server.manage("GET", "Prod/providers/Microsoft.Compute/virtualMachines/mail")
    group = server.manage("GET", "prod", version="2022-09-01")

    assert (shown.status_code, group.status_code) == (200, 200)


def test_a_group_that_the_inventory_names_after_a_reload_is_found(server: Running, tmp_path: Path) -> None:
    more = loaded(tmp_path, f'{FILE}[[machine]]\nname = "trial"\ngroup = "Test"\n').settings
    assert more.serve is not None
    back = f'{FILE}[inventory]\nreplaces = "{more.serve.inventory_version}"\n'
    before = server.manage("GET", "Test", version="2022-09-01")

    in_thread(server.service.reload(lambda: more))
    after = server.manage("GET", "Test", version="2022-09-01")
    in_thread(server.service.reload(lambda: loaded(tmp_path, back).settings))

    assert (before.status_code, after.status_code) == (404, 200)


def test_the_hint_of_cause_names_nothing_of_the_emulator(server: Running) -> None:
    done = call("cause", "freeze", "pool_0", "--notice", "1h", url=server.service.operator_url)

    assert done.code == 0
    assert done.stderr.endswith("the action will happen without warning; hint: poll first\n")


@pytest.mark.parametrize("words", ["fault db 429", "clock speed 60", "clock next"])
def test_a_command_of_the_emulator_says_why_it_fails(server: Running, words: str) -> None:
    done = call(*words.split(), url=server.service.operator_url)

    assert done.code == 1
    assert "is a feature of the emulator (fairwarning up), not of fairwarning serve" in done.stderr


@pytest.mark.parametrize("action", Action)
def test_the_tables_say_what_is_refused(action: Action) -> None:
    refused = action in EMULATOR_ACTIONS | LISTED_ACTIONS

    with pytest.raises((EmulatorOnlyError, MachinesListedError)) if refused else nullcontext():
        check_available(action, Policy(emulator=False))
    check_available(action, Policy())
