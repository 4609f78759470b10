"""``docs/performance.md`` and its plots: what one run found, with what it has to be and what falls short."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench import growth, pending, report
from bench.goals import Verdict
from bench.plot import svg
from bench.report import Json, Judged, Section

PAGE = "performance.md"
FOLDER = "performance"

#: Each plot: its title, and what it is drawn against.
PLOTS: Mapping[str, tuple[str, str]] = {
    growth.PLOT: ("What more machines cost", "machines"),
    pending.PLOT: ("What more events cost", "events, pending in the fleet or in one scope"),
}

#: Why a goal is missed, as far as it is known; told only when it is.
REASONS: Mapping[str, str] = {
    "G3": "the lines that nobody looks at are still checked, in Python; a known head is only looked up",
    "G4b": "most of it is asyncio's own: a task, a transport and several turns of its loop per connection",
    "G7": "it is time and not CPU, so whatever else ran on the server's core is in it; about half of it is "
    "the bare write",
    "G8": "64 wake-ups, after which everybody else gets a turn, are a millisecond or two; a client whose "
    "core is busy waits some 4 to 7 ms for an idle server, too",
    "G14a": "an approval costs some 0.2 ms of Python, nearly half of it deciding and a third writing its "
    "five rows; sharing the transaction saves only the rest",
    "G14b": "32 callers move in step, so each waits for the Python of all: 32 times some 0.2 ms",
    "G16a": "importing asyncio takes some 60 ms of it, making our dataclasses some 45",
    "G16b": "until the ready file is written, the management face with its certificates included",
}

_INTRODUCTION = """\
Every machine of a fleet polls about once a second, so a poll is what the service costs. This page is what
`./dev bench {words}` found on {at:%Y-%m-%d} at {at:%H:%M} UTC; that command writes it, and nothing else does.
Run it to have the page of your own machine."""

_METHOD = """\
* Ratios of one run are the claims. References run beside us, in rounds that take turns: nginx answering a
  constant (where it is installed), Python's `http.server`, and the smallest ASGI application on uvicorn. They
  know no callers, check nothing and keep no state, so they are limits and not equals.
* What is compared is the server's CPU time per answered request, from the scheduler's account of all its
  threads: wall rates swing with the neighbours of a shared machine, CPU cost hardly does.
* Where polls are counted, the server has one core and the load another. The load is one Python process with
  one epoll, in which every caller has a source address of its own; at a fixed rate, waits are counted from
  the instant a poll was due.
* A figure is the median of its rounds, with the lowest and the highest in brackets. A ratio is *noisy* when
  its reference varied by more than 30 %. Growth is the slope of cost against size, both logarithmic: 0 is no
  growth, 1 is in proportion.
* Everything runs over loopback. Not measured: networks, several server processes, PostgreSQL."""


def write(
    docs: Path, sections: Sequence[Section], context: Mapping[str, Json], at: datetime, words: str
) -> Path:
    """Write the page and its plots; return where the page is."""
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
    judged = report.judge(sections)
    pictures = [f"![{PLOTS[name][0]}]({FOLDER}/{name}.svg)" for name in plots]
    blocks = [
        "# Performance",
        _INTRODUCTION.format(words=words, at=at),
        f"The machine: {report.conditions(context)}.",
        "## Goals",
        report.goals_table(judged),
        "## What falls short",
        _short(judged),
        *(["## How cost grows", *pictures] if pictures else []),
        "## Method",
        _METHOD,
        *report.details(sections),
    ]
    return "\n\n".join(blocks) + "\n"


def _short(judged: Sequence[Judged]) -> str:
    lines = [
        f"* **{one.id}**, {one.goal.what}: {report.show(one.found)} {one.goal.unit}, where "
        f"{one.goal.better} {one.goal.must:g} is promised{_because(one.id)}."
        for one in judged
        if one.found is not None and one.verdict is Verdict.SHORT
    ]
    missing = [one.id for one in judged if one.found is None]
    lines += [f"* Not measured in this run: {', '.join(missing)}."] if missing else []
    return "\n".join(lines) or "Nothing."


def _because(goal: str) -> str:
    return f": {REASONS[goal]}" if goal in REASONS else ""


def _plots(sections: Sequence[Section]) -> dict[str, str]:
    curves = [curve for section in sections for curve in section.curves]
    return {
        name: svg(title, size, [one for one in curves if one.plot == name])
        for name, (title, size) in PLOTS.items()
        if any(one.plot == name for one in curves)
    }
