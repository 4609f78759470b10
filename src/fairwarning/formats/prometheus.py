"""Renders metrics in the text format of Prometheus."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class MetricType(StrEnum):
    """The type of a metric: a counter only grows, a gauge goes up and down."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Sample(NamedTuple):
    """A value of a metric family, identified by its labels."""

    value: float
    labels: Mapping[str, str] = MappingProxyType({})


class MetricFamily(NamedTuple):
    """The samples of one metric, with its type and help text."""

    name: str
    sort: MetricType
    help: str
    samples: tuple[Sample, ...]


def render_metrics(families: Iterable[MetricFamily]) -> str:
    """Return all families as one text."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: MetricFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.sort}"
    for sample in family.samples:
        yield f"{family.name}{_labels(sample.labels)} {sample.value:.15g}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()) + "}"
