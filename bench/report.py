"""What was found, as a page for people and as data: ratios are the claims, everything else is context."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.measure import Spread, ratios, spread
from bench.references import nginx_path

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An absolute figure of this machine and this hour, one value per round."""

    name: str
    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ratio of two figures of the same run, one value per round."""

    name: str
    against: str
    values: tuple[float, ...]
    noisy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one suite found; ``reading`` says what its ratios mean."""

    title: str
    reading: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


def claim(name: str, against: str, above: Figure, below: Figure, reference: Figure) -> Claim:
    """Return the ratio of two figures, round by round; it is only as good as its reference is steady."""
    return Claim(
        name=name,
        against=against,
        values=ratios(above.values, below.values),
        noisy=spread(reference.values).noisy,
    )


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


def markdown(sections: Iterable[Section], context: Mapping[str, Json], at: datetime) -> str:
    """Return the page."""
    blocks = [f"# Bench, {at:%Y-%m-%d %H:%M} UTC"]
    blocks += [", ".join(f"{name} {value}" for name, value in context.items())]
    for section in sections:
        blocks += [f"## {section.title}", section.reading]
        blocks += [_table(("claim", "against", "median [min..max]", ""), map(_claim_row, section.claims))]
        blocks += ["Context, true of this machine at this hour only:"]
        blocks += [_table(("figure", "median [min..max]", "unit"), map(_figure_row, section.figures))]
        blocks += ["\n".join(f"* {note}" for note in section.notes)]
    return "\n\n".join(blocks) + "\n"


def data(sections: Iterable[Section], context: Mapping[str, Json], at: datetime) -> Json:
    """Return the page's content for programs, with the value of every round."""
    return {
        "at": at.isoformat(timespec="seconds"),
        "machine": context,
        "suites": [
            {
                "title": section.title,
                "reading": section.reading,
                "claims": [
                    {"name": one.name, "against": one.against, "noisy": one.noisy, **_rounds(one.values)}
                    for one in section.claims
                ],
                "figures": [
                    {"name": one.name, "unit": one.unit, **_rounds(one.values)} for one in section.figures
                ],
                "notes": section.notes,
            }
            for section in sections
        ],
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
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:,.0f}"


def _rounds(values: Sequence[float]) -> dict[str, Json]:
    found = spread(values)
    return {"median": found.median, "min": found.low, "max": found.high, "rounds": values}


def _claim_row(one: Claim) -> tuple[str, ...]:
    return one.name, one.against, f"**{show(spread(one.values))}**", "noisy" if one.noisy else ""


def _figure_row(one: Figure) -> tuple[str, ...]:
    return one.name, show(spread(one.values)), one.unit


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
