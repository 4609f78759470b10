"""What the parameters of a deployment cost: each is looked up once, in the evaluator, and is paid for."""

import threading
from typing import ClassVar

import pytest

from fairwarning.arm.templates.budget import SECONDS, Budget, OverBudgetError
from fairwarning.arm.templates.evaluator import Evaluator
from fairwarning.arm.templates.secrets import given_secrets
from fairwarning.core.document.render import Json
from tests.arm.cloud import Cloud, template
from tests.arm.deploying import ONE, body, deployable, facts


class Name(str):
    """A name that remembers the threads in which it was folded to lower case."""

    __slots__ = ()
    threads: ClassVar[list[threading.Thread]] = []

    def lower(self) -> str:
        self.threads.append(threading.current_thread())
        return super().lower()


def deploy_parameters(declared: list[str], given: list[str], kind: str) -> list[threading.Thread]:
    """Deploy a template and return the threads in which the names of its parameters were folded."""
    declaration: Json = {"type": kind, "defaultValue": "usual"}
    properties: Json = {
        "mode": "incremental",
        "template": template(parameters={Name(name): declaration for name in declared}),
        "parameters": {Name(name): {"value": "other"} for name in given},
    }
    Name.threads.clear()
    deployable().put(ONE, {"properties": properties})
    return [*Name.threads]


@pytest.mark.parametrize("kind", ["string", "secureString"])
@pytest.mark.parametrize(
    ("spelling", "share"),
    [
        pytest.param("P{}", 1, id="given in another case"),
        pytest.param("p{}", 2, id="half of them not given"),
    ],
)
def test_twice_as_many_parameters_are_twice_the_work(kind: str, spelling: str, share: int) -> None:
    folds = [
        len(
            deploy_parameters(
                [f"p{number}" for number in range(count)],
                [spelling.format(number) for number in range(count // share)],
                kind,
            )
        )
        for count in (50, 100)
    ]

    assert folds[1] <= 2.2 * folds[0]


def test_parameters_are_looked_up_outside_the_event_loop() -> None:
    threads = deploy_parameters(["p1", "p2"], ["P1"], "string")

    assert threading.current_thread() not in threads


def test_a_parameter_is_shown_and_blanked_in_the_spelling_that_the_template_reads() -> None:
    azure = deployable()
    declared: Json = {"word": {"type": "string"}, "key": {"type": "secureString"}}
    outputs: Json = {"both": {"type": "string", "value": "[concat(parameters('word'), parameters('key'))]"}}

    azure.put(ONE, body(template(parameters=declared, outputs=outputs), WORD="a-", word="b-", KEY="hunter2"))

    assert facts(azure, "parameters") == {
        "word": {"type": "String", "value": "a-"},
        "key": {"type": "SecureString"},
    }
    assert facts(azure, "outputs", "both", "value") == "a-***"


def many(count: int) -> tuple[Json, Json]:
    names = [f"p{number}" for number in range(count)]
    declared: Json = {name: {"type": "int"} for name in names}
    return template(parameters=declared), {name: {"value": 1} for name in names}


def test_every_declared_parameter_is_a_step_of_the_budget(cloud: Cloud) -> None:
    written, given = many(100)

    given_secrets(written, given, cloud.budget)
    of_secrets = cloud.budget.steps
    cloud.plan(written, given)

    assert (of_secrets, cloud.budget.steps) == (100, 200)
    with pytest.raises(OverBudgetError):
        given_secrets(written, given, Budget(lambda: 0.0, steps=99))


def test_parameters_that_exceed_the_budget_are_refused_in_azures_words() -> None:
    azure = deployable()
    readings = iter(range(1_000))
    azure.context.evaluator = Evaluator(lambda: next(readings) * 2 * SECONDS)
    written, given = many(1)

    refusal = azure.refused("PUT", ONE, {"properties": {"template": written, "parameters": given}})

    assert refusal[:2] == (400, "TemplateBudgetExceeded")
