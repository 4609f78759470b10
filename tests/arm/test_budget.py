"""The budget of a template: steps, characters, CPU time, and the error when one runs out."""

from collections.abc import Callable

import pytest

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import SECONDS, SIZE, STEPS, Budget, OverBudgetError
from fairwarning.core.document.render import Json
from tests.arm.cloud import Cloud, resource, template
from tests.arm.deploying import DEPLOYMENTS, ONE, body, deploy, deployable, facts

NESTED = template(
    resource(
        "[concat('a', copyIndex())]",
        copy={"name": "many", "count": 800},
        properties={"copy": [{"name": "p", "count": 800, "input": {"k": "[copyIndex('p')]"}}]},
    )
)
NESTED_PROPERTIES = template(
    resource(
        "a",
        properties={
            "copy": [
                {
                    "name": "p",
                    "count": 800,
                    "input": {"copy": [{"name": "q", "count": 800, "input": "[copyIndex('q')]"}]},
                }
            ]
        },
    )
)
SPLIT = template(
    resource("a", properties={"parts": "[split(variables('text'), variables('marks'))]"}),
    variables={"text": "a" * 20_000, "marks": [f"{'a' * (n % 50)}b{n}" for n in range(800)]},
)
SPLIT_OFTEN = template(
    resource("a", properties=["[length(split(variables('text'), ','))]"] * 800),
    variables={"text": "," * 16_000},
)
LARGE = template(
    resource(
        "[concat('a', copyIndex())]",
        copy={"name": "many", "count": 800},
        properties={"copy": [{"name": "p", "count": 7, "input": "[padLeft('', 131072)]"}]},
    )
)
SAME = template(
    resource(
        "[concat('a', copyIndex())]",
        copy={"name": "many", "count": 800},
        properties={"text": "x" * 100_000},
    )
)
MEMBERS = template(
    resource("a", properties=["[variables('all').KEY7]"] * 800),
    variables={"all": {f"key{n}": n for n in range(5_000)}},
)
DEPENDENCIES = template(
    resource("[concat('n', copyIndex())]", copy={"name": "n", "count": 600}),
    *(resource(f"m{number}", *(["n"] * 600)) for number in range(150)),
)
#: Small, so that no test waits for what is the same with more.
FEW, LITTLE = 50_000, 2_000_000
STEPS_RAN_OUT, SIZE_RAN_OUT = f"more than {FEW} steps", f"more than {LITTLE} characters"


@pytest.mark.parametrize(
    ("hostile", "which", "where"),
    [
        pytest.param(NESTED, STEPS_RAN_OUT, "resource a", id="a loop in a loop"),
        pytest.param(NESTED_PROPERTIES, STEPS_RAN_OUT, "resource a", id="a loop in a property's loop"),
        pytest.param(SPLIT, STEPS_RAN_OUT, "[split(variables('text'), ", id="a split at many marks"),
        pytest.param(SPLIT_OFTEN, STEPS_RAN_OUT, "[length(split(", id="many splits of one text"),
        pytest.param(LARGE, SIZE_RAN_OUT, "resource a", id="large values in a loop"),
        pytest.param(SAME, SIZE_RAN_OUT, "resource a", id="a large text that is only repeated"),
        pytest.param(MEMBERS, STEPS_RAN_OUT, "[variables('all').KEY7]", id="members in another case"),
        pytest.param(DEPENDENCIES, STEPS_RAN_OUT, "resource m", id="everything depends on a loop"),
    ],
)
def test_a_template_that_costs_too_much_is_refused_where_its_budget_ran_out(
    hostile: Json, which: str, where: str
) -> None:
    failures = []
    for cloud in (Cloud(), Cloud()):
        cloud.budget = Budget(lambda: 0.0, steps=FEW, size=LITTLE)
        with pytest.raises(OverBudgetError) as refused:
            cloud.plan(hostile)
        failures.append((str(refused.value), cloud.budget.steps, cloud.budget.size))

    assert which in failures[0][0]
    assert where in failures[0][0]
    assert failures[0] == failures[1]


def test_what_would_be_too_large_is_refused_before_it_is_made(cloud: Cloud) -> None:
    many = ", ".join(["variables('v')"] * 900)
    huge = template(
        resource("a", properties={"n": f"[length(concat({many}))]"}),
        variables={"copy": [{"name": "v", "count": 800, "input": "[createArray(1, 2, 3)]"}]},
    )
    cloud.budget = Budget(lambda: 0.0, size=200_000)

    with pytest.raises(OverBudgetError, match=r"more than 200000 characters; .*\[length\(concat\("):
        cloud.plan(huge)


