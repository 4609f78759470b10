"""Turns the options of ``up`` into the settings of a server."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

import click

from fairwarning.cli.options import InvalidOptionError
from fairwarning.config import PROGRAM, SHORTEST_TOKEN, Settings, arm_address, is_token
from fairwarning.core.azure.hosts import BUILT_IN_HOSTS
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
from fairwarning.formats.counts import format_count

#: S-01: all roles of a cloud service are one scope, which needs a name.
CLOUD_SERVICE = "cloud-service"

#: R-25: the first call takes two minutes at most.
LONGEST_FIRST_CALL = timedelta(minutes=2)

#: Names a new file: the file that was given may be another one by mistake.
_TOKEN_HINT = "create one with: openssl rand -hex 16 > token"

NamedCount = tuple[str, int]


class FleetOptions(TypedDict):
    """The options that describe machines."""

    scale_set: tuple[NamedCount, ...]
    flexible_set: tuple[NamedCount, ...]
    availability_set: tuple[NamedCount, ...]
    vm: tuple[str, ...]
    spot_vm: tuple[str, ...]
    cloud_service: tuple[NamedCount, ...]


class UpOptions(FleetOptions):
    """The options of ``up``."""

    zones: tuple[str, ...] | None
    terminate_notice: timedelta | None
    profile: str
    speed: float | None
    clock: str
    timings: str
    driver: str
    start_enabled: bool
    data: Path | None
    keep_history: timedelta | None
    keep_history_size: int | None
    ready_file: Path | None
    port_base: int | None
    machine_host: str
    operator: tuple[str, int] | None
    arm: tuple[str, int] | None
    arm_names: bool
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
    log_level: str | None
    log_format: str | None


#: The fleet if no option describes machines.
DEFAULT_FLEET = FleetOptions(
    scale_set=(("web", 3),),
    flexible_set=(),
    availability_set=(("app", 3),),
    vm=("db",),
    spot_vm=("batch",),
    cloud_service=(),
)


def settings(options: UpOptions) -> Settings:
    """Return the settings that the options ask for."""
    for contradiction, message in _contradictions(options):
        if contradiction:
            raise click.UsageError(message)
    # The machines of a recording replace the default fleet.
    described = any(map(options.get, DEFAULT_FLEET)) or options["replay"]
    return Settings(
        blueprints=tuple(_blueprints(options, options)),
        default_blueprints=() if described else tuple(_blueprints(options, DEFAULT_FLEET)),
        profile=_profile(options),
        manual_clock=options["clock"] == "manual",
        azure_timings=options["timings"] == "azure",
        driver=options["driver"],
        data=options["data"],
        port_base=options["port_base"],
        machine_host=options["machine_host"],
        operator=options["operator"],
        arm=None if options["no_arm"] else options["arm"] or arm_address(options["port_base"]),
        arm_names=BUILT_IN_HOSTS if options["arm_names"] else (),
        token=_token(options["token_file"]),
        listen=options["listen"],
        addresses=dict(options["address"]),
        sockets=options["sockets"],
        replays=_replays(options["replay"]),
        retention=_retention(options),
    )


def _contradictions(options: UpOptions) -> Iterator[tuple[object, str]]:
    """Yield the combinations of options that are refused, each with its message."""
    yield (
        options["clock"] == "manual" and options["speed"] is not None,
        f"--speed needs the real clock; a manual clock is moved with: {PROGRAM} clock",
    )
    yield (
        options["clock"] == "manual" and options["replay"],
        "--replay needs the real clock, not --clock manual",
    )
    yield (
        options["driver"] == "external" and options["timings"] == "azure",
        "--timings needs the simulated driver, not --driver external",
    )
    yield (
        options["no_arm"] and (options["identity"] or options["arm"] or options["arm_names"]),
        "--no-arm cannot be combined with --arm, --arm-names or --identity",
    )
    yield (
        options["address"] and not options["listen"],
        "--address needs a shared listener: add --listen",
    )
    yield len(dict(options["address"])) < len(options["address"]), "--address gives a machine two addresses"
    names = Counter(blueprint.name.lower() for blueprint in _blueprints(options, options))
    for name, times in names.items():
        yield times > 1, f"{name} is the name of two sets or machines; give them different names"
    delay = options["first_call_delay"]
    yield (
        delay and options["first_call"] == FirstCall.NONE,
        "--first-call-delay needs --first-call delay or empty_body",
    )
    yield delay > LONGEST_FIRST_CALL, "--first-call-delay must be at most 120s"


def _blueprints(options: UpOptions, fleet: FleetOptions) -> Iterator[Blueprint]:
    zones, notice = options["zones"] or (), options["terminate_notice"]
    for kind, sets, spread in (
        (ScopeKind.SCALE_SET, fleet["scale_set"], zones),
        (ScopeKind.FLEXIBLE_SET, fleet["flexible_set"], zones),
        (ScopeKind.AVAILABILITY_SET, fleet["availability_set"], ()),
    ):
        for name, size in sets:
            yield Blueprint(name=name, kind=kind, count=size, zones=spread, terminate_notice=notice)
    for name in fleet["vm"]:
        yield Blueprint(name=name, kind=ScopeKind.STANDALONE, terminate_notice=notice)
    for name in fleet["spot_vm"]:
        # T-05: a Spot machine has no terminate profile.
        yield Blueprint(name=name, kind=ScopeKind.STANDALONE, spot=True)
    if fleet["cloud_service"]:
        yield Blueprint(name=CLOUD_SERVICE, kind=ScopeKind.CLOUD_SERVICE, roles=fleet["cloud_service"])


def _profile(options: UpOptions) -> Profile:
    profile = PROFILES[options["profile"]]
    policy = replace(profile.policy, start_enabled=options["start_enabled"])
    return replace(
        profile,
        policy=with_speed(policy, options["speed"] or 1.0),
        preview_version=options["preview_version"],
        first_call=FirstCall(options["first_call"]),
        first_call_delay=options["first_call_delay"],
        identity_tokens=options["identity"],
    )


def _retention(options: UpOptions) -> Retention | None:
    default = Retention() if options["data"] is None else DEFAULT_RETENTION
    age = default.age if options["keep_history"] is None else options["keep_history"]
    size = default.size if options["keep_history_size"] is None else options["keep_history_size"]
    return None if age is None and size is None else Retention(age=age, size=size)


def _replays(recordings: tuple[tuple[str | None, Path], ...]) -> dict[str, MachineRecording]:
    replays: dict[str, MachineRecording] = {}
    for machine, path in recordings:
        parts = _read_recording(path, machine)
        if repeated := replays.keys() & parts.keys():
            raise click.UsageError(f"--replay gives {min(repeated)} two recordings")
        replays |= parts
    return replays


def _read_recording(path: Path, machine: str | None) -> dict[str, MachineRecording]:
    """Return the recordings in a file, by machine."""
    try:
        documents = parse_recording(path.read_text(encoding="utf-8"))
    except RecordingError as problem:
        raise InvalidOptionError("--replay", f"{path} is not a recording: {problem}") from problem
    except OSError as problem:
        raise InvalidOptionError("--replay", f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidOptionError("--replay", f"{path} cannot be read: {problem}") from problem
    if not documents:
        raise InvalidOptionError("--replay", f"{path}: the recording is empty")
    try:
        return split_by_machine(documents, machine)
    except InvalidError as problem:
        is_named = any(document.machine is not None for document in documents)
        hints = () if is_named else (f"name the machine: --replay MACHINE={path}",)
        reason = f"{path}: the {problem.field} {problem.problem}"
        raise InvalidOptionError("--replay", reason, *hints) from problem


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = path.read_bytes().decode("latin-1").strip()
    if not is_token(token):
        problem = f"{path} does not contain a token: it must be one line of printable ASCII characters"
        raise InvalidOptionError("--token-file", problem, _TOKEN_HINT)
    if len(token) < SHORTEST_TOKEN:
        length = format_count(len(token), "character")
        problem = f"the token in {path} has {length}; it needs at least {SHORTEST_TOKEN}"
        raise InvalidOptionError("--token-file", problem, _TOKEN_HINT)
    return token
