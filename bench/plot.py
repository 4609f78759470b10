"""Cost against size, drawn by hand: one small SVG with logarithmic axes that needs nothing else."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.report import Curve

WIDTH, HEIGHT = 820, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 340, 40, 50

#: Told apart by people who see colours differently, and in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")

#: Labels of curves that end close together are moved apart by as much.
LINE = 15.0


@dataclass(frozen=True, slots=True)
class Axis:
    """Whole decades between two edges."""

    low: int
    high: int
    begin: float
    end: float

    def place(self, value: float) -> float:
        """Return where a value is drawn."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def decades(self) -> Iterator[float]:
        """Yield the values that get a line."""
        return (10.0**power for power in range(self.low, self.high + 1))


def svg(title: str, size: str, curves: Sequence[Curve]) -> str:
    """Return a plot of curves against ``size``."""
    across = axis((x for one in curves for x in one.points), LEFT, WIDTH - RIGHT)
    up = axis((y for one in curves for y in one.points.values()), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_grid(across, up),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, size, "middle"),
        *_curves(curves, across, up),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def axis(values: Iterable[float], begin: float, end: float) -> Axis:
    """Return the decades that hold all values, at least one."""
    powers = [math.log10(value) for value in values]
    low = math.floor(min(powers))
    return Axis(low, max(math.ceil(max(powers)), low + 1), begin, end)


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    for value in across.decades():
        x = across.place(value)
        yield f'<path d="M{x:.1f} {up.begin}V{up.end}" stroke="#ddd"/>'
        yield _text(x, up.begin + 18, _tick(value), "middle", "#555")
    for value in up.decades():
        y = up.place(value)
        yield f'<path d="M{across.begin} {y:.1f}H{across.end}" stroke="#ddd"/>'
        yield _text(across.begin - 8, y + 4, _tick(value), "end", "#555")


def _curves(curves: Sequence[Curve], across: Axis, up: Axis) -> Iterator[str]:
    labels = _apart([up.place(list(one.points.values())[-1]) for one in curves])
    for one, label, colour in zip(curves, labels, COLOURS, strict=False):
        places = [(across.place(x), up.place(y)) for x, y in one.points.items()]
        route = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
        yield _text(across.end + 10, label + 4, f"{one.name} ({one.unit})", "start", colour)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _text(x: float, y: float, words: str, anchor: str, colour: str = "#000") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def _apart(wanted: Sequence[float]) -> list[float]:
    """Return the heights, from the top, moved down where they would touch the one above."""
    found = dict.fromkeys(range(len(wanted)), 0.0)
    above = -math.inf
    for number in sorted(found, key=lambda one: wanted[one]):
        above = found[number] = max(wanted[number], above + LINE)
    return list(found.values())