class Ticking:
    """A CPU clock that advances with every reading."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def test_a_template_that_takes_too_long_is_refused_where_its_time_ran_out(cloud: Cloud) -> None:
    cloud.budget = Budget(Ticking(SECONDS / 50))

    with pytest.raises(OverBudgetError) as refused:
        cloud.plan(template(resource("a", properties=["[toUpper('b')]"] * 100)))

    assert str(refused.value) == (
        "resource a: the template takes more than 1 s of CPU time; "
        "it ran out in the expression [toUpper('b')]"
    )


def test_time_that_others_take_between_two_evaluations_is_not_counted() -> None:
    cloud = Cloud()
    (planned,) = cloud.plan(template(resource("a", properties={"k": "[toUpper('b')]"})))

    cloud.cpu += 60

    assert planned.body()["properties"] == {"k": "B"}


def test_a_budget_that_ran_out_in_a_reference_is_not_taken_for_a_reference_to_elsewhere(cloud: Cloud) -> None:
    asks = resource("a", properties={"k": "[reference(concat('/x', string(variables('v')))).y]"})
    cloud.budget = Budget(lambda: 0.0, steps=300)

    with pytest.raises(OverBudgetError):
        cloud.plan(template(asks, variables={"copy": [{"name": "v", "count": 200, "input": "x"}]}))


def variables(count: int) -> Json:
    return template(
        resource("a", properties=[f"[variables('V{n}')]" for n in range(count)]),
        variables={f"v{n}": n for n in range(count)},
    )


def parameters(count: int) -> Json:
    declared: Json = {f"p{n}": {"type": "int", "defaultValue": n} for n in range(count)}
    return template(parameters=declared)


def characters(call: str) -> Callable[[int], Json]:
    return lambda count: template(
        resource("a", properties={"k": f"[length({call})]"}), variables={"t": "a,b " * count, "n": count}
    )


def joined(count: int) -> Json:
    arguments = ", ".join(["variables('o')"] * count)
    return template(
        resource("a", properties={"k": f"[length(union({arguments}))]"}), variables={"o": {"k": {"l": 1}}}
    )


def chained(count: int) -> Json:
    return template(*(resource(f"a{n}", *([f"a{n - 1}"] if n else [])) for n in range(count)))


@pytest.mark.parametrize(
    "grown",
    [
        pytest.param(variables, id="variables"),
        pytest.param(parameters, id="parameters"),
        pytest.param(characters("split(variables('t'), ',')"), id="split at one mark"),
        pytest.param(characters("split(variables('t'), createArray(',', ' '))"), id="split at two"),
        pytest.param(characters("replace(variables('t'), ',', ';;')"), id="replace"),
        pytest.param(characters("concat(variables('t'), variables('t'))"), id="concat"),
        pytest.param(characters("format('{0}{0}', variables('t'))"), id="format"),
        pytest.param(characters("padLeft('', variables('n'))"), id="padLeft"),
        pytest.param(characters("string(split(variables('t'), ' '))"), id="string"),
        pytest.param(characters("json(string(split(variables('t'), ' ')))"), id="json"),
        pytest.param(joined, id="union"),
        pytest.param(chained, id="a chain of resources"),
    ],
)
def test_twice_as_much_costs_twice_as_much(grown: Callable[[int], Json]) -> None:
    costs = []
    for count in (400, 800):
        cloud = Cloud()
        cloud.plan(grown(count))
        costs.append((cloud.budget.steps, cloud.budget.size))

    (steps, size), (more_steps, more_size) = costs
    assert more_steps <= 2.2 * steps
    assert more_size <= 2.2 * size


def test_an_array_that_is_only_passed_on_is_paid_for_once(cloud: Cloud) -> None:
    passed = template(
        resource("a", properties=["[length(variables('v'))]"] * 500), variables={"v": ["x" * 100] * 1_000}
    )

    cloud.plan(passed)

    assert cloud.budget.size < 1_000_000


def test_a_template_of_800_resources_has_enough(cloud: Cloud) -> None:
    machine: Json = {
        "osProfile": {"computerName": "[concat('vm-', copyIndex())]", "customData": "A" * 1_000},
        "zone": "[if(equals(mod(copyIndex(), 2), 0), variables('zones')[0], variables('zones')[1])]",
        "nic": "[resourceId('Microsoft.Network/networkInterfaces', format('nic-{0}', copyIndex()))]",
    }
    usual = template(
        resource("[format('vm-{0}', copyIndex())]", copy={"name": "vms", "count": 800}, properties=machine),
        variables={"zones": ["1", "2"]},
    )

    cloud.deploy(usual)
    cloud.outputs(usual)

    assert cloud.budget.steps < STEPS / 4
    assert cloud.budget.size < SIZE / 4


@pytest.mark.parametrize("text", ['"\\ud800"', "1e999", "-1e999"])
def test_json_that_could_not_be_written_again_is_refused(cloud: Cloud, text: str) -> None:
    with pytest.raises(InvalidTemplateError, match="is not JSON"):
        cloud.plan(template(resource("a", properties={"k": f"[json('{text}')]"})))


def test_an_expression_may_be_as_long_as_in_azure(cloud: Cloud) -> None:
    with pytest.raises(InvalidTemplateError, match="longer than 24576 characters"):
        cloud.plan(template(resource("a", properties={"k": f"['{'x' * 24_575}']"})))


def test_what_a_budget_refuses_is_told_in_azures_words() -> None:
    status, code, message = deployable().refused("PUT", ONE, body(LARGE))

    assert (status, code) == (400, "TemplateBudgetExceeded")
    assert "resource a" in message
    assert f"more than {SIZE} characters" in message


def test_a_message_does_not_repeat_a_whole_template() -> None:
    long = template(resource("[padLeft('', 131072, 'x')]", condition="yes"))

    _, code, message = deployable().refused("PUT", ONE, body(long))

    assert code == "InvalidTemplate"
    assert len(message) < 3_000


def test_a_template_inside_another_is_paid_for_by_the_other() -> None:
    busy: Json = {"copy": [{"name": "p", "count": 3, "input": {"k": "[padLeft('', 131072)]"}}]}
    inner = template(resource("net", properties=busy))
    outer = template(
        resource(
            "[concat('inner', copyIndex())]",
            kind=DEPLOYMENTS,
            copy={"name": "many", "count": 200},
            properties={
                "mode": "Incremental",
                "expressionEvaluationOptions": {"scope": "inner"},
                "template": inner,
            },
        )
    )
    azure = deployable()

    deploy(azure, outer)

    assert facts(azure, "provisioningState") == "Failed"
    assert facts(azure, "error", "details", 0, "code") in {"TemplateBudgetExceeded", "DeploymentFailed"}
    assert "TemplateBudgetExceeded" in str(facts(azure, "error"))
