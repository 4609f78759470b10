"""The command that runs a whole server on this machine and tells what happens on it."""

import asyncio
import gc
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from fairwarning import config
from fairwarning.cli import paste
from fairwarning.cli.client import EventInfo, EventList, HistoryLine, MachineInfo, OperatorClient, decode
from fairwarning.cli.data_hints import DATA_HINTS
from fairwarning.cli.options import ADDRESS, COUNTED, DURATION, HOST_PORT, REPLAY, SIZE, SPEED, ZONES
from fairwarning.cli.output import FailureError, as_line, instant, names, note, table
from fairwarning.cli.up_settings import UpOptions, settings
from fairwarning.cli.watch import HistoryWatch, print_pending, timed
from fairwarning.core.document import snippets
from fairwarning.core.document.recording import MachineRecording
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.model import EventId, MachineRef
from fairwarning.core.policy import PROFILES, FirstCall
from fairwarning.formats import durations
from fairwarning.formats.hidden_characters import escape_hidden

if TYPE_CHECKING:
    from fairwarning.server import Service

#: More machines than this are not listed one by one.
MOST_ROWS = 40

#: How many seconds the reporter gets to finish.
LAST_WORDS = 2.0

#: What a server says of its events that has none.
NOTHING_PENDING = b'{"events":[]}'

#: What may help, by what went wrong.
_HINTS: Mapping[str, tuple[str, ...]] = {
    "CannotListenError": (
        "--port-base N takes other ports, --port-base 0 any that are free",
        "--no-arm leaves out the management API",
    ),
    "DataDirectoryInUseError": ("stop the other server, or choose another --data directory",),
    **DATA_HINTS,
}

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)
_READABLE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.option("--scale-set", type=COUNTED, multiple=True, help="A uniform scale set, like web=3.")
@click.option("--flexible-set", type=COUNTED, multiple=True, help="A flexible scale set, like pool=3.")
@click.option("--availability-set", type=COUNTED, multiple=True, help="An availability set, like app=3.")
@click.option("--vm", multiple=True, help="A machine of its own.")
@click.option("--spot-vm", multiple=True, help="A Spot machine of its own; it can be evicted.")
@click.option(
    "--cloud-service", type=COUNTED, multiple=True, help="A role of a cloud service, like FrontEnd=2."
)
@click.option("--zones", type=ZONES, help="Spread scale sets over zones: one scope in each.")
@click.option("--terminate-notice", type=DURATION, help="Warn before deletes: 5m to 15m.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="azure",
    show_default=True,
    help="Whose rules hold.",
)
@click.option("--speed", type=SPEED, help="Divide every duration: 60 makes 15m 15s.")
@click.option(
    "--clock",
    type=click.Choice(["real", "manual"]),
    default="real",
    show_default=True,
    help="Who moves time.",
)
@click.option(
    "--timings",
    type=click.Choice(["brief", "azure"]),
    default="brief",
    show_default=True,
    help="How long impacts last: a few seconds, or as on Azure.",
)
@click.option("--start-enabled", is_flag=True, help="As if every machine had polled already.")
@click.option("--data", type=_FOLDER, help="Keep everything here; the next up goes on from it.")
@click.option(
    "--keep-history", type=DURATION, help="How long the history is kept.  [default with --data: 30d]"
)
@click.option(
    "--keep-history-size",
    type=SIZE,
    help="How large the data may grow before old history goes.  [default with --data: 1GB]",
)
@click.option("--ready-file", type=_FILE, help="Write the addresses here, as JSON, once all of them listen.")
@click.option(
    "--port-base",
    type=click.IntRange(0, 64000),
    help="Operator at N, machines from N+1, management at N+443; 0: any free.",
)
@click.option("--operator", type=HOST_PORT, help="Where the operator API listens.")
@click.option("--arm", type=HOST_PORT, help="Where the management API listens.  [default: 127.0.0.1:8443]")
@click.option("--no-arm", is_flag=True, help="No management API.")
@click.option("--identity", is_flag=True, help="Give machines tokens for the management API.")
@click.option(
    "--token-file", type=_READABLE, help="The token of operator and management API; required off loopback."
)
@click.option(
    "--listen", type=HOST_PORT, multiple=True, help="A shared listener; guests are known by --address."
)
@click.option(
    "--address", type=ADDRESS, multiple=True, help="A machine's source address there, like web_0=10.0.0.4."
)
@click.option("--sockets", type=_FOLDER, help="A unix socket per machine in this folder.")
@click.option("--preview-version", is_flag=True, help="Serve api-version 2024-07-09 too.")
@click.option(
    "--first-call",
    type=click.Choice(list(map(str, FirstCall))),
    default="none",
    show_default=True,
    help="What the first poll meets.",
)
@click.option(
    "--first-call-delay", type=DURATION, default="0s", help="How long switching on takes, like 30s."
)
@click.option(
    "--replay",
    type=REPLAY,
    multiple=True,
    help="Play what fairwarning record wrote back to its machine; MACHINE=FILE names another.",
)
@click.option(
    "--json", "json_", is_flag=True, help="Print JSON: the addresses, then one object per happening."
)
def up(**wishes: Unpack[UpOptions]) -> None:
    """Run a stand-in for the metadata service of a small fleet, until Ctrl-C.

    Without machines: scale set web (3), availability set app (3), machine db and Spot machine batch, unless
    --data has a fleet already. Prints a command to paste for each machine, and everything that happens.
    Without --data nothing is left behind.

    \b
    Example:
      fairwarning up
      fairwarning up --scale-set web=5 --spot-vm batch --speed 60
      fairwarning up --clock manual --port-base 0 --ready-file ready.json
      fairwarning up --replay recording.jsonl --speed 10
    """
    wanted = settings(wishes)
    try:
        asyncio.run(_serve(wanted, wishes["ready_file"], wishes["json_"]))
    except InvalidError as problem:
        if problem.field == "address":
            raise click.UsageError(f"--address: {problem.problem}") from problem
        raise FailureError(str(problem)) from problem
    except FairWarningError as problem:
        raise FailureError(str(problem), *_HINTS.get(type(problem).__name__, ())) from problem
    except OSError as problem:
        raise FailureError(str(problem)) from problem


