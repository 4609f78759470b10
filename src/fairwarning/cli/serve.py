"""The command that runs a server for a fleet of real machines, as a file describes it."""

import asyncio
import gc
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairwarning import config
from fairwarning.cli.doctor import DATA_HINTS
from fairwarning.cli.options import OutputFile, json_option
from fairwarning.cli.output import FailureError, failures_explained, print_json, print_note, print_table
from fairwarning.cli.up import addresses, published
from fairwarning.config import PROGRAM
from fairwarning.core.document.render import Json
from fairwarning.core.errors import InvalidError
from fairwarning.logs.output import LogFormat, LogLevel, log_written_to
from fairwarning.supervisor.assignment import Assignment, InheritedSockets, end_with_supervisor
from fairwarning.supervisor.supervisor import ListenAddress

if TYPE_CHECKING:
    from fairwarning.config.serve_settings import LoadedFile
    from fairwarning.server import FleetServer

#: What may help, by the name of the error.
_HINTS: Mapping[str, tuple[str, ...]] = {
    **DATA_HINTS,
    "OlderDatabaseError": (f"{PROGRAM} db migrate --config FILE, or migrate = true in [store]",),
    "OlderInventoryError": ("start with the newer file, which other nodes may have",),
    "DataDirectoryInUseError": ("stop the other server: SQLite is for one node",),
}

_READABLE = click.Path(path_type=Path, dir_okay=False, exists=True)

#: As many nodes as one database is meant for.
MOST_WORKERS = 32


class ConfigurationError(FailureError):
    """The file cannot be used; says every reason."""

    exit_code = 2

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self._problems = problems

    def show(self, file: object = None) -> None:
        """Print every reason on a line of its own."""
        for problem in self._problems:
            print_note(f"error: {problem}")


@click.command()
@click.option("--config", "config_", type=_READABLE, help="Serve as this TOML file says, until SIGTERM.")
@click.option("--check", "check_", type=_READABLE, help="Validate a file, say what it means, and exit.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of the file, and exit.")
@click.option(
    "--ready-file",
    type=OutputFile(writable=False),
    help="Write the addresses to this JSON file when the server is ready.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    help="Run several nodes on this host, as processes of one supervisor; PostgreSQL only.",
)
@json_option
def serve(
    config_: Path | None,
    check_: Path | None,
    schema: bool,
    ready_file: Path | None,
    workers: int | None,
    json_: bool,
) -> None:
    """Run a server for a fleet of real machines.

    The file lists the machines and says where the data is, which APIs listen where, and which files hold the
    secrets. Unlike `up`, the server has a real clock and nothing of the emulator: machines come from the
    inventory alone, and your own tools act on them. SIGHUP reads machines, tokens and certificates again.
    The log is on stderr.

    With --workers, each guest stays with one worker, and a worker that dies is started again. SIGHUP replaces
    the workers one after the other, with the file as it is then; only the addresses stay.

    \b
    Example:
      fairwarning serve --check fleet.toml
      fairwarning serve --config fleet.toml
      fairwarning serve --config fleet.toml --workers 4
      FAIRWARNING_LOG__LEVEL=debug fairwarning serve --config fleet.toml
    """
    if [config_ is not None, check_ is not None, schema].count(True) != 1:
        raise click.UsageError("exactly one of --config, --check and --schema is needed")
    if schema:
        from fairwarning.config.serve_file import schema as schema_of_file

        print_json(schema_of_file())
    elif check_ is not None:
        _check(check_, workers, json_)
    elif config_ is not None:
        _run(load_config(config_), workers, ready_file)


def _run(loaded: "LoadedFile", workers: int | None, ready_file: Path | None) -> None:
    given = config.worker_assignment()
    assignment = None if given is None else Assignment.decode(given)
    worker = None if assignment is None else assignment.worker
    log = loaded.file.log
    with (
        failures_explained(_HINTS),
        log_written_to(sys.stderr, LogLevel(log.level), LogFormat(log.format), worker),
    ):
        if assignment is not None:
            end_with_supervisor(assignment)
            asyncio.run(_serve(loaded.path, _worker_settings(loaded.settings, assignment), None, assignment))
        elif workers is not None:
            asyncio.run(_supervise(loaded, workers, ready_file))
        else:
            asyncio.run(_serve(loaded.path, loaded.settings, ready_file))


def _check(path: Path, workers: int | None, json_: bool) -> None:
    from fairwarning.config.describe import describe

    loaded = load_config(path)
    if workers is not None:
        _check_shareable(loaded)
    topics = dict(describe(loaded))
    if json_:
        print_json(
            {"file": str(path), **{topic.lower().replace(" ", "_"): text for topic, text in topics.items()}}
        )
        return
    print_table(("", f"{path} is valid"), topics.items())


