"""Every score on the page of handler scores is what its command prints."""

import json
import os
import re
import shlex
import subprocess
import sysconfig
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from fairwarning.check.scenario import standard
from tests.check.sandboxed import skip_without_sandbox
from tests.pages import Page
from tools.environments import environment

ROOT = Path(__file__).parents[2]
SCORES_PAGE = Page("docs/handler-scores.md")
PAGE = SCORES_PAGE.text
GUIDE = (ROOT / "docs" / "guides" / "check-your-handler.md").read_text()
WORDS = ("safe", "slow", "not shown", "unsafe")


@dataclass(frozen=True, slots=True)
class Row:
    """The scenarios of one verdict, and the rules that the page gives as its reason."""

    scenarios: tuple[str, ...]
    word: str
    rules: frozenset[str]


@dataclass(frozen=True)
class Score:
    """A section of the page: a handler, the commands that check it, and its verdicts."""

    handler: str
    text: str

    @cached_property
    def commands(self) -> list[str]:
        return re.findall(r"^\$ (fairwarning check .*)$", self.text, re.MULTILINE)

    @cached_property
    def rows(self) -> list[Row]:
        rows = re.findall(r"^\| (`.*`) \| (\w+(?: \w+)?) \| (.*) \|$", self.text, re.MULTILINE)
        return [
            Row(tuple(re.findall(r"`(.*?)`", names)), word, frozenset(re.findall(r"\b[A-Z]-\d+\b", reason)))
            for names, word, reason in rows
        ]

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: row.word for row in self.rows for name in row.scenarios}

    @property
    def counts(self) -> dict[str, int]:
        return {word: list(self.verdicts.values()).count(word) for word in WORDS}


SCORES = [
    Score(title, text)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    if "$ fairwarning check" in text
]

#: The section of the agent has the command of the guide, which tests/check/test_guide.py runs.
OURS = "fairwarning agent"


def scenarios(command: str) -> set[str]:
    """Return the names of the scenarios that a command runs."""
    words = shlex.split(command)
    files = [word for word in words if word.endswith(".toml") and word.startswith("examples/")]
    named = {word for word in words if word in standard()}
    named |= {str(tomllib.loads((ROOT / file).read_text())["name"]) for file in files}
    return named or set(standard())


def run(command: str, report: Path) -> dict[str, tuple[str, set[str]]]:
    """Run a command of the page; return each scenario's verdict, and the rules that the handler broke."""
    programs = (environment(ROOT / "tests" / "real" / "clients.txt"), sysconfig.get_path("scripts"))
    path = os.pathsep.join((*map(str, programs), os.environ["PATH"]))
    program, subcommand, *rest = shlex.split(command)
    done = subprocess.run(
        [program, subcommand, "--json-file", str(report), *rest],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    skip_without_sandbox(done.stdout)
    assert report.exists(), done.stdout + done.stderr
    return {
        entry["name"]: (
            entry["outcome"],
            {verdict["rule"] for verdict in entry["verdicts"] if verdict["outcome"] == "broken"},
        )
        for entry in json.loads(report.read_text())["scenarios"]
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.needs("/usr/lib/ocf/resource.d/heartbeat/azure-events-az")
@pytest.mark.parametrize(
    "handler",
    [
        pytest.param("azure-events-az", marks=pytest.mark.runs("docs/handler-scores.md", "pacemaker/run$")),
        pytest.param("ai4s-jobq", marks=pytest.mark.runs("docs/handler-scores.md", "jobq$")),
        pytest.param("dask-cloudprovider", marks=pytest.mark.runs("docs/handler-scores.md", "worker$")),
        pytest.param(
            "dask-cloudprovider, a minute earlier",
            marks=pytest.mark.runs("docs/handler-scores.md", "worker -1$"),
        ),
    ],
)
def test_a_score_is_what_its_commands_say(handler: str, tmp_path: Path) -> None:
    (score,) = (score for score in SCORES if score.handler == handler)
    found: dict[str, tuple[str, set[str]]] = {}

    for command in SCORES_PAGE.commands():
        if command.text in score.commands:
            with command.running() as text:
                found |= run(text, tmp_path / f"{command.line}.json")

    assert {name: word for name, (word, _) in found.items()} == score.verdicts
    for row in score.rows:
        assert row.rules <= set[str]().union(*(found[name][1] for name in row.scenarios)), row


def test_our_own_agent_is_scored_by_the_command_of_the_guide() -> None:
    (ours,) = (score for score in SCORES if OURS in score.handler)
    (command,) = re.findall(r"^\$ (fairwarning check .* fairwarning agent run .*)$", GUIDE, re.MULTILINE)

    assert ours.commands == [command.replace("agent.toml", "tests/check/agent.toml")]
    assert set(ours.verdicts.values()) == {"safe"}


@pytest.mark.parametrize("score", [pytest.param(one, id=one.handler) for one in SCORES])
def test_a_score_names_every_scenario_of_its_commands_once(score: Score) -> None:
    listed = [name for row in score.rows for name in row.scenarios]

    assert sorted(listed) == sorted(set[str]().union(*map(scenarios, score.commands)))


@pytest.mark.parametrize("score", [pytest.param(one, id=one.handler) for one in SCORES])
def test_the_overview_counts_what_a_section_lists(score: Score) -> None:
    (row,) = re.findall(rf"^\| \[{re.escape(score.handler)}\].*$", PAGE, re.MULTILINE)

    assert [int(number) for number in re.findall(r"\d+(?= \||$)", row.rstrip(" |") + " |")[-4:]] == [
        *score.counts.values()
    ]
