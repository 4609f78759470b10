"""The command that runs a whole server on this machine and prints what happens on it."""

import asyncio
import errno
import gc
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from fairwarning import config
from fairwarning.cli.client import EventInfo, EventList, HistoryLine, MachineInfo, OperatorClient, decode
from fairwarning.cli.doctor import DATA_HINTS
from fairwarning.cli.options import (
    ADDRESS,
    COUNTED,
    DURATION,
    HOST,
    HOST_PORT,
    REPLAY,
    SIZE,
    SPEED,
    ZONES,
    OutputFile,
)
from fairwarning.cli.output import (
    FailureError,
    format_instant,
    join_names,
    print_json_line,
    print_note,
    print_table,
)
from fairwarning.cli.up_settings import DEFAULT_FLEET, UpOptions, settings
from fairwarning.cli.watch import HistoryWatch, print_pending, timed_sentence
from fairwarning.config import DRIVERS, PROGRAM
from fairwarning.core.document import snippets
from fairwarning.core.document.recording import MachineRecording
from fairwarning.core.document.render import Json
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.model import EventId, MachineRef
from fairwarning.core.policy import PROFILES, FirstCall, Profile
from fairwarning.formats import durations
from fairwarning.formats.counts import format_count
from fairwarning.formats.hidden_characters import escape_hidden
from fairwarning.logs.output import LogFormat, LogLevel, log_written_to

if TYPE_CHECKING:
    from fairwarning.server import FleetServer

#: At most this many machines are listed.
MOST_ROWS = 40

#: How many seconds the reporter may take to start, and to finish.
REPORTER_TIMEOUT = 2.0

#: How many seconds a server on the same ports may take to answer.
HEALTH_TIMEOUT = 1.0

#: The answer of a server without pending events.
NOTHING_PENDING = b'{"events":[]}'

CANNOT_LISTEN = "CannotListenError"

#: What may help, by the name of the error.
_HINTS: Mapping[str, tuple[str, ...]] = {
    CANNOT_LISTEN: (
        "--port-base N uses other ports, --port-base 0 any free ports",
        "--no-arm leaves out the management API",
    ),
    "DataDirectoryInUseError": ("stop the other server, or choose another --data directory",),
    **DATA_HINTS,
}

#: The options that an invalid field belongs to, where their names differ.
_FIELD_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "token": ("token_file",),
    "name": tuple(DEFAULT_FLEET),
    "count": tuple(DEFAULT_FLEET),
    "roles": ("cloud_service",),
}

