"""The command that runs a server for a fleet of real machines, as a file describes it."""

import asyncio
import gc
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairwarning import config
from fairwarning.cli.doctor import DATA_HINTS
from fairwarning.cli.options import OutputFile, json_option
from fairwarning.cli.output import FailureError, print_json, print_note, print_table
from fairwarning.cli.up import addresses, published
from fairwarning.config import PROGRAM
from fairwarning.core.errors import FairWarningError
from fairwarning.logs.output import LogFormat, LogLevel, log_written_to

if TYPE_CHECKING:
    from fairwarning.config.serve_settings import LoadedFile
    from fairwarning.server import FleetServer

#: What may help, by the name of the error.
_HINTS: Mapping[str, tuple[str, ...]] = {
    "OlderDatabaseError": (f"{PROGRAM} db migrate --config FILE, or migrate = true in [store]",),
    "DataDirectoryInUseError": ("stop the other server: SQLite is for one node",),
    **DATA_HINTS,
}

_READABLE = click.Path(path_type=Path, dir_okay=False, exists=True)


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
@json_option
def serve(
    config_: Path | None, check_: Path | None, schema: bool, ready_file: Path | None, json_: bool
) -> None:
    """Run a server for a fleet of real machines.

    The file lists the machines and says where the data is, which APIs listen where, and which files hold the
    secrets. Unlike `up`, the server has a real clock and nothing of the emulator: machines come from the
    inventory alone, and your own tools act on them. SIGHUP reads machines, tokens and certificates again.
    The log is on stderr.

    \b
    Example:
      fairwarning serve --check fleet.toml
      fairwarning serve --config fleet.toml
      FAIRWARNING_LOG__LEVEL=debug fairwarning serve --config fleet.toml
    """
    if [config_ is not None, check_ is not None, schema].count(True) != 1:
        raise click.UsageError("exactly one of --config, --check and --schema is needed")
    if schema:
        from fairwarning.config.serve_file import schema as schema_of_file

        print_json(schema_of_file())
    elif check_ is not None:
        _check(check_, json_)
    elif config_ is not None:
        loaded = load_config(config_)
        with _failures():
            log = loaded.file.log
            with log_written_to(sys.stderr, LogLevel(log.level), LogFormat(log.format)):
                asyncio.run(_serve(loaded.path, loaded.settings, ready_file))


def _check(path: Path, json_: bool) -> None:
    from fairwarning.config.describe import describe

    topics = dict(describe(load_config(path)))
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
        return load(path, config.variables())
    except ConfigError as problem:
        raise ConfigurationError(problem.problems) from problem


@contextmanager
def _failures() -> Iterator[None]:
    """Explain what the block fails with."""
    try:
        yield
    except FairWarningError as problem:
        raise FailureError(str(problem), *_HINTS.get(type(problem).__name__, ())) from problem
    except OSError as problem:
        raise FailureError(str(problem)) from problem


async def _serve(path: Path, settings: config.Settings, ready_file: Path | None) -> None:
    # Imported modules live as long as the process: collecting garbage meanwhile finds none.
    gc.disable()
    from fairwarning.server import FleetServer

    stop, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGINT, stop), (signal.SIGTERM, stop), (signal.SIGHUP, reload)):
        loop.add_signal_handler(number, event.set)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    async with FleetServer(settings) as server:
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
