"""Debian's agent for Pacemaker, scored as it is; the cluster around it is made of stand-ins."""

import re
from functools import cache
from pathlib import Path

import pytest

from fairwarning.check.scenario import standard
from tests.check.handlers.runs import broken, run_all

AGENT = Path("/usr/lib/ocf/resource.d/heartbeat/azure-events-az")
RUN = Path(__file__).parent / "handlers" / "pacemaker" / "run"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "check-your-handler.md"

#: How many scenarios run at a time; each poll of the agent starts a dozen programs.
JOBS = 2

#: What the agent breaks where it is not safe. It leaves alone what is not a Reboot or a Redeploy, also
#: where a user waits.
BREAKS = {
    "approve-once": {"C-06"},
    "drain-fails": {"C-06"},
    "terminate-two": {"C-07"},
    "two-events": {"C-04", "C-10"},
}
NOT_SHOWN = {"cancelled", "freeze", "preempt", "unknown-type"}
SAFE = set(standard()) - set(BREAKS) - NOT_SHOWN


@cache
def score() -> dict[str, tuple[str, set[str]]]:
    """Return the agent's verdict in every scenario, and the rules that it broke there."""
    results = run_all([(name, (str(RUN),)) for name in standard()], JOBS).values()
    return {result.scenario.name: (result.word, {rule for _, rule in broken(result)}) for result in results}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs(str(AGENT))
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("safe", {name: set[str]() for name in SAFE}, id="what it handles well"),
        pytest.param("not shown", {name: set[str]() for name in NOT_SHOWN}, id="what it leaves alone unseen"),
        pytest.param("UNSAFE", BREAKS, id="what it breaks"),
    ],
)
def test_the_agent_of_pacemaker_is_scored(word: str, expected: dict[str, set[str]]) -> None:
    found = {name: rules for name, (scored, rules) in score().items() if scored == word}

    assert found == expected


def test_the_guide_lists_the_score_of_the_agent() -> None:
    rows = re.findall(r"^\| (`.*`) \| (safe|not shown|unsafe) \|", GUIDE.read_text(), re.MULTILINE)

    listed = {name: word for names, word in rows for name in re.findall(r"`(.*?)`", names)}

    words = {"safe": SAFE, "not shown": NOT_SHOWN, "unsafe": set(BREAKS)}
    assert listed == {name: word for word, names in words.items() for name in names}
