"""The guide to the hooks shows only valid steps, and every hook."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.agent.hooks import HOOKS, parse
from fairwarning.agent.hooks.exec import variables
from fairwarning.agent.hooks.hook import event_payload
from tests.agent.hooks.contexts import noon, prepare

GUIDE = (Path(__file__).parents[3] / "docs/guides/hooks.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))


def steps(text: str) -> Iterator[dict[str, object]]:
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for rule in tomllib.loads(block)["rule"]:
            yield from (*rule.get("prepare", ()), *rule.get("recover", ()))


def test_every_hook_has_a_section() -> None:
    assert list(SECTIONS) == list(HOOKS)


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in HOOKS])
def test_the_examples_of_a_section_are_taken(name: str) -> None:
    shown = list(steps(SECTIONS[name]))

    outcomes = [parse(step).run(prepare(dry_run=True), None, noon) for step in shown]

    assert {key for step in shown for key in step} == {name}
    assert all(outcome.ok for outcome in outcomes)


def test_the_first_example_is_taken() -> None:
    assert [parse(step).describe() for step in steps(GUIDE.partition("\n## ")[0])] == [
        "drain web/web_0 at /run/haproxy/admin.sock and wait up to 30s for its sessions",
        "stop app.service",
        "start app.service",
        "make web/web_0 ready at /run/haproxy/admin.sock if the agent drained it",
    ]


def test_the_guide_lists_every_variable_and_member() -> None:
    variable_names = re.findall(r"^\| `(FAIRWARNING_\w+)` \|", GUIDE, re.MULTILINE)

    assert variable_names == list(variables(prepare()))
    assert all(f"`{name}`" in SECTIONS["exec"] for name in event_payload(prepare()))
