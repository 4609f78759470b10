"""The results of a run as a page and as data: ratios are the claims, everything else is context."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.goals import GOALS, Goal, Verdict
from bench.measure import Spread, ratios, spread
from bench.references import nginx_path

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An absolute figure of this machine, one value per round; ``goal`` is the id of its goal."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ratio of two figures of the same run, one value per round; ``goal`` is the id of its goal."""

    name: str
    against: str
    values: tuple[float, ...]
    noisy: bool
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A cost at several sizes; curves of one ``plot`` are drawn together."""

    plot: str
    name: str
    unit: str
    points: Mapping[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The results of one suite; ``reading`` explains its ratios."""

    title: str
    reading: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()

    @property
    def measured(self) -> tuple[Claim | Figure, ...]:
        """The results that may have a goal."""
        return (*self.claims, *self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """The result for a goal; None if its suite did not run or its reference is not installed."""

    id: str
    goal: Goal
    spread: Spread | None = None
    noisy: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """Whether the goal was met."""
        return None if self.spread is None else self.goal.verdict(self.spread.median)


def claim(name: str, against: str, above: Figure, below: Figure, reference: Figure, goal: str = "") -> Claim:
    """Return the ratio of two figures, round by round; it is noisy if its reference is."""
    return Claim(
        name=name,
        against=against,
        values=ratios(above.values, below.values),
        noisy=spread(reference.values).noisy,
        goal=goal,
    )


def judge(sections: Iterable[Section]) -> tuple[GoalResult, ...]:
    """Return the result for each goal."""
    measured = {result.goal: result for section in sections for result in section.measured}
    return tuple(_goal_result(id, goal, measured.get(id)) for id, goal in GOALS.items())


def _goal_result(id: str, goal: Goal, measured: Claim | Figure | None) -> GoalResult:
    if measured is None:
        return GoalResult(id=id, goal=goal)
    noisy = isinstance(measured, Claim) and measured.noisy
    return GoalResult(id=id, goal=goal, spread=spread(measured.values), noisy=noisy)


def machine() -> dict[str, Json]:
    """Return a description of this machine."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0].partition(": ")[2] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nginx": _nginx_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _nginx_version() -> str | None:
    program = nginx_path()
    if program is None:
        return None
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    return version.strip().rpartition("/")[2]


def markdown(sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> str:
    """Return the page."""
    blocks = [f"# Bench, {at:%Y-%m-%d %H:%M} UTC", conditions(context)]
    blocks += ["## Goals", goals_table(result for result in judge(sections) if result.spread)]
    return "\n\n".join([*blocks, *details(sections)]) + "\n"


def conditions(context: Mapping[str, Json]) -> str:
    """Return the description of the machine in one line."""
    return ", ".join(f"{name} {value}" for name, value in context.items())


def goals_table(results: Iterable[GoalResult]) -> str:
    """Return goals as a table, each with its limits, its result and its verdict."""
    header = ("goal", "what", "unit", "must", "aim", "median [min..max]", "verdict", "")
    return table(header, map(_goal_row, results))


def details(sections: Iterable[Section]) -> Iterator[str]:
    """Yield all results of all suites, block by block."""
    for section in sections:
        yield from (f"## {section.title}", section.reading)
        if section.claims:
            header = ("claim", "against", "median [min..max]", "goal", "")
            yield table(header, map(_claim_row, section.claims))
        yield "Context, for this machine and this run only:"
        yield table(("figure", "median [min..max]", "unit", "goal"), map(_figure_row, section.figures))
        yield "\n".join(f"* {note}" for note in section.notes)


def data(sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> Json:
    """Return the page's content for programs, with the value of every round."""
    return {
        "at": at.isoformat(timespec="seconds"),
        "machine": context,
        "goals": {result.id: _goal_data(result) for result in judge(sections)},
        "suites": [_section_data(section) for section in sections],
    }


def save(folder: Path, sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> Path:
    """Save the page and the data, named by the time; return the path of the page."""
    folder.mkdir(exist_ok=True)
    page = folder / f"{at:%Y%m%dT%H%M%SZ}.md"
    page.write_text(markdown(sections, context, at))
    page.with_suffix(".json").write_text(json.dumps(data(sections, context, at), indent=2) + "\n")
    return page


def show(spread: Spread) -> str:
    """Return a spread as text, with the significant digits."""
    return f"{_digits(spread.median)} [{_digits(spread.low)}..{_digits(spread.high)}]"


def _digits(value: float) -> str:
    for limit, places in ((0.1, 3), (10, 2), (100, 1)):
        if abs(value) < limit:
            return f"{value:.{places}f}"
    return f"{value:,.0f}"


def _section_data(section: Section) -> Json:
    return {
        "title": section.title,
        "reading": section.reading,
        "claims": [
            {
                "name": claim.name,
                "against": claim.against,
                "noisy": claim.noisy,
                "goal": claim.goal,
                **_rounds(claim.values),
            }
            for claim in section.claims
        ],
        "figures": [
            {"name": figure.name, "unit": figure.unit, "goal": figure.goal, **_rounds(figure.values)}
            for figure in section.figures
        ],
        "curves": [
            {"plot": curve.plot, "name": curve.name, "unit": curve.unit, "points": list(curve.points.items())}
            for curve in section.curves
        ],
        "notes": section.notes,
    }


def _goal_data(result: GoalResult) -> Json:
    goal = result.goal
    return {
        "what": goal.what,
        "unit": goal.unit,
        "better": goal.better,
        "must": goal.must,
        "aim": goal.aim,
        "found": None if result.spread is None else result.spread.median,
        "verdict": result.verdict,
        "noisy": result.noisy,
    }


def _rounds(values: Sequence[float]) -> dict[str, Json]:
    rounds = spread(values)
    return {"median": rounds.median, "min": rounds.low, "max": rounds.high, "rounds": values}


def _goal_row(result: GoalResult) -> tuple[str, ...]:
    goal = result.goal
    aim = "" if goal.aim is None else f"{goal.better} {goal.aim:g}"
    must = f"{goal.better} {goal.must:g}"
    found = "not measured" if result.spread is None else f"**{show(result.spread)}**"
    noise = "noisy" if result.noisy else ""
    return result.id, goal.what, goal.unit, must, aim, found, result.verdict or "", noise


def _claim_row(claim: Claim) -> tuple[str, ...]:
    noise = "noisy" if claim.noisy else ""
    return claim.name, claim.against, f"**{show(spread(claim.values))}**", claim.goal, noise


def _figure_row(figure: Figure) -> tuple[str, ...]:
    return figure.name, show(spread(figure.values)), figure.unit, figure.goal


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
