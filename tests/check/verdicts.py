"""Expectations of a handler, observations to judge, and the verdict."""

from fairwarning.check.judge import ExpectationOutcome, judge
from fairwarning.check.observations import CausedEvent, Observed
from fairwarning.core.document.render import Json
from tests.check.observations import E1, TIMING, happen, scenario

RESTART = CausedEvent(id=E1, label="restart", cause="restart", resources=("web_0",))
EVICT = CausedEvent(id=E1, label="evict", cause="evict", resources=("web_0",))

#: An event from its announcement to its end.
HISTORY = (happen(1, "scheduled"), happen(16, "started"), happen(20, "finished"))

MET, NOT_SHOWN, BROKEN = ExpectationOutcome.MET, ExpectationOutcome.NOT_SHOWN, ExpectationOutcome.BROKEN
SLOW, NOT_STARTED = ExpectationOutcome.SLOW, ExpectationOutcome.NOT_STARTED
Expectation = dict[str, Json]

APPROVES: Expectation = {"expect": "approves"}
PROMPTLY: Expectation = {"expect": "approves", "within": "5s"}
AFTERWARDS: Expectation = {"expect": "approves", "within": "5s", "since": "healed"}
NEVER: Expectation = {"expect": "never-approves"}
ONCE: Expectation = {"expect": "approves-once"}
ONLY_AFTER: Expectation = {"expect": "approves-only-after-drain"}
BEFORE_START: Expectation = {"expect": "drains-before-start"}
NEVER_DRAINS: Expectation = {"expect": "never-drains"}
READS: Expectation = {"expect": "reads", "within": "5s"}
RECOVERS: Expectation = {"expect": "recovers", "within": "5s"}
STAYS: Expectation = {"expect": "stays-drained"}
AT_MOST: Expectation = {"expect": "asks-at-most", "requests": 2, "per": "1s"}
IN_FAULT: Expectation = {**AT_MOST, "during": "fault"}
KEEPS_ASKING: Expectation = {"expect": "keeps-asking", "within": "10s"}
KEEPS_RUNNING: Expectation = {"expect": "keeps-running"}


def verdict_on(
    expectation: Expectation, observed: Observed, *handlers: str
) -> tuple[ExpectationOutcome, str]:
    (verdict,) = judge(scenario(*handlers, **expectation), observed, TIMING)
    return verdict.outcome, "; ".join(verdict.sentences)
