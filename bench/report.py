"""What was found, as a page for people and as data: ratios are the claims, everything else is context."""

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
    """An absolute figure of this machine and this hour, one value per round; ``goal`` names its goal."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ratio of two figures of the same run, one value per round; ``goal`` names its goal."""

    name: str
    against: str
    values: tuple[float, ...]
    noisy: bool
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What something costs at several sizes; curves of one ``plot`` are drawn together."""

    plot: str
    name: str
    unit: str
    points: Mapping[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one suite found; ``reading`` says what its ratios mean."""

    title: str
    reading: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()

    @property
    def measured(self) -> tuple[Claim | Figure, ...]:
        """Everything that may have a goal."""
        return (*self.claims, *self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was found about a goal; nothing, if its suite did not run or lacked its reference."""

    id: str
    goal: Goal
    found: Spread | None = None
    noisy: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """How the goal was kept."""
        return None if self.found is None else self.goal.verdict(self.found.median)


def claim(name: str, against: str, above: Figure, below: Figure, reference: Figure, goal: str = "") -> Claim:
    """Return the ratio of two figures, round by round; it is only as good as its reference is steady."""
    return Claim(
        name=name,
        against=against,
        values=ratios(above.values, below.values),
        noisy=spread(reference.values).noisy,
        goal=goal,
    )


def judge(sections: Iterable[Section]) -> tuple[Judged, ...]:
    """Return every goal with what was found about it."""
    found = {one.goal: one for section in sections for one in section.measured}
    return tuple(_judged(id, goal, found.get(id)) for id, goal in GOALS.items())


def _judged(id: str, goal: Goal, found: Claim | Figure | None) -> Judged:
    if found is None:
        return Judged(id=id, goal=goal)
    noisy = isinstance(found, Claim) and found.noisy
    return Judged(id=id, goal=goal, found=spread(found.values), noisy=noisy)


def machine() -> dict[str, Json]:
    """Return on what the figures were taken."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0].partition(": ")[2] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nginx": _nginx_version(),
        "load": [round(one, 2) for one in os.getloadavg()],
    }


def _nginx_version() -> str | None:
    program = nginx_path()
    if program is None:
        return None
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    return told.strip().rpartition("/")[2]


def markdown(sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> str:
    """Return the page."""
    blocks = [f"# Bench, {at:%Y-%m-%d %H:%M} UTC", conditions(context)]
    blocks += ["## Goals", goals_table(one for one in judge(sections) if one.found)]
    return "\n\n".join([*blocks, *details(sections)]) + "\n"


def conditions(context: Mapping[str, Json]) -> str:
    """Return on what the figures were taken, in one line."""
    return ", ".join(f"{name} {value}" for name, value in context.items())


def goals_table(judged: Iterable[Judged]) -> str:
    """Return goals as a table, each with what it must be, what was found and how that stands."""
    header = ("goal", "what", "unit", "must", "aim", "median [min..max]", "verdict", "")
    return table(header, map(_goal_row, judged))


def details(sections: Iterable[Section]) -> Iterator[str]:
    """Yield, block by block, everything that every suite found."""
    for section in sections:
        yield from (f"## {section.title}", section.reading)
        if section.claims:
            header = ("claim", "against", "median [min..max]", "goal", "")
            yield table(header, map(_claim_row, section.claims))
        yield "Context, true of this machine at this hour only:"
        yield table(("figure", "median [min..max]", "unit", "goal"), map(_figure_row, section.figures))
        yield "\n".join(f"* {note}" for note in section.notes)


def data(sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> Json:
    """Return the page's content for programs, with the value of every round."""
    return {
        "at": at.isoformat(timespec="seconds"),
        "machine": context,
        "goals": {one.id: _goal_data(one) for one in judge(sections)},
        "suites": [_section_data(section) for section in sections],
    }


def save(folder: Path, sections: Sequence[Section], context: Mapping[str, Json], at: datetime) -> Path:
    """Keep the page and the data, named by the time; return where the page is."""
    folder.mkdir(exist_ok=True)
    page = folder / f"{at:%Y%m%dT%H%M%SZ}.md"
    page.write_text(markdown(sections, context, at))
    page.with_suffix(".json").write_text(json.dumps(data(sections, context, at), indent=2) + "\n")
    return page


def show(found: Spread) -> str:
    """Return a spread as people read it, with as many digits as one can believe."""
    return f"{_digits(found.median)} [{_digits(found.low)}..{_digits(found.high)}]"


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
                "name": one.name,
                "against": one.against,
                "noisy": one.noisy,
                "goal": one.goal,
                **_rounds(one.values),
            }
            for one in section.claims
        ],
        "figures": [
            {"name": one.name, "unit": one.unit, "goal": one.goal, **_rounds(one.values)}
            for one in section.figures
        ],
        "curves": [
            {"plot": one.plot, "name": one.name, "unit": one.unit, "points": list(one.points.items())}
            for one in section.curves
        ],
        "notes": section.notes,
    }


def _goal_data(one: Judged) -> Json:
    goal = one.goal
    return {
        "what": goal.what,
        "unit": goal.unit,
        "better": goal.better,
        "must": goal.must,
        "aim": goal.aim,
        "found": None if one.found is None else one.found.median,
        "verdict": one.verdict,
        "noisy": one.noisy,
    }


def _rounds(values: Sequence[float]) -> dict[str, Json]:
    found = spread(values)
    return {"median": found.median, "min": found.low, "max": found.high, "rounds": values}


def _goal_row(one: Judged) -> tuple[str, ...]:
    goal = one.goal
    aim = "" if goal.aim is None else f"{goal.better} {goal.aim:g}"
    found = "not measured" if one.found is None else f"**{show(one.found)}**"
    noise = "noisy" if one.noisy else ""
    return one.id, goal.what, goal.unit, f"{goal.better} {goal.must:g}", aim, found, one.verdict or "", noise


def _claim_row(one: Claim) -> tuple[str, ...]:
    noise = "noisy" if one.noisy else ""
    return one.name, one.against, f"**{show(spread(one.values))}**", one.goal, noise


def _figure_row(one: Figure) -> tuple[str, ...]:
    return one.name, show(spread(one.values)), one.unit, one.goal


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table as Markdown writes it."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
