"""Metrics in the text format of Prometheus."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample, parse_metrics, render_metrics

Read = list[tuple[str, str, str, dict[str, str], float]]


def read(text: str) -> Read:
    """Return the samples that Prometheus reads from a text: name, type, help, labels and value."""
    return [
        (sample.name, family.type, family.documentation, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def test_a_number_is_read_as_it_was_meant() -> None:
    family = MetricFamily(
        "polls_total", MetricType.COUNTER, "Polls that were answered", (Sample(3, {"status": "2xx"}),)
    )

    assert read(render_metrics([family])) == [
        ("polls_total", "counter", "Polls that were answered", {"status": "2xx"}, 3.0)
    ]


@pytest.mark.parametrize(
    "label",
    [
        pytest.param('say "hi"', id="quotation marks"),
        pytest.param("C:\\new", id="a backslash before a letter that could mean a line's end"),
        pytest.param("one\ntwo", id="a line's end"),
        pytest.param("größer}", id="letters of other languages, and a brace"),
    ],
)
def test_a_label_may_hold_anything(label: str) -> None:
    family = MetricFamily("events", MetricType.GAUGE, "Events", (Sample(1, {"name": label}),))

    assert [labels for _, _, _, labels, _ in read(render_metrics([family]))] == [{"name": label}]


@pytest.mark.parametrize("value", [0, 1, 123_456_789, 0.25, 2**49 + 1])
def test_a_number_loses_nothing(value: float) -> None:
    family = MetricFamily("machines", MetricType.GAUGE, "Machines", (Sample(value),))

    assert [number for *_, number in read(render_metrics([family]))] == [value]


def test_a_family_without_samples_still_has_its_help_and_type() -> None:
    family = MetricFamily("events", MetricType.GAUGE, "Events that are not over", ())

    assert render_metrics([family]) == "# HELP events Events that are not over\n# TYPE events gauge\n"


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
SAMPLES = st.builds(
    Sample,
    st.integers(0, 10**15).map(float) | st.floats(0, 1000).map(lambda number: float(f"{number:.15g}")),
    st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
)
FAMILIES = st.builds(
    MetricFamily, NAMES, st.sampled_from(MetricType), st.just("Help, with  blanks."), st.tuples(SAMPLES)
)


@settings(max_examples=25)
@given(st.lists(FAMILIES))
def test_what_was_rendered_is_parsed(families: list[MetricFamily]) -> None:
    assert parse_metrics(render_metrics(families)) == families


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(FAMILIES))
def test_of_many_metrics_what_was_rendered_is_parsed(families: list[MetricFamily]) -> None:
    assert parse_metrics(render_metrics(families)) == families


@pytest.mark.parametrize("text", ["oops\n", "polls 3\n", "# TYPE polls counter\nbeats 3\n"])
def test_a_text_that_is_no_metrics_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no sample"):
        parse_metrics(text)
