"""The command that says whether a handler is safe."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from fairwarning import config
from fairwarning.cli.options import SPEED
from fairwarning.cli.output import FailureError, note, table
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.hidden_characters import escape_hidden

if TYPE_CHECKING:
    from fairwarning.check.report import ScenarioResult
    from fairwarning.check.run_scenario import CheckRequest
    from fairwarning.check.scenario import Scenario

#: Scenarios mostly wait, so more of them are played at a time than there are processors.
JOBS = 6

SAFE, UNSAFE = 0, 1

_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)


class CheckOptions(TypedDict):
    """What is asked for; ``command`` is what stands behind the dashes."""

    scenarios: tuple[str, ...]
    command: tuple[str, ...]
    speed: float | None
    quick: bool
    jobs: int
    strict: bool
    junit: Path | None
    json_: Path | None
    list_: bool
    show: str | None


class CannotCheckError(FailureError):
    """There is nothing to check, or no way to."""

    exit_code = 2


class BeforeAndAfter(click.Command):
    """A command with another command line behind ``--``, which it gets as ``command``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what is before the dashes; what is behind them is not ours to read."""
        border = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:border])
        ctx.params["command"] = tuple(args[border + 1 :])
        return rest


@click.command(cls=BeforeAndAfter)
@click.option("--speed", type=SPEED, help="Divide the fleet's durations by this, in every scenario.")
@click.option("--quick", is_flag=True, help="Shorten faults and silences that last for minutes.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="How many at a time."
)
@click.option("--strict", is_flag=True, help="What the handler does not show counts as unsafe.")
@click.option("--junit", type=_FILE, help="Write JUnit XML here.")
@click.option("--json", "json_", type=_FILE, help="Write JSON here.")
@click.option("--list", "list_", is_flag=True, help="List the standard scenarios, and do nothing else.")
@click.option("--show", metavar="SCENARIO", help="Print a scenario's file, and do nothing else.")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]... -- CMD...")
def check(**wishes: Unpack[CheckOptions]) -> None:
    """Say whether a handler is safe: play scenarios to it and judge what it does.

    CMD is started on the machines that a scenario names and finds its endpoint at 169.254.169.254 (Linux, no
    root). In CMD, {vm}, {work}, {drain}, {recover} and {call} are replaced; the environment has the same as
    FAIRWARNING_MACHINE, _WORK, _DRAIN, _RECOVER and _CALL. A SCENARIO is a standard one or a TOML file;
    without any, all standard ones are played.

    \b
    Example:
      fairwarning check --quick -- python my_handler.py
      fairwarning check plain-reboot drain-fails --junit report.xml -- ./handler --drain {drain}
      fairwarning check --list

    \b
    Exit codes:
      0  safe, as far as it was shown
      1  unsafe
      2  the command line makes no sense, or a scenario could not be played
    """
    if wishes["list_"] or wishes["show"] is not None:
        _tell(wishes["show"])
        return
    chosen = _chosen(wishes["scenarios"])
    _require(wishes)
    results = _results(chosen, wishes)
    _write(results, wishes)
    sys.exit(_exit_code(results, wishes["strict"]))


def _tell(show: str | None) -> None:
    from fairwarning.check import scenario

    try:
        if show is not None:
            click.echo(scenario.text(show), nl=False)
            return
        rows = [(name, scenario.load(name).summary) for name in scenario.standard()]
    except FairWarningError as problem:
        raise CannotCheckError(str(problem)) from problem
    table(("SCENARIO", "WHAT HAPPENS"), rows)


def _chosen(names: Sequence[str]) -> list["Scenario"]:
    from fairwarning.check.scenario import load, standard

    try:
        return [load(name) for name in names or standard()]
    except FairWarningError as problem:
        raise CannotCheckError(str(problem), "fairwarning check --list shows the standard ones") from problem


def _require(wishes: CheckOptions) -> None:
    """Complain now about what would fail only after minutes."""
    command = wishes["command"]
    if not command:
        raise click.UsageError("which handler? write its command line behind --")
    if sys.platform != "linux":
        raise CannotCheckError("check works on Linux only")
    if "{" not in command[0] and shutil.which(command[0]) is None:
        raise CannotCheckError(f"there is no program {command[0]}")
    for path in (wishes["junit"], wishes["json_"]):
        if path is not None and not path.parent.is_dir():
            raise CannotCheckError(f"{path} cannot be written: {path.parent} is no directory")


def _results(scenarios: list["Scenario"], wishes: CheckOptions) -> list["ScenarioResult"]:
    from fairwarning.check.report import summary
    from fairwarning.check.run_scenario import CheckRequest
    from fairwarning.check.scenario import Timing

    run = CheckRequest(wishes["command"], config.environment({}), Timing(wishes["quick"], wishes["speed"]))
    try:
        results = asyncio.run(_play(scenarios, run, wishes["jobs"]))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise CannotCheckError("stopped before the end") from None
    note(summary(results))
    return results


async def _play(scenarios: list["Scenario"], run: "CheckRequest", jobs: int) -> list["ScenarioResult"]:
    from fairwarning.check.run import check as play_all

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    progress = CheckProgress(scenarios)
    return await play_all(scenarios, run, jobs, progress.begin, progress.end)


class CheckProgress:
    """Tells how each scenario went, and on a terminal also which ones are being played."""

    def __init__(self, scenarios: Sequence["Scenario"]) -> None:
        self._width = max(len(one.name) for one in scenarios)
        self._left = len(scenarios)
        self._playing: list[str] = []

    def begin(self, scenario: "Scenario") -> None:
        """Take note that a scenario is being played."""
        self._playing.append(scenario.name)
        self._show()

    def end(self, result: "ScenarioResult") -> None:
        """Print how a scenario went."""
        from fairwarning.check.report import lines

        self._playing.remove(result.scenario.name)
        self._left -= 1
        self._clear()
        for line in lines(result, self._width):
            click.echo(escape_hidden(line))
        self._show()

    def _show(self) -> None:
        if self._playing and sys.stderr.isatty():
            columns = shutil.get_terminal_size().columns
            self._clear()
            click.echo(f"{self._left} left: {', '.join(self._playing)}"[: columns - 1], err=True, nl=False)

    def _clear(self) -> None:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)


def _write(results: list["ScenarioResult"], wishes: CheckOptions) -> None:
    from fairwarning.check.report import as_json, as_junit

    for path, render in ((wishes["junit"], as_junit), (wishes["json_"], as_json)):
        if path is not None:
            try:
                path.write_text(render(results), encoding="utf-8")
            except OSError as problem:
                raise CannotCheckError(f"{path} cannot be written: {problem.strerror}") from problem


def _exit_code(results: list["ScenarioResult"], strict: bool) -> int:
    from fairwarning.check.judge import ExpectationOutcome

    if any(one.problem is not None for one in results):
        return CannotCheckError.exit_code
    unsafe = (
        {ExpectationOutcome.BROKEN, ExpectationOutcome.NOT_SHOWN} if strict else {ExpectationOutcome.BROKEN}
    )
    return UNSAFE if any(one.outcome in unsafe for one in results) else SAFE
