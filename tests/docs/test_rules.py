"""Rules, tests and gaps agree."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULE = r"[A-Z]-\d+a?"


def rows(page: str) -> list[str]:
    """Return the ids in the first column of a page's tables, in order."""
    return re.findall(rf"^\| ({RULE}) \|", (ROOT / "docs" / page).read_text(), re.M)


def proved_by_tests() -> set[str]:
    """Return the ids that the rule marks of the tests name."""
    tests = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")))
    return {
        rule
        for arguments in re.findall(r"mark\.rule\(([^)]*)\)", tests)
        for rule in re.findall(r'"([^"]*)"', arguments)
    }


def proved_in_part() -> set[str]:
    """Return the ids of the rules that docs/gaps.md lists as tested in part."""
    return set(re.findall(rf"^- \*\*({RULE})\*\*", (ROOT / "docs/gaps.md").read_text(), re.M))


def test_every_rule_has_one_row() -> None:
    rules = rows("rules.md")

    assert sorted(set(rules)) == sorted(rules)
    assert len(rules) >= 117


def test_every_rule_has_a_test_or_a_gap() -> None:
    unproved = set(rows("rules.md")) - proved_by_tests() - set(rows("gaps.md"))

    assert sorted(unproved) == []


def test_no_rule_has_both_a_test_and_a_gap() -> None:
    assert sorted(proved_by_tests() & set(rows("gaps.md"))) == []


def test_tests_and_gaps_name_only_rules_that_exist() -> None:
    named = proved_by_tests() | set(rows("gaps.md")) | proved_in_part()

    assert sorted(named - set(rows("rules.md"))) == []


def test_a_rule_proved_in_part_has_a_test() -> None:
    assert sorted(proved_in_part() - proved_by_tests()) == []


def test_every_gap_named_in_the_code_is_listed() -> None:
    code = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    named = set(re.findall(r"#\s*GAP\(([^)]*)\)", code))

    assert sorted(named - set(rows("gaps.md")) - proved_in_part()) == []