_FOLDER = click.Path(path_type=Path, file_okay=False)
_READABLE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.option("--scale-set", type=COUNTED, multiple=True, help="Add a uniform scale set, e.g. web=3.")
@click.option("--flexible-set", type=COUNTED, multiple=True, help="Add a flexible scale set, e.g. pool=3.")
@click.option("--availability-set", type=COUNTED, multiple=True, help="Add an availability set, e.g. app=3.")
@click.option("--vm", metavar="NAME", multiple=True, help="Add a standalone machine.")
@click.option("--spot-vm", metavar="NAME", multiple=True, help="Add a standalone Spot machine.")
@click.option(
    "--cloud-service", type=COUNTED, multiple=True, help="Add a role of a cloud service, e.g. FrontEnd=2."
)
@click.option("--zones", type=ZONES, help="Zones of the scale sets, e.g. 1,2,3; each zone is a scope.")
@click.option("--terminate-notice", type=DURATION, help="Notice before a machine is deleted: 5m to 15m.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="azure",
    show_default=True,
    help="Azure behaviour to emulate.",
)
@click.option("--speed", type=SPEED, help="Divide every duration, e.g. 60 turns 15m into 15s.")
@click.option(
    "--clock",
    type=click.Choice(["real", "manual"]),
    default="real",
    show_default=True,
    help="Clock source: real, or manual (see `fairwarning clock`).",
)
@click.option(
    "--timings",
    type=click.Choice(["brief", "azure"]),
    default="brief",
    show_default=True,
    help="How long impacts last: a few seconds, or as on Azure.",
)
@click.option(
    "--driver",
    type=click.Choice(list(DRIVERS)),
    default="simulated",
    show_default=True,
    help="What acts on machines: simulated impacts, or your own tools (see `fairwarning complete`).",
)
@click.option("--start-enabled", is_flag=True, help="Enable Scheduled Events at start; no first poll needed.")
@click.option("--data", type=_FOLDER, help="Store the fleet in this directory; the next start continues.")
@click.option("--keep-history", type=DURATION, help="How long to keep history.  [default with --data: 30d]")
@click.option(
    "--keep-history-size",
    type=SIZE,
    help="Size of the data above which old history is pruned.  [default with --data: 1GB]",
)
@click.option(
    "--ready-file",
    # An earlier file is replaced, so it need not be writable.
    type=OutputFile(writable=False),
    help="Write the addresses to this JSON file when the server is ready.",
)
@click.option(
    "--port-base",
    type=click.IntRange(0, 64000),
    help="Ports: operator N, machines from N+1, management N+443; 0 takes any free ports.",
)
@click.option(
    "--machine-host",
    type=HOST,
    default="127.0.0.1",
    envvar=config.MACHINE_HOST_VARIABLE,
    show_default=True,
    show_envvar=True,
    help="Address of the machines' ports; who reaches a port is that machine.",
)
@click.option("--operator", type=HOST_PORT, help="Address of the operator API.  [default: 127.0.0.1:8080]")
@click.option("--arm", type=HOST_PORT, help="Address of the management API.  [default: 127.0.0.1:8443]")
@click.option(
    "--arm-names", is_flag=True, help="Make its certificate valid for Azure's names (exec --azure)."
)
@click.option("--no-arm", is_flag=True, help="Leave out the management API.")
@click.option("--identity", is_flag=True, help="Give machines identity tokens for the management API.")
@click.option(
    "--token-file",
    type=_READABLE,
    help="File with the token of both APIs; required off loopback.",
)
@click.option(
    "--listen",
    type=HOST_PORT,
    multiple=True,
    help="Add a listener for all machines; see --address.",
)
@click.option(
    "--address",
    type=ADDRESS,
    multiple=True,
    help="Source address of a machine, e.g. web_0=10.0.0.4.",
)
@click.option("--sockets", type=_FOLDER, help="Create a Unix socket for each machine in this directory.")
@click.option("--preview-version", is_flag=True, help="Also serve api-version 2024-07-09.")
@click.option(
    "--first-call",
    type=click.Choice(list(map(str, FirstCall))),
    default="none",
    show_default=True,
    help="How the first poll of a scope behaves.",
)
@click.option(
    "--first-call-delay", type=DURATION, default="0s", help="How long the first poll takes, e.g. 30s."
)
@click.option(
    "--replay",
    type=REPLAY,
    multiple=True,
    help="Replay a recording of fairwarning record to its machine, or to MACHINE with MACHINE=FILE.",
)
@click.option(
    "--json",
    "json_",
    is_flag=True,
    help="Print JSON lines: the addresses, then the history.",
)
@click.option(
    "--log-level",
    type=click.Choice(list(map(str, LogLevel))),
    envvar=config.LOG_LEVEL_VARIABLE,
    show_envvar=True,
    help="Write log lines of this level and above to stderr.  [default: info; warning on a terminal]",
)
@click.option(
    "--log-format",
    type=click.Choice(list(map(str, LogFormat))),
    envvar=config.LOG_FORMAT_VARIABLE,
    show_envvar=True,
    help="Format of the log lines.  [default: json; text on a terminal]",
)
def up(**options: Unpack[UpOptions]) -> None:
    """Run a fleet with its metadata service, until Ctrl-C.

    Without options for machines, the fleet is scale set web (3), availability set app (3), machine db and
    Spot machine batch, unless --data has a fleet already. The output has a command to poll each machine, and
    everything that happens. Without --data nothing is stored.

    \b
    Example:
      fairwarning up
      fairwarning up --scale-set web=5 --spot-vm batch --speed 60
      fairwarning up --clock manual --port-base 0 --ready-file ready.json
      fairwarning up --replay recording.jsonl --speed 10
    """
    wanted = settings(options)
    try:
        with _log(options):
            asyncio.run(_serve(wanted, options["ready_file"], options["json_"]))
    except InvalidError as problem:
        raise _usage_error(problem) from problem
    except FairWarningError as problem:
        hints = _HINTS.get(type(problem).__name__, ())
        raise FailureError(f"{problem}{_other_server(problem, wanted)}", *hints) from problem
    except OSError as problem:
        raise FailureError(str(problem)) from problem


def _log(options: UpOptions) -> AbstractContextManager[None]:
    level, style = options["log_level"], options["log_format"]
    return log_written_to(
        sys.stderr,
        None if level is None else LogLevel(level),
        None if style is None else LogFormat(style),
    )


