"""Compares the differences of all answers with the gaps that the data declares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.recorded.play import play
from tests.recorded.stories import Gap, read_stories

GAPS_PAGE = Path(__file__).parents[2] / "docs/gaps.md"

#: A pair, by its file and its name.
PairKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Findings:
    """Where answers and data disagree."""

    #: The differences that no gap of their pair lists.
    unexplained: Mapping[PairKey, list[str]]
    #: The gaps that a pair names and its answer does not fall into.
    closed: Mapping[PairKey, list[str]]
    #: Lines of gaps that are no difference of any pair.
    idle: Sequence[tuple[str, str]]
    #: Gaps into which no answer falls.
    obsolete: Sequence[str]

    @property
    def agree(self) -> bool:
        """Whether answers and data say the same."""
        return not (self.unexplained or self.closed or self.idle)


@cache
def find() -> Findings:
    """Play all stories and return where their answers and the data disagree."""
    unexplained: dict[PairKey, list[str]] = {}
    closed: dict[PairKey, list[str]] = {}
    gaps: dict[str, Gap] = {}
    explained: dict[str, set[str]] = {}
    for file, stories in read_stories().items():
        for number, story in enumerate(stories):
            for pair in story.pairs:
                lines = play(file, number)[pair.name]
                open_gaps = [gap for gap in pair.differs if any(map(gap.covers, lines))]
                rest = [line for line in lines if not any(gap.covers(line) for gap in open_gaps)]
                if rest:
                    unexplained[file, pair.name] = rest
                if len(open_gaps) < len(pair.differs):
                    closed[file, pair.name] = [gap.name for gap in pair.differs if gap not in open_gaps]
                for gap in pair.differs:
                    gaps[gap.name] = gap
                    explained.setdefault(gap.name, set()).update(lines)
    idle = [
        (gap.name, line)
        for gap in gaps.values()
        for line in gap.lines
        if not any(map(Gap(gap.name, [line]).covers, explained[gap.name]))
    ]
    obsolete = [gap.name for gap in gaps.values() if not any(map(gap.covers, explained[gap.name]))]
    return Findings(unexplained, closed, idle, obsolete)
