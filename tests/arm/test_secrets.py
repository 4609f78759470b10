"""Secrets are neither returned nor stored where the journal could show them."""

import json

import pytest

from fairwarning.arm.documents import deep_merge
from fairwarning.core.document.render import Json
from fairwarning.store.memory import MemoryStore
from tests.arm.azure import ROOT, Azure, at
from tests.arm.cloud import resource, template
from tests.arm.deploying import ONE, SET, VMSS, body, deploy, deploy_set, deployable, facts
from tests.fleet_harness import run, span
from tests.store.gate import Gate

VM = "Microsoft.Compute/virtualMachines/db"
CONNECTION = "Microsoft.Network/connections/office"
KEY = f"{ROOT}/providers/{ONE}"


@pytest.fixture
def azure() -> Azure:
    return deployable()


def stored(azure: Azure) -> str:
    """Return all texts that are stored with the fleet."""
    return json.dumps(dict(azure.fleet.engine.texts()))


@pytest.mark.parametrize(
    ("path", "properties"),
    [
        pytest.param(VM, {"osProfile": {"adminPassword": "hunter2"}}, id="the password of a machine"),
        pytest.param(VM, {"osProfile": {"customData": "hunter2"}}, id="the custom data of a machine"),
        pytest.param(
            f"{VMSS}/web",
            {"virtualMachineProfile": {"osProfile": {"adminPassword": "hunter2"}}},
            id="the password of a scale set",
        ),
        pytest.param(
            f"{VMSS}/web",
            {
                "virtualMachineProfile": {
                    "extensionProfile": {
                        "extensions": [{"properties": {"protectedSettings": {"key": "hunter2"}}}]
                    }
                }
            },
            id="the protected settings of a set's extension",
        ),
        pytest.param(
            f"{VM}/extensions/script",
            {"settings": {}, "protectedSettings": {"key": "hunter2"}},
            id="the protected settings of an extension",
        ),
        pytest.param(CONNECTION, {"sharedKey": "hunter2"}, id="the key of a connection"),
        pytest.param(CONNECTION, {"SHAREDKEY": "hunter2"}, id="a key in capitals"),
        pytest.param(CONNECTION, {"authorizationKey": "hunter2"}, id="the key of a circuit"),
        pytest.param(
            "Microsoft.Network/applicationGateways/front",
            {"sslCertificates": [{"name": "one", "properties": {"password": "hunter2"}}]},
            id="the password of a certificate",
        ),
        pytest.param(
            "Microsoft.Network/virtualNetworkGateways/vpn",
            {"vpnClientConfiguration": {"radiusServers": [{"radiusServerSecret": "hunter2"}]}},
            id="the secret of a RADIUS server",
        ),
        pytest.param(
            VM,
            {
                "osProfile": {
                    "windowsConfiguration": {"additionalUnattendContent": [{"content": "<p>hunter2</p>"}]}
                }
            },
            id="what Windows is set up with",
        ),
    ],
)
def test_a_secret_is_neither_stored_nor_returned(azure: Azure, path: str, properties: Json) -> None:
    if "/extensions/" in path:
        azure.put(path.partition("/extensions/")[0], {"location": "westeurope"})

    response = azure.put(path, {"properties": properties})

    assert "hunter2" not in stored(azure)
    assert "hunter2" not in json.dumps(response.body) + json.dumps(azure.get(path))


def test_a_deployment_stores_no_secret_while_it_runs() -> None:
    gate = Gate(MemoryStore())
    azure = deployable(gate)

    deploy(azure, SET, count=1, adminPassword="hunter2")

    texts = [str(batch) for batch in gate.batches]
    assert any(KEY.lower() in text and "result" not in text for text in texts)
    assert not any("hunter2" in text for text in texts)


def test_the_value_of_a_secret_output_is_not_returned(azure: Azure) -> None:
    outputs: Json = {
        "open": {"type": "string", "value": "shown"},
        "hidden": {"type": "secureString", "value": "[parameters('word')]"},
    }
    written = template(parameters={"word": {"type": "secureString"}}, outputs=outputs)

    deploy(azure, written, word="hunter2")

    assert facts(azure, "outputs") == {
        "open": {"type": "String", "value": "shown"},
        "hidden": {"type": "SecureString"},
    }
    assert "hunter2" not in stored(azure)


WORD: Json = {"word": {"type": "secureString"}}
INNER = template(
    parameters={"open": {"type": "string"}},
    outputs={"it": {"type": "string", "value": "[parameters('open')]"}},
)