def _usage_error(problem: InvalidError) -> click.ClickException:
    """Return the error that names the options which gave an invalid value."""
    context = click.get_current_context()
    names = _FIELD_OPTIONS.get(problem.field, (problem.field,))
    used = [
        parameter
        for parameter in context.command.params
        if parameter.name in names and (len(names) == 1 or context.params[parameter.name])
    ]
    if not used:
        return FailureError(str(problem))
    return click.BadParameter(problem.problem, param_hint=[parameter.opts[0] for parameter in used])


def _other_server(problem: FairWarningError, wanted: config.Settings) -> str:
    """Return a note for the error message if a fairwarning server already uses these ports."""
    reason = problem.__context__
    if type(problem).__name__ != CANNOT_LISTEN or not isinstance(reason, OSError):
        return ""
    host, port = wanted.operator_address
    if reason.errno != errno.EADDRINUSE or port == 0:
        return ""
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    client = OperatorClient(url, timeout=HEALTH_TIMEOUT)
    try:
        health: object = json.loads(client.check_health())
    except (click.ClickException, ValueError):
        return ""
    finally:
        client.close()
    is_server = isinstance(health, dict) and health.get("status") == "ok"
    return f"; a fairwarning server is already running at {url}" if is_server else ""


async def _serve(wanted: config.Settings, ready_file: Path | None, json_: bool) -> None:
    # Imported modules live as long as the process: collecting garbage meanwhile finds none, and freezing them
    # afterwards keeps the collector from scanning them.
    gc.disable()
    from fairwarning.server import FleetServer

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    version = _api_version(wanted.profile)
    # The reporter listens to the server, so it ends after it.
    with ExitStack() as last:
        last.callback(gc.enable)
        async with FleetServer(wanted, partial(_report_replayed, json_)) as service:
            gc.freeze()
            gc.enable()
            client = OperatorClient(service.operator_url, wanted.token)
            began = service.engine.clock.now()
            reporter = Reporter(client, await service.position(), version, began, json_)
            last.callback(reporter.close)
            for remark in service.notes:
                print_note(remark)
            if service.pending():
                await asyncio.to_thread(reporter.fetch_pending)
            ready = ready_document(service)
            click.echo(json.dumps(ready)) if json_ else introduce(service, version)
            for machine, recording in wanted.replays.items():
                print_note(f"replaying {_extent(recording, wanted.profile.policy.speed)} to {machine}")
            with published(ready_file, ready), reporter:
                await stop.wait()
                await asyncio.to_thread(reporter.catch_up)
                print_note("stopping")


def _api_version(profile: Profile) -> str:
    """Return the newest api-version that a profile serves, for the commands that are printed."""
    return max(profile.versions) if profile.versions else NEWEST


def _extent(recording: MachineRecording, speed: float) -> str:
    length = durations.for_people((recording.documents[-1].at - recording.begins) / speed)
    return f"{format_count(len(recording.documents), 'document')} in {length}"


def _report_replayed(json_: bool, at: datetime, machine: MachineRef, ids: tuple[EventId, ...]) -> None:
    """Print approvals of a replay, which are not in the history; a slow terminal must not delay guests."""
    for event in ids:
        text = f"{format_instant(at, at)}  {event} of the recording is approved by {machine.name}"
        approval = {"at": at.isoformat(), "kind": "replayed", "event": event, "by": machine.name}
        line = json.dumps(approval) if json_ else escape_hidden(text)
        threading.Thread(target=click.echo, args=(line,), daemon=True).start()


def ready_document(service: "FleetServer") -> dict[str, Json]:
    """Return all addresses; a machine whose name several scopes have is named by scope and name."""
    others = service.alternatives()
    names = _unique_names(others)
    metadata: dict[str, Json] = {names[ref]: url for ref, url in service.endpoints().items()}
    alternatives: dict[str, Json] = {names[ref]: [*ways] for ref, ways in others.items()}
    shared: list[Json] = [*service.shared_urls()]
    return {**addresses(service), "metadata": metadata, "shared": shared, "alternatives": alternatives}


def addresses(service: "FleetServer") -> dict[str, Json]:
    """Return the addresses of the operator and the management API."""
    return {
        "operator": service.operator_url,
        "arm": service.arm_url,
        "ca": None if service.ca is None else str(service.ca),
    }


def _unique_names(machines: Collection[MachineRef]) -> dict[MachineRef, str]:
    """Return the name by which commands know each machine: with its scope, if several scopes have it."""
    uses = Counter(ref.name for ref in machines)
    return {ref: ref.name if uses[ref.name] == 1 else ref.full for ref in machines}


