"""Scenarios: the types of their files, how the files are read and checked, and their timing.

A scenario describes a fleet, the machines on which the handler runs, the steps to take one after the other,
and the expectations to judge. Everything here is data; the JSON schema is generated from these types.
"""

import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Meta, Struct

from fairwarning.core.causes import CAUSES, unknown_cause
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.inputs import parse_duration
from fairwarning.formats.suggestions import did_you_mean

SUFFIX = ".toml"
_FOLDER = files("fairwarning.check") / "scenarios"

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$", description="lower case, with hyphens")]
Rule = Annotated[str, Meta(pattern=r"^[A-Z]-[0-9]{2}a?$", description="a rule of docs/rules.md, like C-06")]
Sentence = Annotated[str, Meta(min_length=1, max_length=300)]
Machine = Annotated[str, Meta(min_length=1, max_length=80, description="the name of a machine, like web_0")]
Label = Annotated[
    str, Meta(min_length=1, max_length=40, description="the label of the events that a step causes")
]
Time = Annotated[str, Meta(pattern=r"^[0-9]{1,5}[smh]$", description="30s, 15m or 1h")]
Count = Annotated[int, Meta(ge=1, le=100)]
Speed = Annotated[float, Meta(ge=0.01, le=100_000)]


class _Table(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file; unknown members are an error."""


class Times(_Table, frozen=True, kw_only=True):
    """A length that ``--quick`` shortens."""

    full: Time
    quick: Time


class Speeds(_Table, frozen=True, kw_only=True):
    """A speed that ``--quick`` raises."""

    full: Speed
    quick: Speed


Length: TypeAlias = Time | Times


class FleetSpec(_Table, frozen=True, kw_only=True):
    """The machines, and the behaviour of their server; the same as the options of ``fairwarning up``."""

    scale_sets: dict[str, Count] = {}
    availability_sets: dict[str, Count] = {}
    vms: list[str] = []
    spot_vms: list[str] = []
    terminate_notice: Time | None = None
    timings: Literal["brief", "azure"] = "brief"
    first_call: Literal["none", "delay", "empty_body"] = "none"
    first_call_delay: Length = "0s"
    preview_version: bool = False

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines, as guests see them (S-06)."""
        return (
            *(f"{name}_{number}" for name, count in self.scale_sets.items() for number in range(count)),
            *(
                f"{name}-{number}"
                for name, count in self.availability_sets.items()
                for number in range(count)
            ),
            *self.vms,
            *self.spot_vms,
        )


class HookSpec(_Table, frozen=True, kw_only=True):
    """The behaviour of the drain or recover hook."""

    takes: Length = "1s"
    takes_on: dict[Machine, Length] = {}
    fails: bool = False


Moment: TypeAlias = Literal[
    "ready", "draining", "drained", "approved", "started", "gone", "recovered", "healed"
]


class When(_Table, frozen=True, kw_only=True):
    """When something is due: a time (``at``) after a moment, or after the previous step.

    A moment has come once it holds for every event caused so far, or for those with the label ``of``.
    ``latest`` limits the wait for a handler that never reaches the moment.
    """

    after: Moment | None = None
    of: Label | None = None
    at: Length = "0s"
    latest: Length | None = None


class ScenarioStep(When, tag_field="do", frozen=True, kw_only=True):
    """A step: an action on the fleet or on a handler."""


class CauseStep(ScenarioStep, tag="cause", frozen=True, kw_only=True):
    """Trigger an event on machines."""

    cause: str
    machines: Annotated[list[Machine], Meta(min_length=1)]
    notice: Time | None = None
    label: Label | None = None

    @property
    def events_label(self) -> str:
        """The label of the events, for later steps and expectations."""
        return self.label or self.cause


class CancelStep(ScenarioStep, tag="cancel", frozen=True, kw_only=True):
    """Cancel events that have not started."""

    event: Label


class ApproveStep(ScenarioStep, tag="approve", frozen=True, kw_only=True):
    """Approve events as another machine, or as the operator."""

    event: Label
    by: Machine | None = None


class FaultStep(ScenarioStep, tag="fault", frozen=True, kw_only=True):
    """Set a fault on the endpoints of machines, by default of all machines with a handler."""

    fault: Literal[
        "429", "410", "500", "empty", "plain-text", "no-events", "partial",
        "reset", "timeout", "slow", "late", "restart",
    ]  # fmt: skip
    lasts: Length
    delay: Time = "2s"
    machines: list[Machine] = []


class KillStep(ScenarioStep, tag="kill", frozen=True, kw_only=True):
    """Kill handlers with SIGKILL, by default all."""

    machines: list[Machine] = []


class StartStep(ScenarioStep, tag="start", frozen=True, kw_only=True):
    """Start killed handlers again, by default all."""

    machines: list[Machine] = []


class RebootStep(ScenarioStep, tag="reboot", frozen=True, kw_only=True):
    """Kill handlers and start them again, as a reboot of their machine does; by default all."""

    machines: list[Machine] = []
    down: Length = "1s"


Action: TypeAlias = CauseStep | CancelStep | ApproveStep | FaultStep | KillStep | StartStep | RebootStep


class Expectation(_Table, tag_field="expect", frozen=True, kw_only=True):
    """What a safe handler does, on one machine or all, about one event or all."""

    rule: Rule
    machine: Machine | None = None
    event: Label | None = None


class Approves(Expectation, tag="approves", frozen=True, kw_only=True):
    """Approves the event in time: ``within`` this time, or else before the event starts by itself.

    If no user waits for the event, a handler that drains and does not approve in time is slow, not unsafe.
    """

    within: Length | None = None
    since: Literal["announced", "healed"] = "announced"


class NeverApproves(Expectation, tag="never-approves", frozen=True, kw_only=True):
    """Sends no approval of the event."""


class ApprovesOnce(Expectation, tag="approves-once", frozen=True, kw_only=True):
    """Does not repeat an approval that was accepted or refused."""


class ApprovesOnlyAfterDrain(Expectation, tag="approves-only-after-drain", frozen=True, kw_only=True):
    """Approves the event only after every machine that it names and that has a handler is drained."""


class DrainsBeforeStart(Expectation, tag="drains-before-start", frozen=True, kw_only=True):
    """Begins the drain of the machine before the event starts."""


class NeverDrains(Expectation, tag="never-drains", frozen=True, kw_only=True):
    """Does not drain the machine for the event."""


class Reads(Expectation, tag="reads", frozen=True, kw_only=True):
    """Reads a document with the event ``within`` this time of its announcement."""

    within: Length


class Recovers(Expectation, tag="recovers", frozen=True, kw_only=True):
    """Recovers the machine ``within`` this time of the event's end, if it was drained."""

    within: Length = "20s"


class StaysDrained(Expectation, tag="stays-drained", frozen=True, kw_only=True):
    """Does not recover the machine before the event is gone."""


class AsksAtMost(Expectation, tag="asks-at-most", frozen=True, kw_only=True):
    """Sends at most this many requests in any period of this length, always or only during a fault."""

    requests: Count
    per: Length
    during: Literal["always", "fault"] = "always"


class KeepsAsking(Expectation, tag="keeps-asking", frozen=True, kw_only=True):
    """Is never without a request for longer than this."""

    within: Length


class KeepsRunning(Expectation, tag="keeps-running", frozen=True, kw_only=True):
    """Does not exit by itself, unless it has drained the machine for an eviction or a delete."""


AboutEvents: TypeAlias = (
    Approves
    | NeverApproves
    | ApprovesOnce
    | ApprovesOnlyAfterDrain
    | DrainsBeforeStart
    | NeverDrains
    | Reads
    | Recovers
    | StaysDrained
)
Expected: TypeAlias = AboutEvents | AsksAtMost | KeepsAsking | KeepsRunning


class Scenario(_Table, frozen=True, kw_only=True):
    """A test of a handler: a fleet, steps, and expectations."""

    name: Name
    summary: Sentence
    why: Annotated[str, Meta(min_length=1, max_length=600)]
    fleet: FleetSpec
    handlers: Annotated[list[Machine], Meta(min_length=1, max_length=10)]
    speed: Speed | Speeds
    ends: When
    limit: Length
    steps: Annotated[list[Action], Meta(min_length=1)]
    expect: Annotated[list[Expected], Meta(min_length=1)]
    api_version: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    drain: HookSpec = HookSpec()
    recover: HookSpec = HookSpec(takes="0s")


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a scenario runs: whether lengths are shortened, and a speed instead of the scenario's own.

    ``start_within`` is the time that a handler may take from its start to its first request.
    """

    quick: bool = False
    speed: float | None = None
    start_within: timedelta = timedelta(seconds=30)

    def length(self, length: Length) -> timedelta:
        """Return a length in wall time."""
        if isinstance(length, Times):
            return seconds(length.quick if self.quick else length.full)
        return seconds(length)

    def speed_of(self, scenario: Scenario) -> float:
        """Return the factor by which the fleet's durations are divided."""
        return self._own_speed(scenario) if self.speed is None else self.speed

    def limit(self, scenario: Scenario) -> timedelta:
        """Return the time limit of a scenario; it grows if the speed is below the scenario's own."""
        return self.length(scenario.limit) * max(1.0, self._own_speed(scenario) / self.speed_of(scenario))

    def _own_speed(self, scenario: Scenario) -> float:
        if isinstance(scenario.speed, Speeds):
            return scenario.speed.quick if self.quick else scenario.speed.full
        return scenario.speed


class UnplayableError(FairWarningError):
    """A scenario is invalid, or there is none of this name."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


def seconds(time: Time) -> timedelta:
    """Return a time as a duration."""
    return parse_duration(time)


def standard() -> tuple[str, ...]:
    """Return the names of the standard scenarios, in their order."""
    return tuple(
        sorted(
            entry.name.removesuffix(SUFFIX) for entry in _FOLDER.iterdir() if _is_scenario_file(entry.name)
        )
    )


def text(name: str) -> str:
    """Return the text of a standard scenario, or of the file at a path.

    Raises:
        UnplayableError: there is no such scenario, or the file cannot be read.
    """
    if name in standard():
        return (_FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    if not _is_scenario_file(name):
        raise UnplayableError(name, "is neither a standard scenario nor a .toml file")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UnplayableError(name, f"cannot be read: {problem}") from None


def load(name: str) -> Scenario:
    """Return a standard scenario, or the one in a file.

    Raises:
        UnplayableError: the scenario is invalid; the message names the file, the table and the member.
    """
    try:
        return parse_scenario(name, tomllib.loads(text(name)))
    except tomllib.TOMLDecodeError as problem:
        raise UnplayableError(name, f"is not valid TOML: {problem}") from None


def parse_scenario(name: str, content: dict[str, Json]) -> Scenario:
    """Return the scenario in the content of a file.

    Raises:
        UnplayableError: the scenario is invalid.
    """
    try:
        scenario = msgspec.convert(content, Scenario)
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).partition(" - at `$")
        raise UnplayableError(f"{name}{f': {where[1:-1]}' if where else ''}", message) from None
    for where, message in _problems(scenario):
        raise UnplayableError(f"{name}: {where}", message)
    return scenario


@cache
def schema() -> dict[str, Json]:
    """Return the JSON schema of a scenario."""
    generated: dict[str, Json] = msgspec.json.schema(Scenario)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fairwarning scenario",
        **{name: _without_indents(value) for name, value in generated.items()},
    }


def _without_indents(value: Json) -> Json:
    """Return a part of a schema whose texts, which may be docstrings, are not indented."""
    match value:
        case str():
            return cleandoc(value)
        case list():
            return [_without_indents(one) for one in value]
        case dict():
            return {name: _without_indents(one) for name, one in value.items()}
        case _:
            return value


def _is_scenario_file(name: str) -> bool:
    return name.endswith(SUFFIX)


def _problems(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the problems that the types cannot catch: unknown names, and handlers listed twice."""
    yield from _unknown_names("handlers", scenario.fleet.machines, *scenario.handlers)
    for name, count in Counter(scenario.handlers).items():
        if count > 1:
            yield "handlers", f"{name!r} is listed {count} times"
    for where, hook in (("drain", scenario.drain), ("recover", scenario.recover)):
        yield from _unknown_names(f"{where}.takes_on", scenario.handlers, *hook.takes_on)
    labels: list[str] = []
    for number, step in enumerate(scenario.steps):
        yield from _step_problems(f"steps[{number}]", step, scenario, labels)
        if isinstance(step, CauseStep):
            labels.append(step.events_label)
    yield from _unknown_names("ends.of", labels, scenario.ends.of)
    for number, expectation in enumerate(scenario.expect):
        yield from _unknown_names(f"expect[{number}].event", labels, expectation.event)
        yield from _unknown_names(f"expect[{number}].machine", scenario.handlers, expectation.machine)


def _step_problems(
    where: str, step: Action, scenario: Scenario, labels: Sequence[str]
) -> Iterator[tuple[str, str]]:
    machines = scenario.fleet.machines
    yield from _unknown_names(f"{where}.of", labels, step.of)
    match step:
        case CauseStep():
            if step.cause not in CAUSES:
                yield f"{where}.cause", unknown_cause(step.cause)
            yield from _unknown_names(f"{where}.machines", machines, *step.machines)
        case CancelStep():
            yield from _unknown_names(f"{where}.event", labels, step.event)
        case ApproveStep():
            yield from _unknown_names(f"{where}.event", labels, step.event)
            yield from _unknown_names(f"{where}.by", machines, step.by)
        case FaultStep():
            yield from _unknown_names(f"{where}.machines", machines, *step.machines)
        case KillStep() | StartStep() | RebootStep():
            yield from _unknown_names(f"{where}.machines", scenario.handlers, *step.machines)
        case _:
            assert_never(step)


def _unknown_names(where: str, known: Collection[str], *names: str | None) -> Iterator[tuple[str, str]]:
    for name in names:
        if name is not None and name not in known:
            yield where, f"{name!r} is not one of {', '.join(known) or 'none'}{did_you_mean(name, known)}"
