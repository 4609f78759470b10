"""The reports about results."""

import json
from dataclasses import replace
from xml.etree import ElementTree

from fairwarning.check.judge import ExpectationOutcome, Verdict
from fairwarning.check.report import ScenarioResult, as_json, as_junit, hints, lines, summary
from tests.check.observations import after, scenario

SAFE = ScenarioResult(
    scenario=scenario(expect="approves"),
    speed=60,
    took=after(12.34),
    verdicts=(Verdict(expect="approves", rule="C-06", outcome=ExpectationOutcome.MET),),
)
UNSAFE = replace(
    SAFE,
    verdicts=(
        Verdict(
            expect="approves-once",
            rule="C-08",
            outcome=ExpectationOutcome.BROKEN,
            sentences=("web_0 approved restart 3 times",),
        ),
        Verdict(
            expect="recovers",
            rule="C-04",
            outcome=ExpectationOutcome.NOT_SHOWN,
            sentences=("nothing could be observed",),
        ),
        Verdict(
            expect="stays-drained",
            rule="C-10",
            outcome=ExpectationOutcome.NOT_SHOWN,
            sentences=("nothing could be observed",),
        ),
    ),
    output="first\n\x1b[31mTraceback\x1b[0m & <more>",
)
SLOW = replace(
    SAFE,
    verdicts=(
        Verdict(
            expect="approves",
            rule="C-06",
            outcome=ExpectationOutcome.SLOW,
            sentences=("web_0 did not approve evict",),
        ),
    ),
)
NOT_PLAYED = replace(SAFE, verdicts=(), problem="the server did not start")


def test_a_safe_handler_takes_one_line() -> None:
    assert list(lines(SAFE, 10)) == ["smallest    safe            12.3 s at speed 60"]


def test_an_unsafe_result_has_reasons_and_rules() -> None:
    assert list(lines(UNSAFE, 10)) == [
        "smallest    UNSAFE          12.3 s at speed 60",
        "    web_0 approved restart 3 times (C-08)",
        "    not shown: nothing could be observed (C-04, C-10)",
        "    | first",
        "    | \x1b[31mTraceback\x1b[0m & <more>",
    ]


def test_a_slow_handler_is_not_called_unsafe() -> None:
    assert list(lines(SLOW, 10)) == [
        "smallest    slow            12.3 s at speed 60",
        "    slow: web_0 did not approve evict (C-06)",
    ]


def test_build_servers_can_tell_slow_from_broken() -> None:
    failures = ElementTree.fromstring(as_junit([SLOW, UNSAFE])).iter("failure")

    assert [failure.get("type") for failure in failures] == ["slow", "broken"]


def test_a_scenario_that_could_not_run_has_no_verdict() -> None:
    assert list(lines(NOT_PLAYED, 10)) == [
        "smallest    not played      12.3 s at speed 60",
        "    the server did not start",
    ]


def test_an_empty_problem_is_a_problem() -> None:
    empty = replace(NOT_PLAYED, problem="")

    assert empty.word == "not played"
    assert [element.get("errors") for element in ElementTree.fromstring(as_junit([empty]))] == ["1"]


def test_the_summary_counts() -> None:
    assert summary([SAFE, SAFE, UNSAFE, NOT_PLAYED]) == "4 scenarios: 2 safe, 1 UNSAFE, 1 not played"


def test_hidden_drains_come_with_a_hint() -> None:
    hidden = replace(UNSAFE, verdicts=(*UNSAFE.verdicts, replace(UNSAFE.verdicts[1], hidden=True)))

    first, second = hints([SAFE, hidden, hidden])

    assert "FAIRWARNING_DRAIN (in CMD: {drain})" in first
    assert second == "fairwarning check --explain C-04 explains a rule"


def test_where_drains_can_be_observed_no_hint_is_given() -> None:
    assert list(hints([SAFE, UNSAFE, SLOW, NOT_PLAYED])) == []


def test_json_has_everything() -> None:
    (entry, problem) = json.loads(as_json([UNSAFE, NOT_PLAYED]))["scenarios"]

    assert (entry["name"], entry["outcome"], entry["speed"], entry["seconds"]) == (
        "smallest",
        "unsafe",
        60,
        12.34,
    )
    assert entry["verdicts"][0] == {
        "expect": "approves-once",
        "rule": "C-08",
        "outcome": "broken",
        "sentences": ["web_0 approved restart 3 times"],
    }
    assert (problem["outcome"], problem["problem"]) == ("not played", "the server did not start")


def test_build_servers_read_a_suite_per_scenario_and_a_case_per_expectation() -> None:
    text = as_junit([SAFE, UNSAFE, NOT_PLAYED])

    assert text.startswith("<?xml version='1.0' encoding='utf-8'?>")
    safe, unsafe, problem = ElementTree.fromstring(text.encode())
    assert [
        (element.get("tests"), element.get("failures"), element.get("skipped")) for element in (safe, unsafe)
    ] == [
        ("1", "0", "0"),
        ("3", "1", "2"),
    ]
    assert [case.get("name") for case in unsafe.iter("testcase")] == [
        "approves-once (C-08)",
        "recovers (C-04)",
        "stays-drained (C-10)",
    ]
    assert [element.get("message") for element in unsafe.iter("failure")] == [
        "web_0 approved restart 3 times"
    ]
    assert unsafe.findtext("system-out") == "first\n[31mTraceback[0m & <more>"
    assert [element.get("message") for element in problem.iter("error")] == ["the server did not start"]