def introduce(service: "FleetServer", version: str) -> None:
    """Print the addresses, and commands to paste."""
    ways = service.alternatives()
    endpoints = service.endpoints()
    rows = [
        (ref.name, ref.scope, snippets.poll_command(url, version, ways[ref]))
        for ref, url in endpoints.items()
    ]
    print_table(("MACHINE", "SCOPE", "COMMAND TO POLL"), rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print_note(f"{len(rows) - MOST_ROWS} more; {PROGRAM} vms lists all machines")
    for url in service.shared_urls():
        print_note(f"shared by all machines, each known by its address: {url}")
    if without := sum(snippets.source_address(others) is not None for others in ways.values()):
        machines = format_count(without, "machine")
        print_note(f"without a port of their own: {machines}; earlier machines have the ports")
    print_note(f"console and operator API: {service.operator_url}; times are UTC; Ctrl-C stops")
    if service.arm_url is not None:
        az = f'{PROGRAM} az-login && eval "$({PROGRAM} az-env)"'
        print_note(f"management API: {service.arm_url}; to use az: {az}")
    if service.operator_url != config.DEFAULT_URL:
        print_note(f"for commands in other terminals: export FAIRWARNING_URL={service.operator_url}")
        return
    print_note("paste one of the commands first: only a scope that polls is warned")
    machine = next((_unique_names(ways)[ref] for ref in endpoints), "VM")
    print_note(f"then, in a second terminal: {PROGRAM} cause restart {machine}")


@contextmanager
def published(path: Path | None, ready: dict[str, Json]) -> Iterator[None]:
    """Provide the ready file for as long as the block lasts."""
    if path is None:
        yield
        return
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(ready, indent=2) + "\n")
    new.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


class Reporter:
    """Prints what happens on a server, from a thread: a slow terminal must not delay guests."""

    def __init__(
        self, client: OperatorClient, after: int, version: str, began: datetime, json_: bool
    ) -> None:
        self._client = client
        self._watch = HistoryWatch(client, after)
        self._version = version
        #: Lines of another day are printed with their date.
        self._began = began
        self._json = json_
        self._pending = NOTHING_PENDING
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def fetch_pending(self) -> None:
        """Fetch the events that are pending already, to print them first."""
        self._pending = self._client.get("/events")

    def catch_up(self) -> None:
        """Wait until the feed is connected, so that a server that stops at once has printed its history."""
        self._watch.listening.wait(REPORTER_TIMEOUT)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *problem: object) -> None:
        self._watch.ending.set()

    def close(self) -> None:
        """Wait for the last lines, after the server has closed its feed."""
        if self._thread.is_alive():
            self._thread.join(REPORTER_TIMEOUT)
        self._client.close()

    def _run(self) -> None:
        with suppress(BrokenPipeError):
            if self._json:
                print_pending(self._pending)
            else:
                for event in decode(self._pending, EventList).events:
                    self._print_pending(event)
            for text in self._watch:
                self._report(text)

    def _report(self, text: str) -> None:
        line = decode(text, HistoryLine)
        print_json_line(text) if self._json else click.echo(timed_sentence(line, self._began))
        if line.kind == "scheduled" and line.event is not None and not self._json:
            # The event may be over already.
            with suppress(FailureError):
                self._print_approval(decode(self._client.get(f"/events/{line.event}"), EventInfo))

    def _print_pending(self, event: EventInfo) -> None:
        text = f"{event.type} of {join_names(event.resources)} is still pending ({event.status})"
        click.echo(f"{'':9}  {escape_hidden(text)}")
        with suppress(FailureError):
            self._print_approval(event)

    def _print_approval(self, event: EventInfo) -> None:
        """Print when an event starts, and the command that approves it."""
        if event.status != "Scheduled":
            return
        starts = f"           it starts at {format_instant(event.not_before, self._began)}"
        if not event.shown:
            click.echo(f"{starts}; no guest of {event.scope} polls, so none is warned")
            return
        path = f"/machines/{event.scope}/{event.resources[0]}"
        machine = decode(self._client.get(path), MachineInfo)
        if machine.metadata is None:
            click.echo(f"{starts}, or once it is approved")
            return
        command = snippets.approve_command(machine.metadata, self._version, event.id, machine.alternatives)
        click.echo(f"{starts}, or once it is approved:\n{command}")
