"""Goals are one table, which the pages of the bench and the tests read."""

import re
import xml.etree.ElementTree as ElementTree
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from bench import page, plot, report
from bench.goals import GOALS, Better, Goal, Verdict
from bench.report import Claim, Curve, Figure, Section

DOCS = Path(__file__).parents[2] / "docs"

MORE = Goal("speed", "× theirs", Better.MORE, must=0.8, aim=0.9)
LESS = Goal("memory", "KB", Better.LESS, must=1.0, aim=0.5)
PLAIN = Goal("growth", "exponent", Better.LESS, must=0.05)


def section(*figures: Figure, claims: tuple[Claim, ...] = (), curves: tuple[Curve, ...] = ()) -> Section:
    return Section(title="poll", reading="Read.", claims=claims, figures=figures, curves=curves)


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        pytest.param(MORE, 0.9, Verdict.AIM, id="as much as is aimed for is the aim"),
        pytest.param(MORE, 0.8, Verdict.MET, id="as much as it must be is enough"),
        pytest.param(MORE, 0.79, Verdict.SHORT, id="less is too little"),
        pytest.param(LESS, 0.5, Verdict.AIM, id="as little as is aimed for is the aim"),
        pytest.param(LESS, 1.0, Verdict.MET, id="as little as it must be is enough"),
        pytest.param(LESS, 1.01, Verdict.SHORT, id="more is too much"),
        pytest.param(PLAIN, -0.1, Verdict.MET, id="without an aim one can only meet the goal"),
    ],
)
def test_a_figure_is_judged_by_what_it_must_be(goal: Goal, value: float, verdict: Verdict) -> None:
    assert goal.verdict(value) is verdict


@pytest.mark.parametrize(
    ("goal", "value", "kept"),
    [
        pytest.param(MORE, 0.4, True, id="half of what it must be passes"),
        pytest.param(MORE, 0.39, False, id="less than half does not"),
        pytest.param(LESS, 2.0, True, id="twice of what it may be passes"),
        pytest.param(LESS, 2.1, False, id="more than twice does not"),
    ],
)
def test_a_build_asks_for_half_of_every_goal(goal: Goal, value: float, kept: bool) -> None:
    assert goal.half_kept(value) is kept


@pytest.mark.parametrize("name", GOALS)
def test_an_aim_is_never_easier_than_the_promise(name: str) -> None:
    goal = GOALS[name]

    assert goal.aim is None or goal.keeps(goal.aim, goal.must)


def test_a_goal_is_judged_by_the_median_of_what_carries_its_name() -> None:
    claim = Claim(name="keep-alive", against="nginx", values=(0.7, 0.81, 0.9), noisy=True, goal="G1")
    figure = Figure(name="memory", unit="KB", values=(3.0,), goal="G9")

    judged = {result.id: result for result in report.judge([section(figure, claims=(claim,))])}

    assert list(judged) == list(GOALS)
    assert (judged["G1"].verdict, judged["G1"].noisy) == (Verdict.MET, True)
    assert (judged["G9"].verdict, judged["G9"].noisy) == (Verdict.SHORT, False)
    assert judged["G2"].verdict is None


def test_the_page_lists_missed_and_unmeasured_goals(tmp_path: Path, noon: datetime) -> None:
    figure = Figure(name="memory", unit="KB", values=(3.0,), goal="G9")
    curve = Curve(plot="machines", name="poll", unit="µs CPU", points={1000: 9.0, 10_000: 10.0})

    written = page.write(
        tmp_path, [section(figure, curves=(curve,))], {"cores": 2}, noon, "--quick"
    ).read_text()

    assert "the result of `./dev bench --quick` on 2026-11-16" in written
    assert "* **G9**, memory per idle watcher: 3.00 [3.00..3.00] KB, where ≤ 1 is promised." in written
    assert "Not measured in this run: G1, G2," in written
    assert "](performance/machines.svg)" in written
    assert "poll (µs CPU)" in (tmp_path / "performance" / "machines.svg").read_text()


def test_the_page_in_the_docs_has_every_goal() -> None:
    written = (DOCS / page.PAGE).read_text()

    rows = re.findall(r"^\| (G\d+[a-z]?) \| ([^|]+) \| [^|]+ \| ([^|]+) \|", written, re.MULTILINE)
    assert {name: (what, must) for name, what, must in rows} == {
        name: (goal.what, f"{goal.better} {goal.must:g}") for name, goal in GOALS.items()
    }


def test_the_page_in_the_docs_shows_the_plots_that_are_there() -> None:
    written = (DOCS / page.PAGE).read_text()

    shown = set(re.findall(r"\]\((performance/\w+\.svg)\)", written))
    assert shown == {f"{page.FOLDER}/{file.name}" for file in (DOCS / page.FOLDER).iterdir()}


def test_a_plot_has_a_line_and_a_name_for_every_curve() -> None:
    curves = [
        Curve(plot="p", name=f"curve <{number}>", unit="µs", points={10: number, 1000: 2.0 * number})
        for number in (1, 2, 3)
    ]

    drawn = ElementTree.fromstring(plot.svg("Costs & sizes", "machines", curves))

    kinds = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert kinds.count("polyline") == 3
    assert {element.text for element in drawn.iter() if element.text} >= {
        "Costs & sizes",
        "machines",
        "curve <1> (µs)",
    }


def test_names_of_curves_that_end_together_do_not_touch() -> None:
    curves = [Curve(plot="p", name=str(number), unit="µs", points={10: 1.0, 100: 5.0}) for number in range(3)]

    drawn = ElementTree.fromstring(plot.svg("Costs", "machines", curves))

    heights = [
        float(element.attrib["y"])
        for element in drawn.iter()
        if element.text and element.text.endswith("(µs)")
    ]
    assert [below - above for above, below in pairwise(heights)] == [15.0, 15.0]


def test_an_axis_holds_whole_decades() -> None:
    axis = plot.axis([30.0, 400.0], begin=0.0, end=200.0)

    assert list(axis.decades()) == [10.0, 100.0, 1000.0]
    assert axis.place(100.0) == pytest.approx(100.0)
