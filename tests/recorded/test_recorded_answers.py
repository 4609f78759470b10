"""The server answers as recorded Azure does, except for the gaps that docs/gaps.md explains.

After a change that closes a gap, ``.venv/bin/python -m tests.recorded --prune`` removes it from the data.
"""

import re

import pytest

from tests.recorded.findings import GAPS_PAGE, find
from tests.recorded.stories import defined_gaps, read_stories

PAIRS = [
    (file, pair) for file, stories in read_stories().items() for story in stories for pair in story.pairs
]


@pytest.mark.parametrize(
    ("key", "source"),
    [pytest.param((file, pair.name), pair.source, id=f"{file}: {pair.name}") for file, pair in PAIRS],
)
def test_the_answer_is_that_of_azure_or_falls_into_a_gap(key: tuple[str, str], source: str) -> None:
    findings = find()

    assert findings.unexplained.get(key, []) == [], f"Azure answers otherwise: {source}"
    assert findings.closed.get(key, []) == [], "the answer does not fall into these gaps any more"


def test_every_line_of_a_gap_is_a_difference_that_exists() -> None:
    assert find().idle == []


def test_every_gap_is_explained_once_and_every_explained_gap_exists() -> None:
    section = GAPS_PAGE.read_text().partition("## Recorded answers")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.M)

    assert explained == sorted({gap.name for _, pair in PAIRS for gap in pair.differs})
    assert explained == defined_gaps()


def test_every_pair_has_a_name_of_its_own() -> None:
    names = [f"{file}: {pair.name}" for file, pair in PAIRS]

    assert sorted(set(names)) == sorted(names)
