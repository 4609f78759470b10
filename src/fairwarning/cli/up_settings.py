"""From what ``up`` is asked for to the settings of a server."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

import click

from fairwarning.cli.output import FailureError
from fairwarning.config import SHORTEST_TOKEN, Settings, arm_address, is_token
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.recording import (
    MachineRecording,
    RecordingError,
    parse_recording,
    split_by_machine,
)
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import ScopeKind
from fairwarning.core.policy import DEFAULT_RETENTION, PROFILES, FirstCall, Profile, Retention, with_speed

#: S-01: all roles of a cloud service are one scope, which needs a name.
CLOUD_SERVICE = "cloud-service"

#: R-25: switching on takes two minutes at most.
LONGEST_FIRST_CALL = timedelta(minutes=2)

Counted = tuple[str, int]


class FleetOptions(TypedDict):
    """The machines there are to be."""

    scale_set: tuple[Counted, ...]
    flexible_set: tuple[Counted, ...]
    availability_set: tuple[Counted, ...]
    vm: tuple[str, ...]
    spot_vm: tuple[str, ...]
    cloud_service: tuple[Counted, ...]


class UpOptions(FleetOptions):
    """The options of ``up``."""

    zones: tuple[str, ...] | None
    terminate_notice: timedelta | None
    profile: str
    speed: float | None
    clock: str
    timings: str
    start_enabled: bool
    data: Path | None
    keep_history: timedelta | None
    keep_history_size: int | None
    ready_file: Path | None
    port_base: int | None
    operator: tuple[str, int] | None
    arm: tuple[str, int] | None
    no_arm: bool
    identity: bool
    token_file: Path | None
    listen: tuple[tuple[str, int], ...]
    address: tuple[tuple[str, str], ...]
    sockets: Path | None
    preview_version: bool
    first_call: str
    first_call_delay: timedelta
    replay: tuple[tuple[str | None, Path], ...]
    json_: bool


#: Who there is if nobody is asked for.
BARE = FleetOptions(
    scale_set=(("web", 3),),
    flexible_set=(),
    availability_set=(("app", 3),),
    vm=("db",),
    spot_vm=("batch",),
    cloud_service=(),
)


def settings(wishes: UpOptions) -> Settings:
    """Return the settings that fulfil the wishes."""
    for contradiction, complaint in _contradictions(wishes):
        if contradiction:
            raise click.UsageError(complaint)
    # Who brings recordings wants the machines in them.
    asked = any(map(wishes.get, BARE)) or wishes["replay"]
    return Settings(
        blueprints=tuple(_blueprints(wishes, wishes)),
        default_blueprints=() if asked else tuple(_blueprints(wishes, BARE)),
        profile=_profile(wishes),
        manual_clock=wishes["clock"] == "manual",
        azure_timings=wishes["timings"] == "azure",
        data=wishes["data"],
        port_base=wishes["port_base"],
        operator=wishes["operator"],
        arm=None if wishes["no_arm"] else wishes["arm"] or arm_address(wishes["port_base"]),
        token=_token(wishes["token_file"]),
        listen=wishes["listen"],
        addresses=dict(wishes["address"]),
        sockets=wishes["sockets"],
        replays=_replays(wishes["replay"]),
        retention=_retention(wishes),
    )


def _contradictions(wishes: UpOptions) -> Iterator[tuple[object, str]]:
    """Yield what cannot be wished for together, each with what is said then."""
    yield (
        wishes["clock"] == "manual" and wishes["speed"] is not None,
        "--speed is for the real clock; a manual clock is moved by: fairwarning clock",
    )
    yield (
        wishes["clock"] == "manual" and wishes["replay"],
        "--replay goes by the real clock; a manual one would hold it up",
    )
    yield (
        wishes["no_arm"] and (wishes["identity"] or wishes["arm"]),
        "--no-arm leaves out what --arm and --identity are for",
    )
    yield (
        wishes["address"] and not wishes["listen"],
        "--address is for a shared listener: say where with --listen",
    )
    yield len(dict(wishes["address"])) < len(wishes["address"]), "--address gives a machine two addresses"
    delay = wishes["first_call_delay"]
    yield (
        delay and wishes["first_call"] == FirstCall.NONE,
        "--first-call-delay is for --first-call delay or empty_body",
    )
    yield delay > LONGEST_FIRST_CALL, "--first-call-delay is at most 120s: switching on takes no longer"


def _blueprints(wishes: UpOptions, cast: FleetOptions) -> Iterator[Blueprint]:
    zones, notice = wishes["zones"] or (), wishes["terminate_notice"]
    for kind, sets, spread in (
        (ScopeKind.SCALE_SET, cast["scale_set"], zones),
        (ScopeKind.FLEXIBLE_SET, cast["flexible_set"], zones),
        (ScopeKind.AVAILABILITY_SET, cast["availability_set"], ()),
    ):
        for name, count in sets:
            yield Blueprint(name=name, kind=kind, count=count, zones=spread, terminate_notice=notice)
    for name in cast["vm"]:
        yield Blueprint(name=name, kind=ScopeKind.STANDALONE, terminate_notice=notice)
    for name in cast["spot_vm"]:
        # T-05: a Spot machine has no terminate profile.
        yield Blueprint(name=name, kind=ScopeKind.STANDALONE, spot=True)
    if cast["cloud_service"]:
        yield Blueprint(name=CLOUD_SERVICE, kind=ScopeKind.CLOUD_SERVICE, roles=cast["cloud_service"])


def _profile(wishes: UpOptions) -> Profile:
    profile = PROFILES[wishes["profile"]]
    policy = replace(profile.policy, start_enabled=wishes["start_enabled"])
    return replace(
        profile,
        policy=with_speed(policy, wishes["speed"] or 1.0),
        preview_version=wishes["preview_version"],
        first_call=FirstCall(wishes["first_call"]),
        first_call_delay=wishes["first_call_delay"],
        identity_tokens=wishes["identity"],
    )


def _retention(wishes: UpOptions) -> Retention | None:
    usual = Retention() if wishes["data"] is None else DEFAULT_RETENTION
    age = usual.age if wishes["keep_history"] is None else wishes["keep_history"]
    size = usual.size if wishes["keep_history_size"] is None else wishes["keep_history_size"]
    return None if age is None and size is None else Retention(age=age, size=size)


def _replays(recordings: tuple[tuple[str | None, Path], ...]) -> dict[str, MachineRecording]:
    found: dict[str, MachineRecording] = {}
    for machine, path in recordings:
        parts = tapes_of(path, machine)
        if twice := found.keys() & parts.keys():
            raise click.UsageError(f"--replay gives {min(twice)} two recordings")
        found |= parts
    return found


def tapes_of(path: Path, machine: str | None) -> dict[str, MachineRecording]:
    """Return what a recording has for which machine, or fail in words."""
    try:
        return split_by_machine(parse_recording(path.read_text(encoding="utf-8")), machine)
    except RecordingError as problem:
        raise FailureError(f"{path} is no recording: {problem}") from problem
    except InvalidError as problem:
        hint = f"--replay MACHINE={path} says whose it is"
        raise FailureError(f"{path}: the {problem.field} {problem.problem}", hint) from problem
    except (OSError, ValueError) as problem:
        raise FailureError(f"{path} cannot be read: {problem}") from problem


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = path.read_bytes().decode("latin-1").strip()
    if not is_token(token):
        raise FailureError(
            f"{path} holds no token: it must be one line of printable ASCII characters", _make_token(path)
        )
    if len(token) < SHORTEST_TOKEN:
        problem = f"the token in {path} has {len(token)} characters; it needs at least {SHORTEST_TOKEN}"
        raise FailureError(problem, _make_token(path))
    return token


def _make_token(path: Path) -> str:
    return f"make one with: openssl rand -hex 16 > {shlex.quote(str(path))}"
