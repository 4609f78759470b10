"""Explains the rules that scenarios name: their sentences, and the scenarios that test them.

``rules.toml`` has the sentences of docs/rules.md, which is not installed with the package; a test compares.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from inspect import getdoc

from fairwarning.check.scenario import load, standard


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplanation:
    """A rule, what is expected of a handler because of it, and the standard scenarios that expect that."""

    id: str
    sentence: str
    expectations: Mapping[str, str]
    scenarios: tuple[str, ...]


@cache
def sentences() -> Mapping[str, str]:
    """Return the sentence of each rule."""
    return tomllib.loads((files("fairwarning.check") / "rules.toml").read_text(encoding="utf-8"))


def explain(rule: str) -> RuleExplanation:
    """Return the explanation of a rule."""
    expected = [(name, each) for name in standard() for each in load(name).expect if each.rule == rule]
    return RuleExplanation(
        id=rule,
        sentence=sentences()[rule],
        expectations={
            str(type(each).__struct_config__.tag): _first_line(getdoc(type(each)) or "")
            for _, each in expected
        },
        scenarios=tuple(dict.fromkeys(name for name, _ in expected)),
    )


def _first_line(docstring: str) -> str:
    return docstring.partition("\n")[0].replace("``", "`")
