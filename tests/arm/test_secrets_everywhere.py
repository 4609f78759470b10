"""Protected settings and user data: a value through every way in, and a look for it at every way out."""

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.arm.app import ROUTES
from fairwarning.console.app import create_app as create_console
from fairwarning.control.control import Control
from fairwarning.core.document.render import Json
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.operations import back_up, restore
from fairwarning.engine.clock import ManualClock
from fairwarning.operator.app import create_app as create_operator
from fairwarning.store.sqlite import SqliteStore
from tests.arm.azure import ROOT, Azure, at
from tests.arm.cloud import resource, template
from tests.arm.compute import SET, VM, both, compute, model, scale_set
from tests.arm.deploying import ONE, body
from tests.asgi import ask
from tests.fleet_harness import run

MARKER = "hunter2"
SECRET = base64.b64encode(MARKER.encode()).decode()
WEB, FLEX, DB = f"{SET}/web", f"{SET}/flex", f"{VM}/db"
PROTECTED: Json = {"commandToExecute": MARKER}
EXTENSION: dict[str, Json] = {
    "publisher": "Microsoft.Azure.Extensions",
    "type": "CustomScript",
    "typeHandlerVersion": "2.1",
    "settings": {},
    "protectedSettings": PROTECTED,
}
PROFILE: Json = {"extensions": [{"name": "script", "properties": EXTENSION}]}
USER_DATA: Json = {"properties": {"userData": SECRET}}
HERE: Json = {"location": "westeurope"}


def in_template(**properties: Json) -> Json:
    return resource("made", kind=VM, location="westeurope", properties=properties)


#: The requests that carry a secret, in the order in which they are sent.
WAYS_IN: tuple[tuple[str, str, Json], ...] = (
    ("PUT", DB, both(HERE, USER_DATA)),
    ("PATCH", DB, USER_DATA),
    ("PUT", f"{DB}/extensions/script", {"location": "westeurope", "properties": EXTENSION}),
    ("PATCH", f"{DB}/extensions/script", {"properties": {"protectedSettings": PROTECTED}}),
    ("PUT", WEB, both(scale_set(1), model(userData=SECRET, extensionProfile=PROFILE))),
    ("PATCH", WEB, model(userData=SECRET, extensionProfile=PROFILE)),
    ("PUT", f"{WEB}/virtualMachines/0", both(HERE, USER_DATA)),
    ("PUT", f"{WEB}/extensions/other", {"properties": EXTENSION}),
    ("PATCH", f"{WEB}/extensions/other", {"properties": {"protectedSettings": PROTECTED}}),
    ("PUT", f"{WEB}/virtualMachines/0/extensions/own", both(HERE, {"properties": EXTENSION})),
    (
        "PUT",
        FLEX,
        both(scale_set(1), both(model(userData=SECRET), {"properties": {"orchestrationMode": "Flexible"}})),
    ),
    ("PUT", ONE, body(template(in_template(userData=SECRET)))),
    (
        "PUT",
        ONE,
        body(
            template(
                in_template(userData="[base64(parameters('word'))]"),
                resource(
                    "made/script",
                    f"{VM}/made",
                    kind=f"{VM}/extensions",
                    properties={**EXTENSION, "protectedSettings": {"key": "[parameters('word')]"}},
                ),
                parameters={"word": {"type": "secureString"}},
            ),
            word=MARKER,
        ),
    ),
)
MANAGED = (
    *(
        "",
        "/resources",
        f"/providers/{VM}",
        f"/providers/{SET}",
        "/providers/Microsoft.Resources/deployments",
    ),
    *(f"/providers/{path}" for path in (DB, WEB, FLEX, ONE, f"{VM}/made", f"{VM}/made/extensions/script")),
    *(f"/providers/{path}" for path in (f"{DB}/extensions", f"{DB}/extensions/script")),
    *(f"/providers/{WEB}/extensions{path}" for path in ("", "/script", "/other")),
    *(f"/providers/{WEB}/virtualMachines/0/extensions{path}" for path in ("", "/script", "/own")),
    *(f"/providers/{WEB}/virtualMachines{path}" for path in ("", "/0", "/0/instanceView")),
    *(f"/providers/{FLEX}/virtualMachines", f"/providers/{DB}/instanceView"),
)
PAGES = ("/", "/events", "/history", "/history.csv", "/history.json", "/maintenance")
FLEET = ("machines", "scopes", "history", "events")


