"""The command that says what is wrong with a set-up and how to fix it."""

import errno
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from fairwarning import config
from fairwarning.cli.client import ClockInfo, MachineInfo, MachineList, connect, decode
from fairwarning.cli.data_hints import DATA_HINTS
from fairwarning.cli.output import FailureError, UnreachableError, as_json, names, note, table

OLDEST_PYTHON = (3, 11)
OK, NOTE, WRONG = "ok", "note", "wrong"

#: How many machines' ports are tried.
MOST_PORTS = 50

#: How many bytes are written to see whether a directory can be written.
TRIAL = 65_536

#: How many free bytes are worth a note.
LITTLE = 10_000_000

_ELSEWHERE = "choose a directory that you may write to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found about one thing, and what helps."""

    about: str
    verdict: str
    says: str
    hint: str = ""


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Look at this data directory too.")
@click.option("--json", "json_", is_flag=True, help="Print JSON instead of a table.")
def doctor(data: Path | None, json_: bool) -> None:
    """Say what is wrong with this set-up, and how to fix it.

    Exits with 1 if anything is wrong.

    \b
    Example:
      fairwarning doctor
      fairwarning doctor --data ./state
    """
    findings = [_python(), *_server()]
    if data is not None:
        findings += _data(data)
    if json_:
        as_json([{"about": f.about, "verdict": f.verdict, "says": f.says, "hint": f.hint} for f in findings])
    else:
        table(("ABOUT", "VERDICT", "FOUND"), ((f.about, f.verdict, f.says) for f in findings))
    for hint in dict.fromkeys(finding.hint for finding in findings if finding.hint):
        note(f"hint: {hint}")
    if any(finding.verdict == WRONG for finding in findings):
        raise click.exceptions.Exit(1)


def _python() -> Diagnosis:
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Diagnosis(about="python", verdict=OK, says=platform.python_version())
    hint = "install Python 3.11 or newer"
    return Diagnosis(about="python", verdict=WRONG, says=f"{platform.python_version()} is too old", hint=hint)


def _server() -> Iterator[Diagnosis]:
    client = connect()
    try:
        machines = decode(client.get("/machines"), MachineList).machines
        clock = decode(client.get("/clock"), ClockInfo)
        client.check_health()
    except FailureError as failure:
        hint = failure.hints[0] if failure.hints else ""
        yield Diagnosis(about="server", verdict=WRONG, says=failure.message, hint=hint)
        if isinstance(failure, UnreachableError):
            yield _port(client.url)
        return
    yield Diagnosis(about="server", verdict=OK, says=f"{client.url} answers; {len(machines)} machines")
    yield _clock(clock)
    yield _endpoints(machines)
    yield from _guests(machines)


def _port(url: str) -> Diagnosis:
    """Say whether a server could listen where none answers."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    if not config.loopback(host):
        return Diagnosis(about="port", verdict=NOTE, says=f"{host} is not this machine")
    if not _open(host, port):
        return Diagnosis(about="port", verdict=OK, says=f"{host}:{port} is free")
    hint = f"another program listens on port {port}; fairwarning up --port-base N takes others"
    return Diagnosis(about="port", verdict=WRONG, says=f"{host}:{port} is taken", hint=hint)


def _clock(clock: ClockInfo) -> Diagnosis:
    if clock.mode == "manual":
        hint = "the clock stands still until: fairwarning clock advance 15m"
        return Diagnosis(about="clock", verdict=NOTE, says="manual", hint=hint)
    return Diagnosis(about="clock", verdict=OK, says=f"{clock.mode}, speed {clock.speed:g}")


def _endpoints(machines: tuple[MachineInfo, ...]) -> Diagnosis:
    known = [(machine.name, urlsplit(machine.metadata)) for machine in machines if machine.metadata]
    dead = [name for name, at in known[:MOST_PORTS] if not _open(at.hostname or "", at.port or 80)]
    if dead:
        hint = "run doctor on the machine that runs the server, or look for a firewall"
        says = f"nothing listens for {names(dead)}"
        return Diagnosis(about="endpoints", verdict=WRONG, says=says, hint=hint)
    says = f"{min(len(known), MOST_PORTS)} of {len(machines)} tried, all listen"
    return Diagnosis(about="endpoints", verdict=OK, says=says)


def _guests(machines: tuple[MachineInfo, ...]) -> Iterator[Diagnosis]:
    polling = sorted({machine.scope for machine in machines if machine.enabled})
    silent = sorted({machine.scope for machine in machines} - set(polling))
    if polling:
        yield Diagnosis(about="guests", verdict=OK, says=f"somebody polls {names(polling)}")
    if silent:
        hint = "what users do to machines nobody polls for happens at once; poll first, or up --start-enabled"
        yield Diagnosis(about="guests", verdict=NOTE, says=f"nobody polls {names(silent)}", hint=hint)


def _data(data: Path) -> Iterator[Diagnosis]:
    from fairwarning.server import examine

    try:
        examination = examine(data)
        yield _space(data, in_use=examination.in_use)
    except OSError as problem:
        yield Diagnosis(about="data", verdict=WRONG, says=f"{data}: {problem.strerror}", hint=_ELSEWHERE)
        return
    if examination.problem is None:
        yield Diagnosis(about="database", verdict=OK, says=examination.summary)
    else:
        hint = "; ".join(DATA_HINTS.get(type(examination.problem).__name__, ()))
        yield Diagnosis(about="database", verdict=WRONG, says=str(examination.problem), hint=hint)


def _space(data: Path, *, in_use: bool) -> Diagnosis:
    """Say what is free, and whether it can be had; where a server is running, that is for it to say."""
    place = data if data.exists() else data.absolute().parent
    left = shutil.disk_usage(place).free
    free, full = f"{left / 1e6:.1f} MB are free", f"free some space on the disk that {place} is on"
    verdict, advice = (NOTE, full) if left < LITTLE else (OK, "")
    if in_use:
        says = f"{data} is used by a server; {free}"
        return Diagnosis(about="data", verdict=verdict, says=says, hint=advice)
    try:
        with tempfile.TemporaryFile(dir=place) as trial:
            trial.write(bytes(TRIAL))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as problem:
        hint = full if problem.errno == errno.ENOSPC else _ELSEWHERE
        return Diagnosis(about="data", verdict=WRONG, says=f"{place}: {problem.strerror}; {free}", hint=hint)
    return Diagnosis(about="data", verdict=verdict, says=f"{data} can be written; {free}", hint=advice)


def _open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False
