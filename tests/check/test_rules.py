"""The rules that verdicts name are explained, in the words of docs/rules.md."""

import json
import re
from pathlib import Path

import pytest

from fairwarning.check.judge import ASKS_RULE
from fairwarning.check.rules import explain, sentences
from fairwarning.check.scenario import load, standard
from tests.cli.server import call

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_a_rule_has_the_sentence_of_the_page() -> None:
    page = dict(re.findall(r"^\| ([A-Z]-\d+a?) \| (.*) \| [^|]* \|$", PAGE.read_text(), re.MULTILINE))

    assert sentences() == {rule: page[rule] for rule in sentences()}


def test_every_rule_that_a_verdict_can_name_is_explained() -> None:
    named = {expected.rule for name in standard() for expected in load(name).expect}

    assert set(sentences()) == {ASKS_RULE, *named}


def test_an_explanation_says_what_is_expected_and_where() -> None:
    explanation = explain("C-18")

    assert explanation.expectations == {
        "drains-before-start": "Begins the drain of the machine before the event starts."
    }
    assert "preempt" in explanation.scenarios


@pytest.mark.parametrize("rule", ["C-18", "c-18"])
def test_a_rule_is_explained(rule: str) -> None:
    done = call("check", "--explain", rule)

    first, *_, last = done.stdout.splitlines()
    assert (done.code, first) == (0, f"C-18: {sentences()['C-18']}")
    assert last.startswith("scenarios: ")


def test_a_rule_is_explained_as_json() -> None:
    done = call("check", "--explain", "C-18", "--json")

    assert json.loads(done.stdout)["sentence"] == sentences()["C-18"]


def test_an_unknown_rule_is_a_usage_error_that_names_the_known_rules() -> None:
    done = call("check", "--explain", "C-99")

    assert done.code == 2
    assert "'--explain': no rule named C-99; the scenarios test C-01, C-02, C-03" in done.stderr
