"""Writes ``docs/performance.md`` and its plots: the results of one run, and the goals it misses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench import growth, pending, report
from bench.goals import Verdict
from bench.plot import svg
from bench.report import GoalResult, Json, Section

PAGE = "performance.md"
FOLDER = "performance"

#: The title of each plot, and its unit of size.
PLOTS: Mapping[str, tuple[str, str]] = {
    growth.PLOT: ("Cost by number of machines", "machines"),
    pending.PLOT: ("Cost by number of events", "events, pending in the fleet or in one scope"),
}

#: Known reasons for missing a goal, shown only where the goal is missed.
REASONS: Mapping[str, str] = {
    "G3": "ignored headers are still checked, in Python; a known head is only looked up",
    "G4b": "most of the cost is asyncio's: a task, a transport and several turns of its loop per connection",
    "G7": "the figure is time and not CPU, so it includes other load on the server's core; about half of it "
    "is the bare write",
    "G8": "the server wakes 64 guests, a millisecond or two of work, before it serves others; a client "
    "on a busy core waits some 4 to 7 ms for an idle server, too",
    "G14a": "an approval costs some 0.2 ms of Python, nearly half of it deciding and a third writing its "
    "five rows; a shared transaction saves only the rest",
    "G14b": "32 callers wait for the same batch, so each waits for the Python of all: 32 times some 0.2 ms",
    "G16a": "importing asyncio takes some 60 ms, creating our dataclasses some 45 ms",
    "G16b": "the time includes the management API with its certificates, until the ready file is written",
}

_INTRODUCTION = """\
Every machine of a fleet polls about once a second, so the cost of a poll is the cost of the service. This
page is the result of `./dev bench {words}` on {at:%Y-%m-%d} at {at:%H:%M} UTC. Only that command writes it;
run it to measure your own machine."""

_METHOD = """\
* The claims are ratios within one run. Our server and the references are measured in alternating rounds.
  The references are nginx with a constant answer (where it is installed), Python's `http.server`, and the
  smallest ASGI application on uvicorn. They identify no callers, check nothing and keep no state, so they
  are limits and not equals.
* The ratios compare the server's CPU time per answered request, from the scheduler's account of all its
  threads. Wall rates vary with the other load of a shared machine, CPU time hardly does.
* For polls, the server has one core and the load another. The load is one Python process with one epoll, in
  which each caller has a source address of its own. At a fixed rate, waits count from the instant a poll
  was due.
* A figure is the median of its rounds, with the lowest and the highest in brackets. A ratio is *noisy* if
  its reference varied by more than 30 %. Growth is the slope of cost against size, both logarithmic: 0 is
  no growth, 1 is in proportion.
* Everything runs over loopback. Not measured: networks, several server computers."""


def write(
    docs: Path, sections: Sequence[Section], context: Mapping[str, Json], at: datetime, words: str
) -> Path:
    """Write the page and its plots; return the path of the page."""
    plots = _plots(sections)
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    for name, picture in plots.items():
        (folder / f"{name}.svg").write_text(picture)
    page = docs / PAGE
    page.write_text(markdown(sections, context, at, words, list(plots)))
    return page


def markdown(
    sections: Sequence[Section], context: Mapping[str, Json], at: datetime, words: str, plots: Sequence[str]
) -> str:
    """Return the page."""
    results = report.judge(sections)
    pictures = [f"![{PLOTS[name][0]}]({FOLDER}/{name}.svg)" for name in plots]
    blocks = [
        "# Performance",
        _INTRODUCTION.format(words=words, at=at),
        f"The machine: {report.conditions(context)}.",
        "## Goals",
        report.goals_table(results),
        "## Missed goals",
        _missed(results),
        *(["## Growth", *pictures] if pictures else []),
        "## Method",
        _METHOD,
        *report.details(sections),
    ]
    return "\n\n".join(blocks) + "\n"


def _missed(results: Sequence[GoalResult]) -> str:
    lines = [
        f"* **{result.id}**, {result.goal.what}: {report.show(result.spread)} {result.goal.unit}, where "
        f"{result.goal.better} {result.goal.must:g} is promised{_because(result.id)}."
        for result in results
        if result.spread is not None and result.verdict is Verdict.SHORT
    ]
    missing = [result.id for result in results if result.spread is None]
    lines += [f"* Not measured in this run: {', '.join(missing)}."] if missing else []
    return "\n".join(lines) or "Nothing."


def _because(goal: str) -> str:
    return f": {REASONS[goal]}" if goal in REASONS else ""


def _plots(sections: Sequence[Section]) -> dict[str, str]:
    curves = [curve for section in sections for curve in section.curves]
    return {
        name: svg(title, size, [curve for curve in curves if curve.plot == name])
        for name, (title, size) in PLOTS.items()
        if any(curve.plot == name for curve in curves)
    }
