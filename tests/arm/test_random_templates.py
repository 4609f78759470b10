"""Random templates are deployed or refused, within their budget."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import Budget
from fairwarning.arm.templates.coercion import coerce
from fairwarning.arm.templates.functions import PURE
from fairwarning.core.document.render import Json, compact_json
from tests.arm.cloud import Cloud

FUNCTIONS = [
    *PURE,
    "parameters",
    "variables",
    "reference",
    "resourceId",
    "copyIndex",
    "resourceGroup",
    "nothing",
]
LEAVES = some.sampled_from(
    [
        *(
            "'a'",
            "''",
            "'{0}{1:D9}'",
            "'v'",
            "'p'",
            "'l'",
            "'a,b,,c'",
            "','",
            "'Microsoft.Network/x'",
            "'/a/b'",
        ),
        *("0", "-1", "2", "800", "131072", "9223372036854775807", "true()", "null()", "variables('v')"),
        *("json('[[1, {\"a\": []}], 1.5]')", "json('\"\\ud83d\"')", 'json(\'{"a": {"b": 1}}\')'),
        *("padLeft('', 131072, 'x')", "createArray()", "copyIndex('l')", "reference('a0')"),
    ]
)


def called(arguments: some.SearchStrategy[str]) -> some.SearchStrategy[str]:
    lists = some.lists(arguments, max_size=4).map(", ".join)
    calls = some.builds("{}({})".format, some.sampled_from(FUNCTIONS), lists)
    return calls | some.builds("{}[{}]".format, calls, arguments) | some.builds("{}.a".format, calls)


EXPRESSIONS = some.recursive(LEAVES, called, max_leaves=12).map("[{}]".format)
SCALARS = EXPRESSIONS | some.text(max_size=6) | some.integers() | some.booleans() | some.none()


def grown(inner: some.SearchStrategy[Json]) -> some.SearchStrategy[Json]:
    loops = some.fixed_dictionaries(
        {
            "name": some.sampled_from(["l", "m", "[concat('l')]"]),
            "count": some.sampled_from([0, 2, 800, "[length('ab')]"]) | EXPRESSIONS,
            "input": inner,
        }
    )
    named = some.dictionaries(
        some.sampled_from(["a", "b", "copy", "properties"]) | EXPRESSIONS, inner, max_size=3
    )
    return some.lists(inner, max_size=3) | named | some.builds(lambda loop: {"copy": [loop]}, loops)


DOCUMENTS: some.SearchStrategy[Json] = some.recursive(SCALARS, grown, max_leaves=8)
RESOURCES = some.fixed_dictionaries(
    {
        "type": some.sampled_from(["Microsoft.Network/virtualNetworks", "Microsoft.Resources/deployments"]),
        "name": some.sampled_from(["a0", "[concat('a', copyIndex())]"]) | EXPRESSIONS,
        "apiVersion": some.just("2022-01-01"),
    },
    optional={
        "copy": some.fixed_dictionaries({"name": some.just("l"), "count": some.sampled_from([1, 3, 800])}),
        "condition": some.booleans() | EXPRESSIONS,
        "dependsOn": some.lists(some.sampled_from(["a0", "l"]) | EXPRESSIONS, max_size=2),
        "properties": DOCUMENTS,
        "tags": DOCUMENTS,
    },
)
TEMPLATES = some.fixed_dictionaries(
    {"resources": some.lists(RESOURCES, max_size=3) | DOCUMENTS},
    optional={
        "variables": some.fixed_dictionaries({"v": DOCUMENTS}) | DOCUMENTS,
        "parameters": some.fixed_dictionaries(
            {"p": some.fixed_dictionaries({"type": some.just("string"), "defaultValue": EXPRESSIONS})}
        )
        | DOCUMENTS,
        "outputs": some.fixed_dictionaries(
            {"o": some.fixed_dictionaries({"type": some.just("string"), "value": DOCUMENTS})}
        )
        | DOCUMENTS,
    },
)


@settings(max_examples=75)
@given(TEMPLATES | DOCUMENTS)
def test_every_template_is_deployed_or_refused_within_its_budget(template: Json) -> None:
    check_template(template)


@pytest.mark.slow
@settings(max_examples=300)
@given(TEMPLATES | DOCUMENTS)
def test_each_of_many_templates_is_deployed_or_refused_within_its_budget(template: Json) -> None:
    check_template(template)


def check_template(template: Json) -> None:
    """Deploy a template, which succeeds or is refused as invalid, and costs no more than its budget."""
    cloud = Cloud()
    cloud.budget = Budget(lambda: 0.0, steps=5_000, size=1_000_000)

    with suppress(InvalidTemplateError):
        for document in cloud.deploy(template).values():
            compact_json(coerce(document))
        compact_json(cloud.outputs(template))
