"""Reports of a check: text for people, JUnit for build servers, JSON for programs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from xml.etree import ElementTree

from fairwarning.check.judge import ExpectationOutcome, Verdict, worst
from fairwarning.check.scenario import Scenario
from fairwarning.core.document.render import Json

#: The word for each outcome of a scenario.
WORDS = {
    ExpectationOutcome.MET: "safe",
    ExpectationOutcome.NOT_SHOWN: "not shown",
    ExpectationOutcome.SLOW: "slow",
    ExpectationOutcome.NOT_JUDGED: "could not be judged",
    ExpectationOutcome.NOT_STARTED: "did not start",
    ExpectationOutcome.BROKEN: "UNSAFE",
}

#: The outcomes that the text report names before their sentences.
_PREFIXED = {ExpectationOutcome.NOT_SHOWN, ExpectationOutcome.SLOW, ExpectationOutcome.NOT_JUDGED}

#: The outcomes that a handler's output may explain.
_WITH_OUTPUT = {ExpectationOutcome.NOT_JUDGED, ExpectationOutcome.NOT_STARTED, ExpectationOutcome.BROKEN}

#: How many lines of a handler's output are shown.
OUTPUT_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of one scenario; with a problem, the scenario could not be run.

    ``lateness`` says how late this machine ran. ``repeated`` says that it ran too late in a run before this.
    """

    scenario: Scenario
    speed: float
    took: timedelta
    verdicts: tuple[Verdict, ...] = ()
    output: str = ""
    problem: str | None = None
    lateness: timedelta = timedelta(0)
    repeated: bool = False

    @property
    def outcome(self) -> ExpectationOutcome:
        """The worst outcome of the verdicts."""
        return worst(verdict.outcome for verdict in self.verdicts)

    @property
    def word(self) -> str:
        """The outcome in one word."""
        return "not played" if self.problem is not None else WORDS[self.outcome]

    @property
    def sentences(self) -> Iterator[str]:
        """The reasons for the outcome, each with the rules that it is about."""
        if self.problem is not None:
            yield self.problem
        rules: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            prefix = f"{verdict.outcome}: " if verdict.outcome in _PREFIXED else ""
            for sentence in verdict.sentences:
                rules.setdefault(prefix + sentence, []).append(verdict.rule)
        yield from (f"{sentence} ({', '.join(sorted(set(ids)))})" for sentence, ids in rules.items())


def lines(result: ScenarioResult, width: int) -> Iterator[str]:
    """Yield the lines of the text report of one scenario."""
    took = f"{result.took.total_seconds():5.1f} s at speed {result.speed:g}"
    yield f"{result.scenario.name:{width}}  {result.word:13}  {took}"
    yield from (f"    {sentence}" for sentence in result.sentences)
    if result.outcome in _WITH_OUTPUT:
        yield from (f"    | {line}" for line in result.output.splitlines()[-OUTPUT_LINES:])


def summary(results: Sequence[ScenarioResult]) -> str:
    """Return the last line of the text report."""
    counts = Counter(result.word for result in results)
    kinds = (f"{counts[word]} {word}" for word in (*WORDS.values(), "not played") if counts[word])
    noun = "scenario" if len(results) == 1 else "scenarios"
    return f"{len(results)} {noun}: {', '.join(kinds)}"


def hints(results: Sequence[ScenarioResult]) -> Iterator[str]:
    """Yield how to get the verdicts that are missing."""
    hidden = [verdict.rule for result in results for verdict in result.verdicts if verdict.hidden]
    if hidden:
        yield (
            "to show drains, let the handler run the program in FAIRWARNING_DRAIN (in CMD: {drain}), and for "
            "recoveries FAIRWARNING_RECOVER"
        )
        yield f"fairwarning check --explain {hidden[0]} explains a rule"
    if any(result.outcome is ExpectationOutcome.NOT_JUDGED for result in results):
        yield "this machine was too slow to judge the handler; run the check again while it has less to do"


def document(results: Sequence[ScenarioResult]) -> Json:
    """Return the JSON report."""
    return {"scenarios": [_entry(result) for result in results]}


def _entry(result: ScenarioResult) -> Json:
    verdicts: list[Json] = [
        {
            "expect": verdict.expect,
            "rule": verdict.rule,
            "outcome": verdict.outcome.value,
            "sentences": [*verdict.sentences],
        }
        for verdict in result.verdicts
    ]
    return {
        "name": result.scenario.name,
        "summary": result.scenario.summary,
        "outcome": result.word.lower(),
        "problem": result.problem,
        "speed": result.speed,
        "seconds": round(result.took.total_seconds(), 3),
        "lateness": round(result.lateness.total_seconds(), 3),
        "repeated": result.repeated,
        "verdicts": verdicts,
        "output": result.output,
    }


def as_json(results: Sequence[ScenarioResult]) -> str:
    """Return the JSON report as text."""
    return json.dumps(document(results), indent=2, ensure_ascii=False) + "\n"


def as_junit(results: Sequence[ScenarioResult]) -> str:
    """Return the JUnit report: a suite per scenario, a case per expectation."""
    root = ElementTree.Element("testsuites", name="fairwarning check")
    for result in results:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=result.scenario.name,
            tests=str(max(len(result.verdicts), 1)),
            failures=str(_count(result, "failure")),
            skipped=str(_count(result, "skipped")),
            errors=str(int(result.problem is not None) + _count(result, "error")),
            time=f"{result.took.total_seconds():.3f}",
        )
        _cases(suite, result)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode() + "\n"


#: The JUnit element of an outcome; its type is the outcome.
_ELEMENTS = {
    ExpectationOutcome.BROKEN: "failure",
    ExpectationOutcome.NOT_JUDGED: "error",
    ExpectationOutcome.NOT_STARTED: "error",
    ExpectationOutcome.SLOW: "failure",
    ExpectationOutcome.NOT_SHOWN: "skipped",
}


def _count(result: ScenarioResult, element: str) -> int:
    return sum(_ELEMENTS.get(verdict.outcome) == element for verdict in result.verdicts)


def _cases(suite: ElementTree.Element, result: ScenarioResult) -> None:
    if result.problem is not None:
        case = ElementTree.SubElement(suite, "testcase", classname=result.scenario.name, name="played")
        ElementTree.SubElement(case, "error", message=_xml(result.problem))
    for verdict in result.verdicts:
        name = f"{verdict.expect} ({verdict.rule})"
        case = ElementTree.SubElement(suite, "testcase", classname=result.scenario.name, name=name)
        if verdict.outcome in _ELEMENTS:
            message = _xml("; ".join(verdict.sentences))
            ElementTree.SubElement(
                case, _ELEMENTS[verdict.outcome], type=verdict.outcome.value, message=message
            )
    if result.output:
        ElementTree.SubElement(suite, "system-out").text = _xml(result.output)


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot represent."""
    return "".join(char for char in text if char in "\t\n" or (char.isprintable() and ord(char) < 0xFFFE))