async def _serve(wanted: config.Settings, ready_file: Path | None, json_: bool) -> None:
    from fairwarning.server import Service

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if ready_file is not None:
        _make_way(ready_file)
    version = paste.api_version(wanted.profile)
    # The reporter listens to the server, so it ends after it.
    with ExitStack() as last:
        # What is loaded stays: who collects garbage need not walk through it, neither meanwhile nor later.
        gc.disable()
        last.callback(gc.enable)
        async with Service(wanted, partial(_replayed, json_)) as service:
            gc.freeze()
            gc.enable()
            client = OperatorClient(service.operator_url, wanted.token)
            began = service.engine.clock.now()
            reporter = Reporter(client, await service.position(), version, began, json_)
            last.callback(reporter.close)
            for remark in service.remarks:
                note(remark)
            if service.pending():
                await asyncio.to_thread(reporter.recall)
            ready = ready_document(service)
            click.echo(json.dumps(ready)) if json_ else introduce(service, version)
            for machine, tape in wanted.replays.items():
                note(f"replaying {_extent(tape, wanted.profile.policy.speed)} to {machine}")
            with _published(ready_file, ready), reporter:
                await stop.wait()
                await asyncio.to_thread(reporter.catch_up)
                note("stopping")


def _extent(tape: MachineRecording, speed: float) -> str:
    documents = tape.documents
    length = durations.for_people((documents[-1].at - tape.begins) / speed)
    return f"{len(documents)} document{'s' if len(documents) > 1 else ''} in {length}"


def _replayed(json_: bool, at: datetime, machine: MachineRef, ids: tuple[EventId, ...]) -> None:
    """Tell of approvals that no history knows of, from a thread as the reporter does."""
    for event in ids:
        text = f"{instant(at, at)}  {event} of the recording is approved by {machine.name}"
        told = {"at": at.isoformat(), "kind": "replayed", "event": event, "by": machine.name}
        line = json.dumps(told) if json_ else escape_hidden(text)
        threading.Thread(target=click.echo, args=(line,), daemon=True).start()


def _make_way(ready_file: Path) -> None:
    if not ready_file.parent.is_dir():
        raise FailureError(f"{ready_file} cannot be written: {ready_file.parent} is no directory")
    ready_file.unlink(missing_ok=True)


def ready_document(service: "Service") -> dict[str, Json]:
    """Return where everything listens; machines whose name is ambiguous by scope and name."""
    others = service.alternatives()
    bearers = Counter(ref.name for ref in others)
    known: dict[MachineRef, str] = {ref: ref.name if bearers[ref.name] == 1 else ref.full for ref in others}
    metadata: dict[str, Json] = {known[ref]: url for ref, url in service.endpoints().items()}
    alternatives: dict[str, Json] = {known[ref]: [*ways] for ref, ways in others.items()}
    return {
        "operator": service.operator_url,
        "arm": service.arm_url,
        "ca": None if service.ca is None else str(service.ca),
        "metadata": metadata,
        "shared": [*service.shared_urls()],
        "alternatives": alternatives,
    }


