"""Scenarios as people write them: a file, its types, and what is said when one makes no sense.

A scenario brings up a fleet, runs the handler on some of its machines, takes steps one after the other, and
says what it expects. Everything here is data; the JSON schema is made from these types.
"""

import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Meta, Struct

from fairwarning.core.causes import CAUSES
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.inputs import parse_duration

SUFFIX = ".toml"
_FOLDER = files("fairwarning.check") / "scenarios"

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$", description="lower case, with hyphens")]
Rule = Annotated[str, Meta(pattern=r"^[A-Z]-[0-9]{2}a?$", description="a rule of docs/rules.md, like C-06")]
Sentence = Annotated[str, Meta(min_length=1, max_length=300)]
Machine = Annotated[str, Meta(min_length=1, max_length=80, description="a machine, as guests see it: web_0")]
Label = Annotated[str, Meta(min_length=1, max_length=40, description="what a step calls its events")]
Time = Annotated[str, Meta(pattern=r"^[0-9]{1,5}[smh]$", description="30s, 15m or 1h")]
Count = Annotated[int, Meta(ge=1, le=100)]
Speed = Annotated[float, Meta(ge=0.01, le=100_000)]


class _Table(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file; members it does not know are refused."""


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
    """The machines there are, and how their server behaves; as the options of ``fairwarning up``."""

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
        """The machines, as guests see them (S-06)."""
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
    """How the drain or recover hook that the handler is offered behaves."""

    takes: Length = "1s"
    takes_on: dict[Machine, Length] = {}
    fails: bool = False


Moment: TypeAlias = Literal[
    "ready", "draining", "drained", "approved", "started", "gone", "recovered", "healed"
]


class When(_Table, frozen=True, kw_only=True):
    """When something is due: a while (``at``) after a moment, else after the step before it.

    A moment has come once it holds for every event that was caused so far, or for those called ``of``.
    ``latest`` bounds the wait for handlers that never bring the moment about.
    """

    after: Moment | None = None
    of: Label | None = None
    at: Length = "0s"
    latest: Length | None = None


class ScenarioStep(When, tag_field="do", frozen=True, kw_only=True):
    """Something that is done to the fleet or to a handler."""


class CauseStep(ScenarioStep, tag="cause", frozen=True, kw_only=True):
    """Do something to machines that is announced to them."""

    cause: str
    machines: Annotated[list[Machine], Meta(min_length=1)]
    notice: Time | None = None
    label: Label | None = None

    @property
    def called(self) -> str:
        """What later steps and expectations call the events."""
        return self.label or self.cause


class CancelStep(ScenarioStep, tag="cancel", frozen=True, kw_only=True):
    """Withdraw events that have not started."""

    event: Label


class ApproveStep(ScenarioStep, tag="approve", frozen=True, kw_only=True):
    """Approve events as another machine, or as the operator."""

    event: Label
    by: Machine | None = None


class FaultStep(ScenarioStep, tag="fault", frozen=True, kw_only=True):
    """Let the endpoint of machines misbehave for a while; of all that have a handler, unless named."""

    fault: Literal["429", "410", "500", "empty", "reset", "timeout", "slow", "late", "restart"]
    lasts: Length
    delay: Time = "2s"
    machines: list[Machine] = []


class KillStep(ScenarioStep, tag="kill", frozen=True, kw_only=True):
    """Kill a handler, with SIGKILL; of all machines that have one, unless named."""

    machines: list[Machine] = []


class StartStep(ScenarioStep, tag="start", frozen=True, kw_only=True):
    """Start a handler again that was killed."""

    machines: list[Machine] = []


class RebootStep(ScenarioStep, tag="reboot", frozen=True, kw_only=True):
    """Kill a handler and start it again, as its machine's reboot does."""

    machines: list[Machine] = []
    down: Length = "1s"


Action: TypeAlias = CauseStep | CancelStep | ApproveStep | FaultStep | KillStep | StartStep | RebootStep


class Expectation(_Table, tag_field="expect", frozen=True, kw_only=True):
    """What a safe handler does: on one machine or on all, about one event or all of them."""

    rule: Rule
    machine: Machine | None = None
    event: Label | None = None


class Approves(Expectation, tag="approves", frozen=True, kw_only=True):
    """Approves the event in time: ``within`` a while, else before the event starts by itself."""

    within: Length | None = None
    since: Literal["announced", "healed"] = "announced"


class NeverApproves(Expectation, tag="never-approves", frozen=True, kw_only=True):
    """Does not even ask for the event to start."""


class ApprovesOnce(Expectation, tag="approves-once", frozen=True, kw_only=True):
    """Does not approve again what has been accepted or refused."""


class ApprovesOnlyAfterDrain(Expectation, tag="approves-only-after-drain", frozen=True, kw_only=True):
    """Approves nothing before every machine with a handler that the event names has been drained."""


class NeverDrains(Expectation, tag="never-drains", frozen=True, kw_only=True):
    """Leaves the machine at work."""


class Reads(Expectation, tag="reads", frozen=True, kw_only=True):
    """Has read of the event within a while of its announcement."""

    within: Length


class Recovers(Expectation, tag="recovers", frozen=True, kw_only=True):
    """Puts the machine back to work within a while of the event's end, if it was drained."""

    within: Length = "20s"


class StaysDrained(Expectation, tag="stays-drained", frozen=True, kw_only=True):
    """Does not put the machine back to work before the event has gone."""


class AsksAtMost(Expectation, tag="asks-at-most", frozen=True, kw_only=True):
    """Sends no more requests than this in any such while; all the time, or only while a fault lasts."""

    requests: Count
    per: Length
    during: Literal["always", "fault"] = "always"


class KeepsAsking(Expectation, tag="keeps-asking", frozen=True, kw_only=True):
    """Never lets a longer while pass without a request under way."""

    within: Length


class KeepsRunning(Expectation, tag="keeps-running", frozen=True, kw_only=True):
    """Does not end by itself."""


AboutEvents: TypeAlias = (
    Approves
    | NeverApproves
    | ApprovesOnce
    | ApprovesOnlyAfterDrain
    | NeverDrains
    | Reads
    | Recovers
    | StaysDrained
)
Expected: TypeAlias = AboutEvents | AsksAtMost | KeepsAsking | KeepsRunning


class Scenario(_Table, frozen=True, kw_only=True):
    """One story that is played to a handler."""

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


class UnplayableError(FairWarningError):
    """A scenario makes no sense, or there is none of this name."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


def seconds(time: Time) -> timedelta:
    """Return how long a length is."""
    return parse_duration(time)


def standard() -> tuple[str, ...]:
    """Return the names of the standard suite, as it is played."""
    return tuple(
        sorted(entry.name.removesuffix(SUFFIX) for entry in _FOLDER.iterdir() if _is_one(entry.name))
    )


def text(name: str) -> str:
    """Return the file of a standard scenario, or the one at a path, as it stands.

    Raises:
        Unplayable: there is none, or it cannot be read.
    """
    if name in standard():
        return (_FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    if not _is_one(name):
        raise UnplayableError(name, "no standard scenario is called so, and it is no .toml file")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UnplayableError(name, f"cannot be read: {problem}") from None


def load(name: str) -> Scenario:
    """Return a standard scenario, or the one in a file.

    Raises:
        Unplayable: it makes no sense; the message names the file, the table and the member.
    """
    try:
        return understand(name, tomllib.loads(text(name)))
    except tomllib.TOMLDecodeError as problem:
        raise UnplayableError(name, f"is no TOML: {problem}") from None


def understand(name: str, content: dict[str, Json]) -> Scenario:
    """Return the scenario that the content of a file describes.

    Raises:
        Unplayable: it makes no sense.
    """
    try:
        scenario = msgspec.convert(content, Scenario)
    except msgspec.ValidationError as problem:
        said, _, where = str(problem).partition(" - at `$")
        raise UnplayableError(f"{name}{f': {where[1:-1]}' if where else ''}", said) from None
    for where, complaint in _complaints(scenario):
        raise UnplayableError(f"{name}: {where}", complaint)
    return scenario


@cache
def schema() -> dict[str, Json]:
    """Return the JSON schema of a scenario."""
    made: dict[str, Json] = msgspec.json.schema(Scenario)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fairwarning scenario",
        **made,
    }


def _is_one(name: str) -> bool:
    return name.endswith(SUFFIX)


def _complaints(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what the types cannot say: names that nothing in the scenario bears, or that stand twice."""
    yield from _known("handlers", scenario.fleet.machines, *scenario.handlers)
    for name, count in Counter(scenario.handlers).items():
        if count > 1:
            yield "handlers", f"{name!r} stands there {count} times"
    for where, hook in (("drain", scenario.drain), ("recover", scenario.recover)):
        yield from _known(f"{where}.takes_on", scenario.handlers, *hook.takes_on)
    labels: list[str] = []
    for number, step in enumerate(scenario.steps):
        yield from _about_step(f"steps[{number}]", step, scenario, labels)
        if isinstance(step, CauseStep):
            labels.append(step.called)
    yield from _known("ends.of", labels, scenario.ends.of)
    for number, one in enumerate(scenario.expect):
        yield from _known(f"expect[{number}].event", labels, one.event)
        yield from _known(f"expect[{number}].machine", scenario.handlers, one.machine)


def _about_step(
    where: str, step: Action, scenario: Scenario, labels: Sequence[str]
) -> Iterator[tuple[str, str]]:
    machines = scenario.fleet.machines
    yield from _known(f"{where}.of", labels, step.of)
    match step:
        case CauseStep():
            yield from _known(f"{where}.cause", CAUSES, step.cause)
            yield from _known(f"{where}.machines", machines, *step.machines)
        case CancelStep():
            yield from _known(f"{where}.event", labels, step.event)
        case ApproveStep():
            yield from _known(f"{where}.event", labels, step.event)
            yield from _known(f"{where}.by", machines, step.by)
        case FaultStep():
            yield from _known(f"{where}.machines", machines, *step.machines)
        case KillStep() | StartStep() | RebootStep():
            yield from _known(f"{where}.machines", scenario.handlers, *step.machines)
        case _:
            assert_never(step)


def _known(where: str, known: Collection[str], *names: str | None) -> Iterator[tuple[str, str]]:
    for name in names:
        if name is not None and name not in known:
            yield where, f"{name!r} is not one of {', '.join(known) or 'none'}"
