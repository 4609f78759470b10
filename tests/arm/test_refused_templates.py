"""Invalid templates are refused before anything is deployed, with the place and the problem."""

import pytest

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.core.document.render import Json
from tests.arm.cloud import Cloud, resource, template


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param(None, "template: a template must be an object, not null", id="no template"),
        pytest.param([], "template: a template must be an object, not an array", id="an array"),
        pytest.param(
            {"resources": {}}, "template: resources must be an array, not an object", id="an object"
        ),
        pytest.param(
            {"variables": 3}, "template: variables must be an object, not an integer", id="variables"
        ),
        pytest.param(template("a"), "template: a resource must be an object, not a string", id="a word"),
        pytest.param(
            template({}), "resource None: its type must be a string, not null", id="an empty resource"
        ),
        pytest.param(
            template({"type": "A/b", "name": "x"}),
            "resource x: its apiVersion must be a string, not null",
            id="no api-version",
        ),
        pytest.param(
            template(resource("a/b")),
            "resource a/b: the type 'Microsoft.Network/virtualNetworks' and the name 'a/b' do not match",
            id="a name with too many parts",
        ),
        pytest.param(
            template(resource("a", "b")),
            "resource a: the template does not define the resource 'b'",
            id="a dependency on nothing",
        ),
        pytest.param(
            template(resource("a", 3)),
            "resource a: what it depends on must be a string, not an integer",
            id="a dependency on a number",
        ),
        pytest.param(
            template(resource("a", "b"), resource("b", "a")),
            "template: circular dependency between resources: ",
            id="a circle",
        ),
        pytest.param(
            template(resource("a", "a")),
            "template: circular dependency between resources: a -> a",
            id="a resource that waits for itself",
        ),
        pytest.param(
            template(resource("a"), resource("A")), "resource A: the template defines it twice", id="twice"
        ),
        pytest.param(
            template(resource("a", condition="yes")),
            "resource a: its condition must be a boolean, not a string",
            id="a condition that is no claim",
        ),
        pytest.param(
            template(resource("a", properties={"key": "[listKeys('x')]"})),
            "resource a: the template function 'listKeys' is not supported",
            id="an unknown function",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[if(true(), reference('/x'), oops())]"})),
            "resource a: the template function 'oops' is not supported",
            id="an unknown function that would never be called",
        ),
        pytest.param(
            template(outputs={"said": {"type": "string", "value": "[oops()]"}}),
            "output said: the template function 'oops' is not supported",
            id="an unknown function in an output",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[parameters('x')]"})),
            "resource a: the template declares no parameter 'x'",
            id="an unknown parameter",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[variables('x')]"})),
            "resource a: the template declares no variable 'x'",
            id="an unknown variable",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[resourceGroup().x]"})),
            "resource a: there is no property 'x' among id, name, location",
            id="an unknown property",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[resourceId('x')]"})),
            "resource a: resourceId: takes at least 2 arguments, not 1",
            id="an id of nothing",
        ),
        pytest.param(
            template(resource("a", properties={"k": "[copyIndex()]"})),
            "resource a: copyIndex: there is no loop around it",
            id="an index outside a loop",
        ),
        pytest.param(
            template(resource("a", copy={"name": "l", "count": 801})),
            "resource a: the count of a copy must be an integer from 0 to 800",
            id="a loop with too many rounds",
        ),
        pytest.param(
            template(resource("a", copy={"name": "l", "count": "[variables('n')]"}), variables={"n": "3"}),
            "resource a: the count of a copy must be an integer from 0 to 800",
            id="a loop that counts in words",
        ),
        pytest.param(
            template(resource("a", copy={"count": 1})),
            "resource a: the name of a copy must be a string, not null",
            id="a loop without a name",
        ),
        pytest.param(
            template(
                *(resource(f"[concat('{n}', copyIndex())]", copy={"name": n, "count": 500}) for n in "ab")
            ),
            "template: it has more than 800 resources",
            id="too many resources",
        ),
        pytest.param(
            template(
                resource("[variables('a')]"), variables={"a": "[variables('b')]", "b": "[variables('a')]"}
            ),
            "variable a: it depends on itself",
            id="variables in a circle",
        ),
        pytest.param(
            template(
                resource("[variables('v0')]"),
                variables={f"v{n}": f"[variables('v{n + 1}')]" for n in range(999)},
            ),
            "it nests too deeply",
            id="variables that lean on each other without end",
        ),
    ],
)
def test_a_bad_template_is_refused_with_the_place_and_the_problem(
    cloud: Cloud, wrong: Json, problem: str
) -> None:
    with pytest.raises(InvalidTemplateError) as refused:
        cloud.plan(wrong)

    assert problem in str(refused.value)
    assert refused.value.place