def introduce(service: "Service", version: str) -> None:
    """Print who is where, and what to paste."""
    ways = service.alternatives()
    rows = [
        (ref.name, ref.scope, snippets.poll_command(url, version, ways[ref]))
        for ref, url in service.endpoints().items()
    ]
    table(("MACHINE", "SCOPE", "WHAT IT WOULD ASK"), rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        note(f"and {len(rows) - MOST_ROWS} more; fairwarning vms lists them all")
    for url in service.shared_urls():
        note(f"shared by all machines, each known by its address: {url}")
    if without := sum(snippets.source_address(others) is not None for others in ways.values()):
        note(f"without a port of their own: {without}; the ports belong to machines that came before")
    note(f"console and operator API: {service.operator_url}; times are UTC; Ctrl-C stops")
    if service.arm_url is not None:
        note(f'management API: {service.arm_url}; eval "$(fairwarning az-env)" and fairwarning az-login')
    if service.operator_url == config.DEFAULT_URL:
        note("paste one of these first: who has asked will be warned")
        note(f"then in a second terminal: fairwarning cause restart {rows[0][0] if rows else 'VM'}")
    else:
        note(f"for the other commands: export FAIRWARNING_URL={service.operator_url}")


@contextmanager
def _published(path: Path | None, ready: dict[str, Json]) -> Iterator[None]:
    """Keep the ready file there, whole, for as long as the block lasts."""
    if path is None:
        yield
        return
    half = path.with_name(f".{path.name}.new")
    half.write_text(json.dumps(ready, indent=2) + "\n")
    half.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


class Reporter:
    """Tells what happens on a server, from a thread: a terminal that is held must not hold up the guests."""

    def __init__(
        self, client: OperatorClient, after: int, version: str, began: datetime, json_: bool
    ) -> None:
        self._client = client
        self._watch = HistoryWatch(client, after)
        self._version = version
        #: What is of any other day is told with its date.
        self._began = began
        self._json = json_
        self._pending = NOTHING_PENDING
        self._thread = threading.Thread(target=self._tell, name="reporter", daemon=True)

    def recall(self) -> None:
        """Note what is pending already, to tell of it first."""
        self._pending = self._client.get("/events")

    def catch_up(self) -> None:
        """Wait a moment until it listens: who is stopped at once has told what happened all the same."""
        self._watch.listening.wait(LAST_WORDS)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *problem: object) -> None:
        self._watch.ending.set()

    def close(self) -> None:
        """Wait a moment for the last words, once the server has closed its feed."""
        if self._thread.is_alive():
            self._thread.join(LAST_WORDS)
        self._client.close()

    def _tell(self) -> None:
        with suppress(BrokenPipeError):
            if self._json:
                print_pending(self._pending)
            else:
                for event in decode(self._pending, EventList).events:
                    self._remind(event)
            for text in self._watch:
                self._report(text)

    def _report(self, text: str) -> None:
        line = decode(text, HistoryLine)
        as_line(text) if self._json else click.echo(timed(line, self._began))
        if line.kind == "scheduled" and line.event is not None and not self._json:
            # The event may be over by now: then there is nothing to approve.
            with suppress(FailureError):
                self._invite(decode(self._client.get(f"/events/{line.event}"), EventInfo))

    def _remind(self, event: EventInfo) -> None:
        click.echo(
            f"{'':9}  {escape_hidden(f'{event.type} of {names(event.resources)}')} was {event.status} before"
        )
        with suppress(FailureError):
            self._invite(event)

    def _invite(self, event: EventInfo) -> None:
        if event.status != "Scheduled":
            return
        starts = f"           it starts at {instant(event.not_before, self._began)}"
        if not event.seen:
            click.echo(f"{starts}; nobody polls {event.scope}, so nobody is told")
            return
        path = f"/machines/{event.scope}/{event.resources[0]}"
        machine = decode(self._client.get(path), MachineInfo)
        if machine.metadata is None:
            click.echo(f"{starts}, or once it is approved")
            return
        command = snippets.approve_command(machine.metadata, self._version, event.id, machine.alternatives)
        click.echo(f"{starts}, or once it is approved:\n{command}")
