"""Draws cost against size as a small SVG with logarithmic axes, without a plotting library."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.report import Curve

WIDTH, HEIGHT = 820, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 340, 40, 50

#: Colours that are distinguishable with colour vision deficiency and in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")

#: The minimum distance between the labels of two curves.
LINE = 15.0


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis of whole decades between two edges."""

    low: int
    high: int
    begin: float
    end: float

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def decades(self) -> Iterator[float]:
        """Yield the values of the grid lines."""
        return (10.0**power for power in range(self.low, self.high + 1))


def svg(title: str, size: str, curves: Sequence[Curve]) -> str:
    """Return a plot of curves against ``size``."""
    across = axis((x for curve in curves for x in curve.points), LEFT, WIDTH - RIGHT)
    up = axis((y for curve in curves for y in curve.points.values()), HEIGHT - BOTTOM, TOP)
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
    """Return an axis that holds all values, of at least one decade."""
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
    labels = _spread_labels([up.place(list(curve.points.values())[-1]) for curve in curves])
    for curve, label, colour in zip(curves, labels, COLOURS, strict=False):
        places = [(across.place(x), up.place(y)) for x, y in curve.points.items()]
        route = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
        yield _text(across.end + 10, label + 4, f"{curve.name} ({curve.unit})", "start", colour)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#000") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _spread_labels(heights: Sequence[float]) -> list[float]:
    """Return the heights of labels, moved down where a label would touch the one above it."""
    moved = dict.fromkeys(range(len(heights)), 0.0)
    above = -math.inf
    for number in sorted(moved, key=lambda number: heights[number]):
        above = moved[number] = max(heights[number], above + LINE)
    return list(moved.values())