def test_a_document_that_nests_without_end_is_refused(cloud: Cloud) -> None:
    bottomless: Json = "x"
    for _ in range(2000):
        bottomless = [bottomless]

    with pytest.raises(InvalidTemplateError, match="resource a: it has more than 64 levels of nesting"):
        cloud.plan(template(resource("a", properties=bottomless)))


def test_a_few_lines_cannot_ask_for_a_whole_memory(cloud: Cloud) -> None:
    doubling: Json = {
        f"v{n}": f"[createArray(variables('v{n + 1}'), variables('v{n + 1}'))]" for n in range(40)
    }
    assert isinstance(doubling, dict)
    doubling["v40"] = "x"

    with pytest.raises(InvalidTemplateError, match="it evaluates to more than"):
        cloud.plan(template(resource("a", properties={"all": "[variables('v0')]"}), variables=doubling))


@pytest.mark.parametrize(
    ("declared", "given", "problem"),
    [
        pytest.param({"type": "int"}, None, "no value is given, and it has no defaultValue", id="missing"),
        pytest.param({"type": "int"}, {"n": {}}, "no value is given, and it has no defaultValue", id="empty"),
        pytest.param({"type": "int"}, {"n": 3}, "what is given for it must be an object", id="bare"),
        pytest.param(
            {"type": "int"}, {"n": {"value": "3"}}, "must be of type int, not a string", id="a word"
        ),
        pytest.param(
            {"type": "int"}, {"n": {"value": True}}, "must be of type int, not a boolean", id="a claim"
        ),
        pytest.param(
            {"type": "real"},
            {"n": {"value": 1}},
            "its type 'real' is not a parameter type",
            id="no such type",
        ),
        pytest.param({}, {"n": {"value": 1}}, "its type must be a string, not null", id="no type"),
        pytest.param(
            {"type": "int", "allowedValues": [1, 2]},
            {"n": {"value": 3}},
            "its value is not among the allowedValues",
            id="not allowed",
        ),
        pytest.param(
            {"type": "int"}, {"n": {"reference": {}}}, "key vaults are not supported", id="in a key vault"
        ),
        pytest.param(
            {"type": "string", "defaultValue": "[parameters('n')]"},
            None,
            "it depends on itself",
            id="a circle",
        ),
    ],
)
def test_a_parameter_is_refused_by_name(cloud: Cloud, declared: Json, given: Json, problem: str) -> None:
    with pytest.raises(InvalidTemplateError) as refused:
        cloud.plan(template(parameters={"n": declared}), given)

    assert str(refused.value).startswith("parameter n: ")
    assert problem in str(refused.value)


def test_a_value_for_a_parameter_that_is_not_declared_is_refused(cloud: Cloud) -> None:
    with pytest.raises(InvalidTemplateError, match="parameter x: a value is given"):
        cloud.plan(template(), {"x": {"value": 1}})


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param(
            "reference('/x/y')", "output it: reference: the resource /x/y does not exist", id="no such id"
        ),
        pytest.param(
            "reference('x')", "output it: the template does not define the resource 'x'", id="no such name"
        ),
        pytest.param(
            "reference('loop')", "output it: reference: 'loop' stands for 2 resources", id="a whole loop"
        ),
    ],
)
def test_a_reference_to_nothing_is_refused(cloud: Cloud, expression: str, problem: str) -> None:
    loop = resource("[concat('a', copyIndex())]", copy={"name": "loop", "count": 2})
    outputs: Json = {"it": {"type": "string", "value": f"[{expression}]"}}

    with pytest.raises(InvalidTemplateError) as refused:
        cloud.outputs(template(loop, outputs=outputs))

    assert problem in str(refused.value)


def test_a_body_asked_for_too_early_is_refused(cloud: Cloud) -> None:
    asks = resource("a", properties={"seen": "[reference('b').range]"})

    _, planned = cloud.plan(template(asks, resource("b")))

    with pytest.raises(
        InvalidTemplateError, match=r"resource a: reference: the resource .*/b does not exist"
    ):
        planned.body()
