"""The metrics of several workers as one."""

from collections.abc import Mapping

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample
from fairwarning.supervisor.metrics import CombinedMetrics


def counter(name: str, value: float, **labels: str) -> MetricFamily:
    return MetricFamily(name, MetricType.COUNTER, "Help.", (Sample(value, labels),))


def gauge(name: str, value: float, **labels: str) -> MetricFamily:
    return MetricFamily(name, MetricType.GAUGE, "Help.", (Sample(value, labels),))


def values(metrics: CombinedMetrics) -> Mapping[str, list[tuple[float, dict[str, str]]]]:
    return {
        family.name: [(sample.value, dict(sample.labels)) for sample in family.samples]
        for family in metrics.families()
    }


def test_what_workers_counted_is_added_by_its_labels() -> None:
    metrics = CombinedMetrics()

    metrics.report(1, 0, [counter("answers_total", 3, status="2xx")])
    metrics.report(2, 1, [counter("answers_total", 4, status="2xx"), counter("rests_total", 1)])
    metrics.report(3, 2, [counter("answers_total", 5, status="4xx")])

    assert values(metrics) == {
        "answers_total": [(7, {"status": "2xx"}), (5, {"status": "4xx"})],
        "rests_total": [(1, {})],
    }


def test_facts_about_the_fleet_are_not_added() -> None:
    metrics = CombinedMetrics()

    for number, lines in enumerate((40, 42, 41)):
        facts = [
            gauge("fairwarning_machines", 8, kind="scale-set"),
            counter("fairwarning_journal_lines_total", lines),
        ]
        metrics.report(number, number, facts)

    assert values(metrics) == {
        "fairwarning_machines": [(8, {"kind": "scale-set"})],
        "fairwarning_journal_lines_total": [(42, {})],
    }


def test_open_connections_are_added_and_other_gauges_name_their_worker() -> None:
    metrics = CombinedMetrics()

    for worker in (0, 1):
        metrics.report(
            worker, worker, [gauge("fairwarning_metadata_connections", 10), gauge("lag", worker, node="a")]
        )

    assert values(metrics) == {
        "fairwarning_metadata_connections": [(20, {})],
        "lag": [(0, {"node": "a", "worker": "0"}), (1, {"node": "a", "worker": "1"})],
    }


def test_the_counters_of_ended_processes_stay_and_their_gauges_go() -> None:
    metrics = CombinedMetrics()
    metrics.report(1, 0, [counter("answers_total", 3), gauge("fairwarning_streams", 1), gauge("lag", 5)])
    metrics.report(2, 1, [counter("answers_total", 4), gauge("fairwarning_streams", 1), gauge("lag", 6)])

    metrics.forget_others({2})
    alone = values(metrics)
    metrics.report(3, 0, [counter("answers_total", 1), gauge("lag", 7)])
    metrics.forget_others({2, 3})
    together = values(metrics)
    metrics.forget_others(())

    assert alone == {
        "answers_total": [(7, {})],
        "fairwarning_streams": [(1, {})],
        "lag": [(6, {"worker": "1"})],
    }
    assert together["answers_total"] == [(8, {})]
    assert values(metrics) == {"answers_total": [(8, {})]}


def test_an_answer_that_comes_after_the_end_of_its_process_counts_once() -> None:
    metrics = CombinedMetrics()
    metrics.report(1, 0, [counter("answers_total", 3)])
    metrics.forget_others({2})

    metrics.report(1, 0, [counter("answers_total", 3)])
    metrics.report(2, 0, [counter("answers_total", 4)])
    metrics.forget_others({2})

    assert values(metrics) == {"answers_total": [(7, {})]}


def test_the_newer_of_two_processes_in_a_place_gives_the_gauge() -> None:
    metrics = CombinedMetrics()

    metrics.report(7, 0, [gauge("lag", 1)])
    metrics.report(2, 0, [gauge("lag", 9)])

    assert values(metrics) == {"lag": [(1, {"worker": "0"})]}
