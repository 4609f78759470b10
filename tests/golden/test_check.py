"""Golden files of the check: its verdicts on five invented handlers in every standard scenario."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fairwarning.check.judge import judge
from fairwarning.check.observations import Asked, CausedEvent, Hooked, Observed
from fairwarning.check.report import ScenarioResult, as_json, as_junit, lines, summary
from fairwarning.check.scenario import CauseStep, Scenario, load, standard
from fairwarning.core.model import EventId
from tests.check.observations import TIMING, after, drain, get, happen, life, observed, post, recover
from tests.golden.comparison import Golden

#: Returns what a handler does about an event, given its machine and the time of the announcement.
Handler = Callable[[str, EventId, float], Iterator[Asked | Hooked]]


def ignores(machine: str, event: EventId, at: float) -> Iterator[Asked | Hooked]:
    yield from ()


def hurries(machine: str, event: EventId, at: float) -> Iterator[Asked | Hooked]:
    yield drain(at + 1, at + 4, event, machine)
    yield post(at + 2, event, machine)
    yield post(at + 3, event, machine)


def takes_care(machine: str, event: EventId, at: float) -> Iterator[Asked | Hooked]:
    yield drain(at + 1, at + 2, event, machine)
    yield post(at + 3, event, machine)
    yield recover(at + 20, event, machine)


def only_drains(machine: str, event: EventId, at: float) -> Iterator[Asked | Hooked]:
    yield drain(at + 1, at + 2, event, machine)
    yield recover(at + 20, event, machine)


HANDLERS: dict[str, Handler | None] = {
    "never asks": None,
    "ignores events": ignores,
    "hurries": hurries,
    "takes care": takes_care,
    "only drains": only_drains,
}


def seen(scenario: Scenario, handler: Handler | None) -> Observed:
    """Return the observations of a handler while the events come one after another."""
    causes = [step for step in scenario.steps if isinstance(step, CauseStep)]
    events = [
        CausedEvent(
            id=EventId(f"E{number}"),
            label=step.events_label,
            cause=step.cause,
            resources=tuple(step.machines),
        )
        for number, step in enumerate(causes, 1)
    ]
    begun = {event.id: 25.0 * number + 1 for number, event in enumerate(events)}
    history = [
        happen(at + later, kind, event)
        for event, at in begun.items()
        for later, kind in ((0, "scheduled"), (10, "started"), (19, "finished"))
    ]
    lives = [replace(life(0), machine=machine) for machine in scenario.handlers]
    if handler is None:
        return observed(*history, *lives, events=tuple(events), served=())
    done: list[Asked | Hooked] = []
    for machine in scenario.handlers:
        for second in range(2, 60, 2):
            there = [event for event, at in begun.items() if at <= second < at + 19]
            done.append(get(second, *there, machine=machine))
        for event in events:
            if machine in event.resources:
                done += handler(machine, event.id, begun[event.id])
    done.sort(key=lambda one: one.begun)
    return observed(*history, *lives, *done, events=tuple(events), served=tuple(scenario.handlers))


def results(handler: Handler | None) -> list[ScenarioResult]:
    return [
        ScenarioResult(
            scenario=scenario,
            speed=TIMING.speed_of(scenario),
            took=after(12.3),
            verdicts=judge(scenario, seen(scenario, handler), TIMING),
        )
        for scenario in map(load, standard())
    ]


@pytest.mark.parametrize("name", HANDLERS)
def test_every_standard_scenario(name: str, golden: Golden) -> None:
    found = results(HANDLERS[name])
    text = [line for result in found for line in lines(result, 24)]

    golden(f"check/{name}", {"text": "\n".join([*text, summary(found)]), "json": as_json(found)})


def test_a_handler_that_does_nothing_is_nowhere_safe() -> None:
    assert [result.scenario.name for result in results(ignores) if result.word == "safe"] == []


def test_what_build_servers_read(golden: Golden) -> None:
    golden("check/junit", {"junit": as_junit(results(hurries)[:3])})
