"""Every standard scenario catches a handler with the mistake that it is about."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from fairwarning.check.report import ScenarioResult
from fairwarning.check.scenario import standard
from tests.check.handlers.runs import Run, broken, run_all
from tests.check.handlers.unsafe import MISTAKES

ROOT = Path(__file__).parents[2]

#: How many scenarios run at a time.
JOBS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """A mistake, the scenario that catches it, and the expectation that it breaks."""

    scenario: str
    mistake: str
    expect: str
    rule: str
    machine: str = "web_0"
    #: Whether it is quick enough for the default suite.
    soon: bool = False

    @property
    def run(self) -> Run:
        program = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.check.handlers.unsafe")
        return self.scenario, (*program, self.mistake)

    @property
    def title(self) -> str:
        return f"{self.scenario}: a handler that {self.mistake} breaks {self.expect}"

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        rule = pytest.mark.rule(self.rule)
        return (rule,) if self.soon else (rule, pytest.mark.slow)


# fmt: off
CASES = (
    Case("approve-once", "approves for as long as the event is Scheduled", "approves-once", "C-08"),
    Case("being-updated", "asks more often when requests fail", "asks-at-most", "C-02"),
    Case("being-updated", "takes a failed request for an empty document", "stays-drained", "C-02"),
    Case("cancelled", "goes back to work only after Started", "recovers", "C-04"),
    Case("cut-connections", "asks more often when requests fail", "asks-at-most", "R-10"),
    Case("cut-connections", "falls over when a request fails", "keeps-running", "C-02", soon=True),
    Case("drain-fails", "never looks at the drain's exit code", "approves-only-after-drain", "C-06"),
    Case("empty-answers", "takes an empty answer for an empty document", "stays-drained", "C-03"),
    Case("freeze", "never goes back to work", "recovers", "C-13"),
    Case("hardware-failure", "goes back to work after the announced duration", "stays-drained", "C-10"),
    Case("hardware-failure", "trusts NotBefore to be there", "keeps-running", "C-09"),
    Case("incarnation-restarts", "keeps only a rising incarnation", "approves", "C-04"),
    Case("killed-before-approving", "takes what it began for done", "approves", "C-11"),
    Case("late-notice", "counts the usual notice from when it reads of the event", "approves", "C-06"),
    Case("no-date", "trusts NotBefore to be there", "keeps-running", "C-09"),
    Case("no-events-member", "takes a document without Events for an empty one", "stays-drained", "C-16"),
    Case("old-version", "trusts every field to be there", "keeps-running", "C-12", soon=True),
    Case("other-machine", "approves everybody's events", "never-approves", "C-05"),
    Case("other-machine", "approves everybody's events", "never-drains", "C-05"),
    Case("partial-answers", "takes a failed request for an empty document", "stays-drained", "C-17"),
    Case("partial-answers", "falls over when a request fails", "keeps-running", "C-17"),
    Case("plain-text-answers", "believes the media type", "approves", "C-15"),
    Case("plain-reboot", "approves before it drains", "approves-only-after-drain", "C-06"),
    Case("plain-reboot", "goes back to work when it comes up", "stays-drained", "C-10"),
    Case("preempt", "asks every twenty seconds", "reads", "C-01", "batch"),
    Case("preempt", "drains only when the event has started", "drains-before-start", "C-18", "batch"),
    Case("several-machines", "approves for its peers once it is ready itself",
         "approves-only-after-drain", "C-07", "app-0"),
    Case("silent-endpoint", "falls over when a request fails", "keeps-running", "C-02"),
    Case("slow-first-call", "gives up on a slow first call", "keeps-running", "C-02"),
    Case("terminate-two", "approves everybody's events", "never-approves", "C-07"),
    Case("too-many-requests", "asks more often when requests fail", "asks-at-most", "C-02"),
    Case("too-many-requests", "falls over when a request fails", "keeps-running", "C-02"),
    Case("two-events", "goes back to work with the first of its events", "stays-drained", "C-10"),
    Case("unknown-type", "approves what it does not know", "never-approves", "C-12", "batch"),
)
# fmt: on


@cache
def results(soon: bool) -> dict[Run, ScenarioResult]:
    """Return the results of all quick cases, or of all others; each runs once."""
    return run_all(sorted({case.run for case in CASES if case.soon is soon}), JOBS)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.title, marks=case.marks) for case in CASES])
def test_a_mistake_is_caught_and_its_rule_is_named(case: Case) -> None:
    found = broken(results(case.soon)[case.run])

    assert (case.expect, case.rule) in found
    assert found[case.expect, case.rule][0].startswith(f"{case.machine} ")


def test_every_standard_scenario_catches_a_mistake() -> None:
    assert {case.scenario for case in CASES} == set(standard())


def test_every_mistake_is_caught() -> None:
    assert {case.mistake for case in CASES} == set(MISTAKES)
