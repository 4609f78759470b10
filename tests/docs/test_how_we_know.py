"""The numbers on the page about evidence are those of the rules and of the recorded answers."""

import re
from pathlib import Path

from tests.pages import Page
from tests.recorded.stories import defined_gaps, read_stories

ROOT = Path(__file__).parents[2]
PAGE = Page("docs/how-we-know.md")
STORIES = [story for stories in read_stories().values() for story in stories]
PAIRS = [pair for story in STORIES for pair in story.pairs]

#: The grades, and what stands for them in the last column of a rule.
GRADES = {
    "stated": "stated",
    "schema": "schema",
    "seen": "seen",
    "relied on": "relied on",
    "ours": "ours|by us",
}


def grades() -> list[str]:
    """Return the grade of each rule, as its row says it."""
    rules = (ROOT / "docs" / "rules.md").read_text()
    return re.findall(r"^\| [A-Z]-\d+a? \|.*\| ([^|]*) \|$", rules, re.MULTILINE)


def number(row: str) -> int:
    """Return the number at the end of the row of a table that begins with a text."""
    (found,) = re.findall(rf"^\| {re.escape(row)}\b.*\| (\d+) \|$", PAGE.text, re.MULTILINE)
    return int(found)


def test_the_page_counts_the_rules_of_each_grade() -> None:
    counts = {
        grade: sum(re.search(rf"\b({words})\b", one) is not None for one in grades())
        for grade, words in GRADES.items()
    }

    assert {grade: number(grade) for grade in GRADES} == counts
    assert number("all rules") == len(grades())


def test_the_page_has_the_grades_of_the_rules() -> None:
    rules = (ROOT / "docs" / "rules.md").read_text()
    (table,) = re.findall(r"^\| grade \|.*\n\|---.*\n((?:\|.*\n)+)", rules, re.MULTILINE)

    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == list(GRADES)


def test_the_page_counts_the_recorded_answers() -> None:
    metadata = sum(len(story.pairs) for story in STORIES if story.api == "metadata")

    assert number("all recorded answers") == len(PAIRS)
    assert number("of the metadata API") == metadata
    assert number("of the management API") == len(PAIRS) - metadata
    assert number("known by analogy") == sum("by analogy" in pair.source for pair in PAIRS)
    assert number("that differ in a detail") == sum(bool(pair.differs) for pair in PAIRS)
    assert f"belongs to one of {len(defined_gaps())} [gaps]" in PAGE.text
