"""A machine that runs late: how late it runs is measured, and what it can explain is not judged."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fairwarning.check.judge import ExpectationOutcome, Verdict, judge
from fairwarning.check.lateness import TOO_LATE, LatenessWatch, Pulse, greatest_lateness, now
from fairwarning.check.observations import Observed
from fairwarning.check.report import ScenarioResult, as_json, as_junit, lines, summary
from fairwarning.check.run import check
from fairwarning.check.scenario import Scenario
from fairwarning.cli.check import default_jobs, exit_code
from tests.check.observations import (
    E1,
    TIMING,
    Observation,
    after,
    drain,
    get,
    life,
    observed,
    post,
    recover,
    refused,
    scenario,
)
from tests.check.sandboxed import skip_without_sandbox
from tests.check.verdicts import (
    APPROVES,
    AT_MOST,
    BEFORE_START,
    BROKEN,
    EVICT,
    HISTORY,
    KEEPS_ASKING,
    KEEPS_RUNNING,
    MET,
    NEVER,
    NEVER_DRAINS,
    NOT_SHOWN,
    NOT_STARTED,
    ONCE,
    ONLY_AFTER,
    READS,
    RECOVERS,
    RESTART,
    SLOW,
    STAYS,
    Expectation,
)
from tests.cli.server import FAIRWARNING, until

NOT_JUDGED = ExpectationOutcome.NOT_JUDGED


def pulses(*late: float) -> Iterable[Pulse]:
    """Pulses of a second each, with their lateness."""
    return [Pulse(after(number), after(number + 1), after(late)) for number, late in enumerate(late)]


@pytest.mark.parametrize(
    ("late", "since", "until", "greatest"),
    [
        pytest.param([], 0, 9, 0, id="no pulse"),
        pytest.param([0, 0, 4, 0], 0, 9, 4, id="one hitch"),
        pytest.param([0.2] * 10, 0, 10, 1.0, id="a little, all the time, adds up over five seconds"),
        pytest.param([3, 0, 0, 0, 0, 3], 0, 9, 3, id="hitches that are far apart do not add up"),
        pytest.param([3, 0, 0, 3], 0, 9, 6, id="hitches that are close together add up"),
        pytest.param([9, 1, 1, 9], 1, 3, 2, id="what was before and after does not count"),
    ],
)
def test_lateness_is_the_greatest_sum_over_five_seconds(
    late: list[float], since: float, until: float, greatest: float
) -> None:
    lateness = greatest_lateness(pulses(*late), after(since), after(until))

    assert lateness.total_seconds() == pytest.approx(greatest)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(0.5, id="when its pulse is over"),
        pytest.param(0, id="at once, if a scenario ends with it"),
    ],
)
def test_a_stalled_event_loop_is_late(later: float) -> None:
    async def stall() -> None:
        began, watch = now(), LatenessWatch()
        pulses = asyncio.create_task(watch.run())
        await asyncio.sleep(0)
        time.sleep(1.8)
        await asyncio.sleep(later)
        pulses.cancel()
        assert watch.lateness(began, now()) > TOO_LATE

    asyncio.run(stall())


def late(*seen: Observation) -> Observed:
    """Observations of a restart, on a machine that ran too late."""
    return replace(observed(*HISTORY, *seen, events=(RESTART,)), lateness=2 * TOO_LATE)


#: Two polls after the one that showed the event.
READ_AND_POLLED_ON = (get(2, E1), get(3, E1), get(4, E1))


def outcome_on_time_and_late(
    expectation: Expectation, observed: Observed
) -> tuple[ExpectationOutcome, ExpectationOutcome]:
    story = scenario(**expectation)
    (on_time,) = judge(story, replace(observed, lateness=TOO_LATE), TIMING)
    (late,) = judge(story, observed, TIMING)
    return on_time.outcome, late.outcome


@pytest.mark.parametrize(
    ("expectation", "seen", "on_time"),
    [
        pytest.param(APPROVES, late(), BROKEN, id="no approval in time"),
        pytest.param(APPROVES, late(post(18)), BROKEN, id="an approval after the start"),
        pytest.param(APPROVES, replace(late(drain(2, 3)), events=(EVICT,)), SLOW, id="a slow approval"),
        pytest.param(APPROVES, replace(late(), events=(EVICT,)), NOT_SHOWN, id="no reaction at all"),
        pytest.param(READS, late(get(19)), BROKEN, id="an event that is read late"),
        pytest.param(BEFORE_START, late(drain(17, 18)), BROKEN, id="a drain after the start"),
        pytest.param(RECOVERS, late(drain(2, 3)), BROKEN, id="no recovery"),
        pytest.param(KEEPS_ASKING, late(life(0)), BROKEN, id="silence"),
        pytest.param(AT_MOST, late(get(3), get(3.1), get(3.2)), BROKEN, id="requests in a burst"),
        pytest.param(ONCE, late(post(3), post(4)), BROKEN, id="an approval that is repeated"),
        pytest.param(NEVER, late(), MET, id="praise for an approval that did not come"),
        pytest.param(NEVER, late(*READ_AND_POLLED_ON[:2]), MET, id="praise for one that may be on its way"),
        pytest.param(
            ONLY_AFTER, late(drain(2, 3, ok=False)), MET, id="praise for no approval after a failed drain"
        ),
        pytest.param(NEVER_DRAINS, late(recover(2)), MET, id="praise for a drain that did not come"),
        pytest.param(
            APPROVES, replace(late(), asked=(), lives=(life(0),)), NOT_STARTED, id="no request at all"
        ),
        pytest.param(
            KEEPS_RUNNING, replace(late(), asked=(get(0, status=None),)), BROKEN, id="no answer at all"
        ),
        pytest.param(
            KEEPS_RUNNING, replace(late(), steps_left=1), NOT_SHOWN, id="a scenario that was cut short"
        ),
    ],
)
def test_what_a_late_machine_can_explain_is_not_judged(
    expectation: Expectation, seen: Observed, on_time: ExpectationOutcome
) -> None:
    assert outcome_on_time_and_late(expectation, seen) == (on_time, NOT_JUDGED)


@pytest.mark.parametrize(
    ("expectation", "seen", "outcome"),
    [
        pytest.param(APPROVES, late(post(3)), MET, id="an approval in time"),
        pytest.param(NEVER, late(*READ_AND_POLLED_ON), MET, id="no approval of an event that it had read of"),
        pytest.param(
            NEVER_DRAINS,
            late(*READ_AND_POLLED_ON, recover(2)),
            MET,
            id="no drain for an event it had read of",
        ),
        pytest.param(NEVER, late(post(3)), BROKEN, id="a forbidden approval"),
        pytest.param(NEVER_DRAINS, late(drain(2, 3)), BROKEN, id="a forbidden drain"),
        pytest.param(ONLY_AFTER, late(drain(2, 5), post(3)), BROKEN, id="an approval before the drain"),
        pytest.param(ONLY_AFTER, late(post(3)), NOT_SHOWN, id="a drain that could not be observed"),
        pytest.param(STAYS, late(drain(2, 3), recover(4)), BROKEN, id="a recovery before the end"),
        pytest.param(
            APPROVES, late(life(0, 2, 1, ended_by_step=False)), BROKEN, id="no approval, because it had died"
        ),
        pytest.param(KEEPS_RUNNING, late(life(0, 2, 1, ended_by_step=False)), BROKEN, id="a death"),
        pytest.param(
            APPROVES,
            replace(late(life(0, 2, 1, ended_by_step=False)), asked=()),
            NOT_STARTED,
            id="a death before the first request",
        ),
        pytest.param(KEEPS_RUNNING, replace(late(), asked=(refused(0, 400),)), BROKEN, id="only refusals"),
    ],
)
def test_what_was_done_counts_on_a_late_machine_too(
    expectation: Expectation, seen: Observed, outcome: ExpectationOutcome
) -> None:
    assert outcome_on_time_and_late(expectation, seen) == (outcome, outcome)


def test_the_sentence_says_what_was_seen_and_how_late_the_machine_ran() -> None:
    (verdict,) = judge(scenario(**APPROVES), late(), TIMING)

    assert verdict.sentences == (
        "web_0 did not approve the restart in 15.0 s, but this machine ran 3.0 s late",
    )


def result(story: Scenario, outcome: ExpectationOutcome) -> ScenarioResult:
    verdict = Verdict(expect="approves", rule="C-06", outcome=outcome, sentences=("it did not approve",))
    return ScenarioResult(scenario=story, speed=60, took=after(1), verdicts=(verdict,), lateness=after(2))


class Script:
    """Plays scenarios as written: the outcomes of each, run by run; keeps a log."""

    def __init__(self, outcomes: dict[str, list[ExpectationOutcome]]) -> None:
        self.scenarios = [replace_name(scenario(**APPROVES), name) for name in outcomes]
        self.log: list[str] = []
        self._left = {name: iter(each) for name, each in outcomes.items()}
        self._running = 0

    def run(self, jobs: int) -> list[ScenarioResult]:
        return asyncio.run(check(self.scenarios, self._play, jobs, self))

    async def _play(self, story: Scenario) -> ScenarioResult:
        self._running += 1
        await asyncio.sleep(0)
        self.log.append(f"{story.name} beside {self._running - 1}")
        await asyncio.sleep(0)
        self._running -= 1
        return result(story, next(self._left[story.name]))

    def begin(self, scenario: Scenario) -> None: ...

    def end(self, result: ScenarioResult) -> None:
        self.log.append(f"{result.scenario.name} ends")

    def postpone(self, result: ScenarioResult) -> None:
        self.log.append(f"{result.scenario.name} is postponed")


def replace_name(story: Scenario, name: str) -> Scenario:
    return structs.replace(story, name=name)


def test_a_scenario_that_could_not_be_judged_is_repeated_alone() -> None:
    script = Script({"first": [NOT_JUDGED, BROKEN], "second": [MET], "third": [NOT_JUDGED, MET]})

    results = script.run(jobs=3)

    assert [(one.scenario.name, one.outcome, one.repeated) for one in results] == [
        ("first", BROKEN, True),
        ("second", MET, False),
        ("third", MET, True),
    ]
    assert script.log[-4:] == ["first beside 0", "first ends", "third beside 0", "third ends"]
    assert [line for line in script.log if "beside 2" in line] == [
        f"{name} beside 2" for name in ("first", "second", "third")
    ]


def test_a_scenario_is_repeated_once() -> None:
    script = Script({"first": [NOT_JUDGED, NOT_JUDGED]})

    (only,) = script.run(jobs=1)

    assert (only.outcome, only.repeated) == (NOT_JUDGED, True)
    assert script.log[-1] == "first ends"


def test_the_reports_name_the_fourth_word() -> None:
    unjudged = replace(result(scenario(**APPROVES), NOT_JUDGED), repeated=True)

    (suite,) = ElementTree.fromstring(as_junit([unjudged]))
    (entry,) = json.loads(as_json([unjudged]))["scenarios"]
    assert list(lines(unjudged, 8)) == [
        "smallest  could not be judged    1.0 s at speed 60",
        "    could not be judged: it did not approve (C-06)",
    ]
    assert summary([unjudged]) == "1 scenario: 1 could not be judged"
    assert [(error.get("type"), suite.get("errors")) for error in suite.iter("error")] == [
        ("could not be judged", "1")
    ]
    assert (entry["outcome"], entry["lateness"], entry["repeated"]) == ("could not be judged", 2, True)


@pytest.mark.parametrize(
    ("others", "code"),
    [
        pytest.param([MET], 2, id="nothing else"),
        pytest.param([SLOW], 2, id="slow: a build that accepts slow handlers must not accept this"),
        pytest.param([NOT_SHOWN], 2, id="not shown"),
        pytest.param([NOT_STARTED], 4, id="did not start"),
        pytest.param([BROKEN, NOT_STARTED], 1, id="unsafe"),
    ],
)
def test_only_proven_faults_are_worse_than_what_could_not_be_judged(
    others: list[ExpectationOutcome], code: int
) -> None:
    results = [result(scenario(**APPROVES), outcome) for outcome in (NOT_JUDGED, *others)]

    assert exit_code(results, strict=False) == code


def test_the_default_number_of_jobs_follows_the_processors() -> None:
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        assert default_jobs() == 2
    finally:
        os.sched_setaffinity(0, processors)


def stop_for(seconds: float, pid: int) -> None:
    """Stop a process for a while, as a machine without a free processor does."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_handler_is_not_blamed_for_a_check_that_stands_still(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    handler = ("sh", "-c", f"touch {begun}; exec sleep 600")
    with subprocess.Popen(
        [*FAIRWARNING, "check", "preempt", "--start-within", "3s", "--", *handler],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for _ in (1, 2):
            until(lambda: process.poll() is not None or begun.exists(), "a handler")
            begun.unlink(missing_ok=True)
            if process.poll() is None:
                stop_for(4, process.pid)
        output, _ = process.communicate(timeout=60)

    skip_without_sandbox(output)
    assert process.returncode == 2, output
    assert "could not be judged: batch sent no request in" in output
    assert output.splitlines()[-2] == "1 scenario: 1 could not be judged", output