@pytest.mark.rule("T-42")
@pytest.mark.parametrize(
    ("written", "given"),
    [
        pytest.param(
            template(
                resource("net", tags={"a": "[concat('word=', parameters('word'))]"}, location="westeurope"),
                parameters=WORD,
            ),
            "hunter2",
            id="in a resource",
        ),
        pytest.param(
            template(
                resource("db", kind="Microsoft.Compute/virtualMachines", tags={"a": "[parameters('word')]"}),
                parameters=WORD,
            ),
            "hunter2",
            id="in the tag of a machine",
        ),
        pytest.param(
            template(
                parameters={"word": {"type": "secureObject"}},
                outputs={"it": {"type": "secureObject", "value": "[json(parameters('word').in[0])]"}},
            ),
            {"in": ["hunter2{"]},
            id="in an output that is not JSON",
        ),
        pytest.param(
            template(parameters=WORD, outputs={"it": {"type": "int", "value": "[int(parameters('word'))]"}}),
            "hunter2",
            id="in an output that is not a number",
        ),
        pytest.param(
            template(
                parameters=WORD,
                outputs={"it": {"type": "string", "value": "[string(createArray(parameters('word')))]"}},
            ),
            'hunter2"',
            id="in an open output",
        ),
        pytest.param(
            template(
                parameters=WORD,
                outputs={"it": {"type": "string", "value": "[reference(parameters('word'))]"}},
            ),
            "hunter2",
            id="in the name of nothing",
        ),
        pytest.param(
            template(
                parameters=WORD,
                outputs={"it": {"type": "string", "value": "[reference(parameters('word'))]"}},
            ),
            "hunter2" * 1000,
            id="in a message that is cut",
        ),
        pytest.param(
            template(
                resource(
                    "inner",
                    kind="Microsoft.Resources/deployments",
                    properties={
                        "mode": "Incremental",
                        "expressionEvaluationOptions": {"scope": "inner"},
                        "template": template(resource("[reference(parameters('word'))]"), parameters=WORD),
                        "parameters": {"word": {"value": "hunter2"}},
                    },
                ),
                parameters=WORD,
            ),
            "another secret",
            id="in a deployment that is refused",
        ),
        pytest.param(
            template(
                resource(
                    "web",
                    kind=VMSS,
                    sku={"name": "Standard_D2s_v3", "capacity": 1},
                    properties={
                        "virtualMachineProfile": {
                            "scheduledEventsProfile": {
                                "terminateNotificationProfile": {
                                    "enable": True,
                                    "notBeforeTimeout": "[parameters('word')]",
                                }
                            }
                        }
                    },
                ),
                parameters=WORD,
            ),
            "hunter2",
            id="in a value that is refused",
        ),
        pytest.param(
            template(
                resource(
                    "inner",
                    kind="Microsoft.Resources/deployments",
                    properties={
                        "mode": "Incremental",
                        "expressionEvaluationOptions": {"scope": "inner"},
                        "template": INNER,
                        "parameters": {"open": {"value": "[parameters('word')]"}},
                    },
                ),
                parameters=WORD,
            ),
            "hunter2",
            id="in a deployment that does not know it is secret",
        ),
    ],
)
def test_the_secret_of_a_template_is_nowhere(
    written: Json, given: Json, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    gate = Gate(MemoryStore())
    azure = deployable(gate)

    deploy(azure, written, word=given)

    assert facts(azure, "provisioningState") in ("Succeeded", "Failed")
    assert "hunter2" not in stored(azure) + "".join(str(batch) for batch in gate.batches)
    assert "hunter2" not in str(run(gate.journal())) + caplog.text


@pytest.mark.rule("T-42")
def test_a_secret_that_a_template_declares_itself_is_nowhere(azure: Azure) -> None:
    written = template(
        resource("net", tags={"a": "[parameters('word')]"}),
        parameters={"word": {"type": "secureString", "defaultValue": "[concat('hun', 'ter2')]"}},
    )

    deploy(azure, written)

    assert facts(azure, "provisioningState") == "Succeeded"
    assert "hunter2" not in stored(azure)


def test_more_secrets_than_can_be_looked_for_are_refused(azure: Azure) -> None:
    written = template(resource("net"), parameters={"words": {"type": "secureObject"}})
    many: Json = {"in": [f"secret {number}" for number in range(30_000)]}

    assert azure.refused("PUT", ONE, body(written, words=many))[0] == 400
    assert azure.context.committed().document(KEY) is None


def test_a_secret_breaks_no_reference_and_no_short_word(azure: Azure) -> None:
    net = f"{ROOT}/providers/Microsoft.Network/virtualNetworks/testing"
    written = template(
        resource("testing"),
        resource("out", "testing", tags={"to": net, "a": "b", "test": "the test"}),
        parameters={"first": {"type": "secureString"}, "second": {"type": "secureString"}},
    )

    deploy(azure, written, first="test", second="b")

    tags = at(azure.get("Microsoft.Network/virtualNetworks/out"), "tags")
    assert tags == {"to": net, "a": "b", "test": "the ***"}


def interrupted(azure: Azure) -> None:
    """Leave a deployment as a server does that stops while it deploys."""
    deploy_set(azure)
    done = azure.context.committed().document(KEY)
    assert done is not None
    correlation = at(done, "properties", "correlationId")
    work: Json = {"template": SET, "parameters": {"count": {"value": 3}, "adminPassword": {"value": "s"}}}
    azure.keep({KEY: {name: value for name, value in done.items() if name != "result"}})
    run(azure.fleet.store.put_value(f"deployment:{correlation}", json.dumps(work)))


def test_an_interrupted_deployment_goes_on_with_what_was_kept_apart(azure: Azure) -> None:
    interrupted(azure)

    azure.restart()

    assert len(azure.fleet.machines("lab/web")) == 3
    assert facts(azure, "provisioningState") == "Succeeded"


def test_what_was_kept_apart_goes_when_the_deployment_is_done(azure: Azure) -> None:
    deploy_set(azure)

    correlation = facts(azure, "correlationId")

    assert not run(azure.fleet.store.get_value(f"deployment:{correlation}"))


def test_a_deployment_of_which_nothing_was_kept_has_failed(azure: Azure) -> None:
    interrupted(azure)
    run(azure.fleet.store.put_value(f"deployment:{facts(azure, 'correlationId')}", None))

    azure.restart()

    assert facts(azure, "provisioningState") == "Failed"
    assert facts(azure, "error", "details", 0, "code") == "DeploymentInterrupted"


def test_a_deployment_inside_another_goes_on_with_it(azure: Azure) -> None:
    nested = resource(
        "inner",
        kind="Microsoft.Resources/deployments",
        properties={"mode": "Incremental", "template": template(resource("net"))},
    )
    azure.put(ONE, body(template(nested)))
    inner = f"{ROOT}/providers/Microsoft.Resources/deployments/inner"
    for key in (KEY, inner):
        document = azure.context.committed().document(key)
        assert document is not None
        azure.keep({key: {name: value for name, value in document.items() if name != "result"}})
    correlation = facts(azure, "correlationId")
    work: Json = {"template": template(nested), "parameters": None}
    run(azure.fleet.store.put_value(f"deployment:{correlation}", json.dumps(work)))

    azure.restart()

    assert facts(azure, "provisioningState") == "Succeeded"
    assert at(azure.get(inner), "properties", "provisioningState") == "Succeeded"


def test_nothing_is_kept_of_an_interrupted_deployment_whose_group_is_gone(azure: Azure) -> None:
    interrupted(azure)
    correlation = facts(azure, "correlationId")
    azure.delete(f"{ROOT}?forceDeletionTypes={VMSS}")
    azure.fleet.clock.set(azure.fleet.now + span("10s"))
    run(azure.fleet.engine.tick())

    azure.restart()

    assert azure.context.committed().document(KEY) is None
    assert not run(azure.fleet.store.get_value(f"deployment:{correlation}"))


def test_documents_of_an_earlier_release_lose_their_secrets_when_the_server_starts(azure: Azure) -> None:
    azure.put(VM, {"location": "westeurope"})
    azure.put(f"{VMSS}/web", {"sku": {"name": "Standard_D2s_v3", "capacity": 1}})
    settings: dict[str, Json] = {"properties": {"protectedSettings": {"key": "hunter2"}, "publisher": "kept"}}
    profile: Json = {"userData": "hunter2", "extensionProfile": {"extensions": [{"name": "one", **settings}]}}
    old: dict[str, Json] = {
        VM: {"properties": {"userData": "hunter2"}},
        f"{VMSS}/web": {"properties": {"virtualMachineProfile": profile}},
        f"{VM}/extensions/script": {"name": "script", **settings},
        CONNECTION: {"name": "office", "properties": {"sharedKey": "hunter2"}},
    }
    for path, secret in old.items():
        key = f"{ROOT}/providers/{path}"
        document = deep_merge(azure.context.committed().document(key) or {}, secret)
        assert isinstance(document, dict)
        azure.keep({key: document})

    azure.restart()

    assert "hunter2" not in stored(azure)
    assert at(azure.get(f"{VM}/extensions/script"), "properties", "publisher") == "kept"
    assert azure.names(f"{VMSS}/web/extensions") == ["one"]


def test_the_names_of_tags_are_the_user_s_own(azure: Azure) -> None:
    tags: Json = {"password": "none", "userData": "no"}

    azure.put(VM, {"location": "westeurope", "tags": tags})

    assert at(azure.get(VM), "tags") == tags