class Everything:
    """A server with every API over a data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.azure = Azure(ROUTES, store=run(SqliteStore.open(directory)))

    def send_all(self) -> Iterator[str]:
        """Send what carries a secret; yield the responses."""
        for method, path, sent in WAYS_IN:
            yield json.dumps(self.azure.fine(method, path, sent).body)

    def read_all(self) -> Iterator[str]:
        """Yield what can be read, except where a client asks for user data."""
        for path in MANAGED:
            for query in ("", "?$expand=instanceView"):
                yield json.dumps(self.azure.get(f"{ROOT}{path}{query}"))
        machine = f"/machines/{self.azure.fleet.machine('db').ref.full}"
        pages, paths = ("/scopes/lab/web", machine), ("machines/lab/db/db", "scopes/lab/web")
        yield from self.read_fleet((*PAGES, *pages), (*FLEET, *paths))

    def read_fleet(self, pages: Sequence[str] = PAGES, paths: Sequence[str] = FLEET) -> Iterator[str]:
        """Yield pages of the console, answers of the operator API, the stored documents and the journal."""
        control = Control(self.azure.fleet.engine)
        console = create_console(control, endpoints=lambda ref: None)
        operator = create_operator(control, endpoints=lambda ref: None)
        for app, addresses in ((console, pages), (operator, [f"/fleet/v1/{path}" for path in paths])):
            for path in addresses:
                response = run(ask(app, "GET", f"http://127.0.0.1:8080{path}"))
                assert response.status_code == 200, path
                yield response.text
        yield json.dumps(dict(self.azure.fleet.engine.texts()))
        yield str(run(self.azure.fleet.store.journal()))

    def back_up(self, file: Path) -> str:
        """Write a backup and return its content."""
        back_up(DataDirectory(self.directory), file, clock=ManualClock(self.azure.fleet.now))
        return gzip.decompress(file.read_bytes()).decode()

    def close(self) -> None:
        run(self.azure.fleet.store.close())


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[Everything]:
    server = Everything(tmp_path / "data")
    yield server
    server.close()


@pytest.mark.rule("T-30")
def test_a_secret_comes_in_by_every_way_and_out_by_none(
    everything: Everything, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with everything.azure.fleet.engine.feed.subscribe() as feed:
        answers = [*everything.send_all(), *everything.read_all()]
        lines = str(run(feed.next_batch(timedelta(0))))
    backup = everything.back_up(tmp_path / "fleet.backup")

    outputs = [*answers, lines, caplog.text, backup]

    assert len(lines) > 1000
    assert [text for text in outputs if MARKER in text or SECRET in text] == []


def test_a_backup_has_nothing_of_a_deployment_that_is_under_way(
    everything: Everything, tmp_path: Path
) -> None:
    run(everything.azure.fleet.store.put_value("deployment:one", MARKER))

    assert MARKER not in everything.back_up(tmp_path / "fleet.backup")


def test_a_restored_server_knows_no_user_data(everything: Everything, tmp_path: Path) -> None:
    everything.azure.put(DB, both(HERE, USER_DATA))
    everything.back_up(tmp_path / "fleet.backup")
    restore(
        DataDirectory(tmp_path / "new"),
        tmp_path / "fleet.backup",
        clock=ManualClock(everything.azure.fleet.now),
    )

    restored = Everything(tmp_path / "new")

    assert at(restored.azure.get(f"{DB}?$expand=userData"), "properties", "userData") is None
    restored.close()


# User data.


@pytest.mark.rule("T-30")
@pytest.mark.parametrize(
    ("path", "member"),
    [
        pytest.param(DB, ("properties", "userData"), id="a machine"),
        pytest.param(WEB, ("properties", "virtualMachineProfile", "userData"), id="a scale set"),
        pytest.param(f"{WEB}/virtualMachines/0", ("properties", "userData"), id="an instance, by its set"),
        pytest.param(f"{FLEX}/virtualMachines", ("properties", "userData"), id="a flexible instance"),
    ],
)
def test_user_data_is_returned_to_clients_that_ask_for_it(path: str, member: tuple[str, ...]) -> None:
    azure = compute()
    azure.put(DB, both(HERE, USER_DATA))
    azure.put(WEB, both(scale_set(1), model(userData=SECRET)))
    flexible: Json = {"properties": {"orchestrationMode": "Flexible"}}
    azure.put(FLEX, both(scale_set(1), both(model(userData=SECRET), flexible)))
    if path.startswith(FLEX):
        path = f"{VM}/{azure.names(path)[0]}"

    azure.restart()

    assert at(azure.get(f"{path}?$expand=userData"), *member) == SECRET
    assert at(azure.get(path), *member) is None


def test_an_instance_may_have_user_data_of_its_own() -> None:
    azure = compute()
    azure.put(WEB, both(scale_set(2), model(userData=SECRET)))

    azure.put(f"{WEB}/virtualMachines/0", {"location": "westeurope", "properties": {"userData": "b3du"}})

    texts = [azure.get(f"{WEB}/virtualMachines/{number}?$expand=userData") for number in (0, 1)]
    assert [at(document, "properties", "userData") for document in texts] == ["b3du", SECRET]


@pytest.mark.rule("T-30")
def test_user_data_stays_until_it_is_replaced_or_emptied() -> None:
    azure = compute()
    azure.put(DB, both(HERE, USER_DATA))
    seen = []
    changes: tuple[Json, ...] = (
        {"tags": {"a": "b"}},
        {"properties": {"userData": "bmV3"}},
        {"properties": {"userData": ""}},
    )

    for change in changes:
        azure.patch(DB, change)
        seen.append(at(azure.get(f"{DB}?$expand=userData"), "properties", "userData"))

    assert seen == [SECRET, "bmV3", None]


def test_user_data_goes_with_its_machine() -> None:
    azure = compute()
    azure.put(DB, both(HERE, USER_DATA))
    azure.delete(DB)
    azure.advance("1m")
    left = [key for key in azure.fleet.engine.texts() if "userdata" in key]

    azure.put(DB, HERE)

    assert left == []
    assert at(azure.get(f"{DB}?$expand=userData"), "properties", "userData") is None


def test_user_data_is_a_text() -> None:
    refusal = compute().refused("PUT", DB, {"location": "westeurope", "properties": {"userData": {}}})

    assert refusal[:2] == (400, "InvalidParameter")
