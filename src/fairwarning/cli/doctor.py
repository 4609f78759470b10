"""The command that finds what is wrong with a setup, and says how to fix it."""

import errno
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from fairwarning import config
from fairwarning.cli.client import ClockInfo, MachineInfo, MachineList, connect, decode
from fairwarning.cli.options import json_option
from fairwarning.cli.output import (
    FailureError,
    UnreachableError,
    join_names,
    print_json,
    print_note,
    print_table,
)
from fairwarning.config import PROGRAM
from fairwarning.formats.counts import format_count

OLDEST_PYTHON = (3, 11)
OK, NOTE, WRONG = "ok", "note", "wrong"

#: How many machines' ports are tried.
MOST_PORTS = 50

#: How many bytes are written to test whether a directory can be written.
TRIAL = 65_536

#: Fewer free bytes than this are worth a note.
FEW_BYTES = 10_000_000

_OTHER_DIRECTORY = "choose a directory that you may write to"
_RESTORE = f"restore a backup with {PROGRAM} db restore, or choose another --data directory"
_EXAMINE = f"{PROGRAM} doctor --data DIR"

#: What helps when something is wrong with a data directory, by the name of the error.
DATA_HINTS: Mapping[str, tuple[str, ...]] = {
    "DatabaseDamagedError": (f"{_EXAMINE} checks all of it", _RESTORE),
    "WrongDatabaseError": (
        _RESTORE,
        "to keep using what is there, remove fairwarning.json from the directory",
    ),
    "ChangedMigrationError": (_RESTORE,),
    "OlderDatabaseError": (f"migrate it with: {PROGRAM} db migrate",),
    "StoreFailedError": (f"{_EXAMINE} checks whether its disk can be written",),
    "DataDirectoryUnusableError": ("choose a directory that you may write to, on a disk with free space",),
}


class Diagnosis(NamedTuple):
    """The result of one examination, and what helps."""

    about: str
    verdict: str
    says: str
    hint: str = ""


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Also examine this data directory.")
@json_option
def doctor(data: Path | None, json_: bool) -> None:
    """Find what is wrong with this setup, and how to fix it.

    The exit code is 1 if anything is wrong.

    \b
    Example:
      fairwarning doctor
      fairwarning doctor --data ./state
    """
    findings = [_python(), *_server()]
    if data is not None:
        findings += _data(data)
    if json_:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table(("ABOUT", "VERDICT", "FOUND"), ((f.about, f.verdict, f.says) for f in findings))
    for hint in dict.fromkeys(finding.hint for finding in findings if finding.hint):
        print_note(f"hint: {hint}")
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
        client.check_readiness()
    except FailureError as failure:
        hint = failure.hints[0] if failure.hints else ""
        yield Diagnosis(about="server", verdict=WRONG, says=failure.message, hint=hint)
        if isinstance(failure, UnreachableError):
            yield _port(client.url)
        return
    says = f"{client.url} answers; {format_count(len(machines), 'machine')}"
    yield Diagnosis(about="server", verdict=OK, says=says)
    yield _clock(clock)
    yield _endpoints(machines)
    yield from _guests(machines)


def _port(url: str) -> Diagnosis:
    """Return whether a server could listen at an address where none answers."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    if not config.loopback(host):
        return Diagnosis(about="port", verdict=NOTE, says=f"{host} is not this machine")
    if not _is_open(host, port):
        return Diagnosis(about="port", verdict=OK, says=f"{host}:{port} is free")
    hint = f"another program listens on port {port}; {PROGRAM} up --port-base N uses other ports"
    return Diagnosis(about="port", verdict=WRONG, says=f"{host}:{port} is in use", hint=hint)


def _clock(clock: ClockInfo) -> Diagnosis:
    if clock.mode == "manual":
        hint = f"the clock is manual; to move it: {PROGRAM} clock advance 15m"
        return Diagnosis(about="clock", verdict=NOTE, says="manual", hint=hint)
    return Diagnosis(about="clock", verdict=OK, says=f"{clock.mode}, speed {clock.speed:g}")


def _endpoints(machines: tuple[MachineInfo, ...]) -> Diagnosis:
    urls = [(machine.name, urlsplit(machine.metadata)) for machine in machines if machine.metadata]
    dead = [name for name, url in urls[:MOST_PORTS] if not _is_open(url.hostname or "", url.port or 80)]
    if dead:
        hint = "run doctor on the machine that runs the server, or look for a firewall"
        says = f"nothing listens at the endpoints of {join_names(dead)}"
        return Diagnosis(about="endpoints", verdict=WRONG, says=says, hint=hint)
    says = f"{min(len(urls), MOST_PORTS)} of {len(machines)} tried, all listen"
    return Diagnosis(about="endpoints", verdict=OK, says=says)


def _guests(machines: tuple[MachineInfo, ...]) -> Iterator[Diagnosis]:
    polled = sorted({machine.scope for machine in machines if machine.enabled})
    silent = sorted({machine.scope for machine in machines} - set(polled))
    if polled:
        yield Diagnosis(about="guests", verdict=OK, says=f"polled: {join_names(polled)}")
    if silent:
        hint = "user actions on scopes that are not polled happen at once; poll first, or up --start-enabled"
        yield Diagnosis(about="guests", verdict=NOTE, says=f"not polled: {join_names(silent)}", hint=hint)


def _data(data: Path) -> Iterator[Diagnosis]:
    from fairwarning.server import examine

    try:
        examination = examine(data)
        yield _space(data, in_use=examination.in_use)
    except OSError as problem:
        says = f"{data}: {problem.strerror}"
        yield Diagnosis(about="data", verdict=WRONG, says=says, hint=_OTHER_DIRECTORY)
        return
    if examination.problem is None:
        yield Diagnosis(about="database", verdict=OK, says=examination.summary)
    else:
        hint = "; ".join(DATA_HINTS.get(type(examination.problem).__name__, ()))
        yield Diagnosis(about="database", verdict=WRONG, says=str(examination.problem), hint=hint)


def _space(data: Path, *, in_use: bool) -> Diagnosis:
    """Return the free space, and whether it can be written; a directory in use is not written to."""
    directory = data if data.exists() else data.absolute().parent
    left = shutil.disk_usage(directory).free
    free, full = f"{left / 1e6:.1f} MB are free", f"free some space on the disk that {directory} is on"
    verdict, hint = (NOTE, full) if left < FEW_BYTES else (OK, "")
    if in_use:
        says = f"{data} is used by a server; {free}"
        return Diagnosis(about="data", verdict=verdict, says=says, hint=hint)
    try:
        with tempfile.TemporaryFile(dir=directory) as trial:
            trial.write(bytes(TRIAL))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as problem:
        hint = full if problem.errno == errno.ENOSPC else _OTHER_DIRECTORY
        says = f"{directory}: {problem.strerror}; {free}"
        return Diagnosis(about="data", verdict=WRONG, says=says, hint=hint)
    return Diagnosis(about="data", verdict=verdict, says=f"{data} can be written; {free}", hint=hint)


def _is_open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False
