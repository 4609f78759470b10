"""Metrics in the text format of Prometheus."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_UNESCAPED: Mapping[str, str] = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


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


def parse_metrics(text: str) -> list[MetricFamily]:
    """Return the families of a text that ``render_metrics`` has made.

    Raises:
        ValueError: the text is something else.
    """
    families: list[MetricFamily] = []
    helps: dict[str, str] = {}
    # Only a line feed ends a line: a label may hold other characters that end lines elsewhere.
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            _, _, name, helps[name] = line.split(" ", 3)
        elif line.startswith("# TYPE "):
            _, _, name, sort = line.split(" ")
            families.append(MetricFamily(name, MetricType(sort), helps.get(name, ""), ()))
        else:
            match = _SAMPLE.fullmatch(line)
            if match is None or not families or families[-1].name != match[1]:
                raise ValueError(f"no sample of the last family: {line!r}")
            family = families[-1]
            sample = Sample(float(match[3]), dict(map(_label, _LABEL.finditer(match[2] or ""))))
            families[-1] = family._replace(samples=(*family.samples, sample))
    return families


def _label(match: re.Match[str]) -> tuple[str, str]:
    return match[1], re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], match[2])
