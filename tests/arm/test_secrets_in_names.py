"""A template that makes names out of a secret: what is refused is nowhere to be found."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.arm.templates.secrets import MOST_COMPARED, redacted_text
from fairwarning.core.document.render import Json
from fairwarning.logs.journal import KnownFleet, lines_of
from tests.arm.azure import ROOT, at
from tests.arm.cloud import resource, template
from tests.arm.compute import AVAILABILITY_SET, SET, VM
from tests.arm.deploying import ONE, body, facts, listed
from tests.arm.test_secrets_everywhere import Everything
from tests.fleet_harness import run

MARKER = "Hunter2"
WORD: Json = {"word": {"type": "secureString"}}
NESTED = "Microsoft.Resources/deployments"


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[Everything]:
    server = Everything(tmp_path / "data")
    yield server
    server.close()


def inner(name: str, template: Json) -> Json:
    """Return a deployment inside a template, which is given the secret."""
    properties: Json = {
        "mode": "Incremental",
        "expressionEvaluationOptions": {"scope": "inner"},
        "template": template,
        "parameters": {"word": {"value": "[parameters('word')]"}},
    }
    return resource(name, kind=NESTED, properties=properties)


BAD = "[concat('bad name ', parameters('word'))]"


@pytest.mark.rule("T-42")
@pytest.mark.parametrize(
    ("written", "word"),
    [
        pytest.param(resource(BAD, kind=VM, location="westeurope"), MARKER, id="a machine"),
        pytest.param(resource(BAD, kind=SET, sku={"capacity": 1}), MARKER, id="a scale set"),
        pytest.param(resource(BAD, kind=AVAILABILITY_SET), MARKER, id="an availability set"),
        pytest.param(resource(BAD, kind="Microsoft.Compute/cloudServices"), MARKER, id="a cloud service"),
        pytest.param(
            resource("[concat('none/', parameters('word'))]", kind=f"{VM}/extensions"),
            MARKER,
            id="an extension of no machine",
        ),
        pytest.param(
            resource("[parameters('word')]", kind=VM, resourceGroup="[parameters('word')]"),
            MARKER,
            id="a group that does not exist",
        ),
        pytest.param(resource(BAD, kind=NESTED, properties={}), MARKER, id="a deployment"),
        pytest.param(
            inner("inner", template(resource(BAD, kind=VM), parameters=WORD)),
            MARKER,
            id="a machine of a deployment inside another",
        ),
        pytest.param(
            inner("inner", template(resource(BAD, kind=VM), parameters={"word": {"type": "string"}})),
            MARKER,
            id="a machine of a deployment that does not know it is secret",
        ),
        pytest.param(resource(BAD, kind=VM), f"{MARKER}\n\N{ZERO WIDTH SPACE}", id="with hidden characters"),
        pytest.param(resource(BAD, kind=VM), f"{MARKER}'\"\\", id="with quotes"),
        pytest.param(resource(BAD, kind=VM), MARKER * 40, id="longer than what is kept of a name"),
        pytest.param(resource(BAD, kind=VM), MARKER * 4000, id="longer than what is searched"),
    ],
)
def test_a_secret_in_the_name_of_a_refused_resource_comes_out_by_no_way(
    everything: Everything, tmp_path: Path, caplog: pytest.LogCaptureFixture, written: Json, word: str
) -> None:
    caplog.set_level("DEBUG")
    azure, engine = everything.azure, everything.azure.fleet.engine
    known = KnownFleet(engine.scopes())
    with engine.feed.subscribe() as feed:
        response = azure.put(ONE, body(template(written, parameters=WORD), word=word))
        entries = run(feed.next_batch(timedelta(0)))
    state = facts(azure, "provisioningState")

    older = f"{ROOT}/deployments/one/operations"
    managed = (ONE, f"{ONE}/operations", older, NESTED, ROOT, f"{ROOT}/resources")
    outputs = [
        json.dumps(response.body),
        *(json.dumps(azure.get(path)) for path in managed),
        *everything.read_fleet(),
        str(entries),
        str([line.message for line in lines_of(entries, known)]),
        caplog.text,
        everything.back_up(tmp_path / "fleet.backup"),
    ]

    assert state == "Failed"
    assert "***" in json.dumps(azure.get(f"{ONE}/operations"))
    assert [text for text in outputs if MARKER.lower() in text.lower()] == []
    everything.close()
    files = [path for path in everything.directory.rglob("*") if path.is_file()]
    assert [path.name for path in files if MARKER.lower().encode() in path.read_bytes().lower()] == []


@pytest.mark.rule("T-42")
def test_the_name_of_a_resource_that_exists_is_no_secret(everything: Everything) -> None:
    azure = everything.azure
    written = template(resource("[parameters('word')]"), parameters=WORD)

    azure.put(ONE, body(written, word=MARKER))

    (operation,) = listed(at(azure.get(f"{ONE}/operations"), "value"))
    assert at(operation, "properties", "targetResource", "resourceName") == MARKER
    assert at(azure.get(f"Microsoft.Network/virtualNetworks/{MARKER}"), "name") == MARKER


def test_a_type_that_is_unknown_is_refused_without_the_secret_in_it(everything: Everything) -> None:
    written = template(resource("a", kind="[concat('Microsoft.None/', parameters('word'))]"), parameters=WORD)

    status, code, message = everything.azure.refused("PUT", ONE, body(written, word=MARKER))

    assert (status, code) == (400, "NoRegisteredProviderFound")
    assert "for type 'Microsoft.None/***'" in message


def test_a_text_that_takes_too_long_to_search_is_blank() -> None:
    secrets = [f"secret {number}" for number in range(1000)]

    assert redacted_text("a" * (MOST_COMPARED // 1000), secrets).startswith("aaa")
    assert redacted_text("a" * (MOST_COMPARED // 1000 + 1), secrets) == "***"