def load_config(path: Path) -> "LoadedFile":
    """Return what a file says; a file with problems is a failure that names all of them."""
    from fairwarning.config.read_file import ConfigError
    from fairwarning.config.serve_settings import load

    try:
        loaded = load(path, config.variables())
    except ConfigError as problem:
        raise ConfigurationError(problem.problems) from problem
    _check_database(loaded)
    return loaded


def _check_database(loaded: "LoadedFile") -> None:
    """Refuse an address of PostgreSQL with which the server could not start."""
    from fairwarning.cli.db import postgres_database
    from fairwarning.config.serve_file import PostgresTable

    store, serve = loaded.file.store, loaded.settings.serve
    if isinstance(store, PostgresTable) and serve is not None and serve.dsn is not None:
        try:
            postgres_database(serve.dsn)
        except FailureError as problem:
            key = "dsn_file" if store.dsn_file else "dsn"
            raise ConfigurationError((f"{loaded.path}: [store] {key}: {problem.message}",)) from problem


async def _serve(
    path: Path, settings: config.Settings, ready_file: Path | None, assignment: Assignment | None = None
) -> None:
    # Imported modules live as long as the process: collecting garbage meanwhile finds none.
    gc.disable()
    from fairwarning.server import FleetServer

    stop, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGINT, stop), (signal.SIGTERM, stop), (signal.SIGHUP, reload)):
        loop.add_signal_handler(number, event.set)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    bind = None if assignment is None else InheritedSockets(assignment).bind
    internal = None if assignment is None else assignment.internal
    async with FleetServer(settings, bind=bind, internal=internal) as server:
        gc.freeze()
        gc.enable()
        for note in server.notes:
            print_note(note)
        with published(ready_file, {**addresses(server), "shared": [*server.shared_urls()]}):
            reloading = asyncio.create_task(_reload(server, path, reload))
            try:
                await server.run_until(stop)
            finally:
                reloading.cancel()


async def _reload(server: "FleetServer", path: Path, asked: asyncio.Event) -> None:
    """Read the file again whenever this is asked for, until cancelled."""
    from fairwarning.config.serve_settings import load

    while True:
        await asked.wait()
        asked.clear()
        await server.reload(lambda: load(path, config.variables()).settings)


def _worker_settings(settings: config.Settings, assignment: Assignment) -> config.Settings:
    """Return the settings of one worker: a node with a name of its own."""
    assert settings.serve is not None
    node = f"{settings.serve.node}-{assignment.worker}"
    return replace(settings, serve=replace(settings.serve, node=node))


async def _supervise(loaded: "LoadedFile", workers: int, ready_file: Path | None) -> None:
    from fairwarning.supervisor.run import Supervision, supervise

    settings = loaded.settings
    serve = settings.serve
    assert serve is not None
    _check_shareable(loaded)
    guests = [ListenAddress(host, port) for host, port in settings.listen]
    operators = [
        ListenAddress(*address, dual_stack=True)
        for address in (settings.operator_address, settings.arm)
        if address is not None
    ]

    def published_addresses(bound: Sequence[tuple[str, int]]) -> AbstractContextManager[None]:
        shared, (operator, *management, status) = bound[: len(guests)], bound[len(guests) :]
        ready: dict[str, Json] = {
            "operator": _url("https" if serve.operator_tls else "http", operator),
            "arm": _url("https", management[0]) if management else None,
            "shared": [_url("http", address) for address in shared],
            "status": _url("http", status),
        }
        return published(ready_file, ready)

    plan = Supervision(
        workers=workers,
        command=(sys.executable, "-P", "-m", "fairwarning", "serve", "--config", str(loaded.path)),
        environment=config.environment,
        variable=config.WORKER_VARIABLE,
        addresses=[*guests, *operators],
        status=serve.status,
        token=settings.token,
        read_token=lambda: _read_token(loaded.path, serve.status[0]),
        # The APIs stop one after the other, and then the store.
        drain=3 * settings.limits.grace + timedelta(seconds=15),
    )
    await supervise(plan, config.service_manager(), published_addresses)


def _read_token(path: Path, host: str) -> str | None:
    """Return the token that the file names now; the status stays at its host, which may need one."""
    from fairwarning.config.serve_settings import load

    token = load(path, config.variables()).settings.token
    if token is None and not config.loopback(host):
        raise InvalidError("token", f"a token is required to serve the status on {host}")
    return token


def _check_shareable(loaded: "LoadedFile") -> None:
    """Refuse what several processes cannot have in common."""
    settings, problems = loaded.settings, []
    if settings.data is not None:
        problems.append(
            '--workers needs PostgreSQL ([store] kind = "postgres"): one process alone can use an SQLite file'
        )
    if settings.sockets is not None:
        problems.append(f"--workers: {loaded.path}: [metadata] sockets cannot be shared by several processes")
    if problems:
        raise ConfigurationError(tuple(problems))


def _url(scheme: str, address: tuple[str, int]) -> str:
    host, port = address
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
