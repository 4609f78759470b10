"""The command that checks whether a handler is safe."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from fairwarning import config
from fairwarning.cli.completion import AFTER_DASHES, complete_rules, complete_scenarios
from fairwarning.cli.options import DURATION, SPEED, OutputFile
from fairwarning.cli.output import FailureError, print_json, print_note, print_table, writing_explained
from fairwarning.config import PROGRAM
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.hidden_characters import escape_hidden
from fairwarning.formats.suggestions import did_you_mean

if TYPE_CHECKING:
    from fairwarning.check.report import ScenarioResult
    from fairwarning.check.run_scenario import CheckRequest
    from fairwarning.check.scenario import Scenario

#: Scenarios mostly wait, so a processor has enough time for two.
JOBS_PER_PROCESSOR, MOST_JOBS = 2, 64

SAFE, UNSAFE, SLOW, NOT_STARTED = 0, 1, 3, 4

_FILE = OutputFile()


def default_jobs() -> int:
    """Return how many scenarios run at a time, by the number of processors that this process may use."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    return min(JOBS_PER_PROCESSOR * processors, MOST_JOBS)


class CheckOptions(TypedDict):
    """The options of ``check``; ``command`` is the command line after the dashes."""

    scenarios: tuple[str, ...]
    command: tuple[str, ...]
    speed: float | None
    quick: bool
    start_within: timedelta
    jobs: int
    strict: bool
    junit: Path | None
    json_file: Path | None
    json_: bool
    list_: bool
    show: str | None
    explain: str | None


class CannotCheckError(FailureError):
    """The check cannot be run."""

    exit_code = 2


class CommandWithDashes(click.Command):
    """A command that takes another command line after ``--``, as ``command``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before the dashes only."""
        border = args.index("--") if "--" in args else len(args)
        ctx.meta[AFTER_DASHES] = "--" in args
        rest = super().parse_args(ctx, args[:border])
        ctx.params["command"] = tuple(args[border + 1 :])
        return rest


@click.command(cls=CommandWithDashes)
@click.option("--speed", type=SPEED, help="Run every scenario at this speed.")
@click.option("--quick", is_flag=True, help="Shorten faults and silences that last for minutes.")
@click.option(
    "--start-within",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long the handler may take to its first request.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MOST_JOBS),
    default=default_jobs,
    show_default="two per processor",
    help="Scenarios to run at a time.",
)
@click.option("--strict", is_flag=True, help="Count rules that were not exercised as unsafe.")
@click.option("--junit", type=_FILE, help="Write JUnit XML to this file.")
@click.option("--json", "json_", is_flag=True, help="Print JSON; the results for people go to stderr.")
@click.option("--json-file", type=_FILE, help="Write JSON to this file.")
@click.option("--list", "list_", is_flag=True, help="List the standard scenarios and exit.")
@click.option(
    "--show",
    metavar="SCENARIO",
    shell_complete=complete_scenarios,
    help="Print the file of a scenario and exit.",
)
@click.option(
    "--explain",
    metavar="RULE",
    shell_complete=complete_rules,
    help="Explain a rule, such as C-06, and exit.",
)
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]... -- CMD...", shell_complete=complete_scenarios)
def check(**options: Unpack[CheckOptions]) -> None:
    """Check whether a handler is safe, by running it in scenarios.

    CMD is started on the machines that a scenario names and finds its endpoint at 169.254.169.254 (Linux, no
    root). In CMD, {vm}, {work}, {drain}, {recover} and {call} are replaced; the environment has the same as
    FAIRWARNING_MACHINE, _WORK, _DRAIN, _RECOVER and _CALL. A SCENARIO is the name of a standard scenario or a
    TOML file; without any, all standard scenarios are run.

    \b
    Example:
      fairwarning check --quick -- python my_handler.py
      fairwarning check plain-reboot drain-fails --junit report.xml -- ./handler --drain {drain}
      fairwarning check --list
      fairwarning check --explain C-06

    \b
    Exit codes:
      0  safe, as far as the scenarios show
      1  unsafe
      2  usage error, or a scenario could not be run; or it could not be judged, because this machine ran late
      3  slow: an event that no user waits for was not approved in time
      4  the handler did not start in at least one scenario
    """
    with writing_explained(CannotCheckError):
        if options["list_"] or options["show"] is not None:
            _print_scenarios(options["show"], options["json_"])
        elif options["explain"] is not None:
            _explain(options["explain"], options["json_"])
        else:
            _check(options)


def _check(options: CheckOptions) -> None:
    scenarios = _load(options["scenarios"])
    _require(options)
    results = _results(scenarios, options)
    _write(results, options)
    sys.exit(exit_code(results, options["strict"]))


def _print_scenarios(show: str | None, json_: bool) -> None:
    from fairwarning.check import scenario

    if show is not None:
        try:
            click.echo(scenario.text(show), nl=False)
        except FairWarningError as problem:
            raise _cannot_load(show, problem) from problem
        return
    summaries = {name: scenario.load(name).summary for name in scenario.standard()}
    if json_:
        print_json([{"name": name, "summary": summary} for name, summary in summaries.items()])
    else:
        print_table(("SCENARIO", "WHAT HAPPENS"), summaries.items())


def _explain(rule: str, json_: bool) -> None:
    from fairwarning.check.rules import explain, sentences

    known = sentences()
    if rule.upper() not in known:
        names = f"the scenarios test {', '.join(known)}"
        raise click.BadParameter(f"no rule named {rule}; {names}", param_hint="'--explain'")
    explanation = explain(rule.upper())
    if json_:
        print_json(asdict(explanation))
        return
    click.echo(f"{explanation.id}: {explanation.sentence}\n")
    print_table(("EXPECTATION", "MEANS"), explanation.expectations.items())
    click.echo(f"\nscenarios: {', '.join(explanation.scenarios) or '-'}")


def _load(names: Sequence[str]) -> list["Scenario"]:
    from fairwarning.check.scenario import load, standard

    scenarios = []
    for name in names or standard():
        try:
            scenarios.append(load(name))
        except FairWarningError as problem:
            raise _cannot_load(name, problem) from problem
    return scenarios


def _cannot_load(name: str, problem: FairWarningError) -> CannotCheckError:
    """Return the error about a scenario; only an unknown name gets suggestions."""
    from fairwarning.check.scenario import standard

    if name.endswith(".json"):
        return CannotCheckError(str(problem), f"to write JSON to a file: --json-file {name}")
    if Path(name).exists():
        return CannotCheckError(str(problem))
    hint = f"{PROGRAM} check --list lists the standard scenarios"
    return CannotCheckError(f"{problem}{did_you_mean(name, standard())}", hint)


def _require(options: CheckOptions) -> None:
    """Fail now where the check would fail after minutes."""
    command = options["command"]
    if not command:
        raise click.UsageError("no handler: write its command line after --")
    if sys.platform != "linux":
        raise CannotCheckError("check works on Linux only")
    if "{" not in command[0] and shutil.which(command[0]) is None:
        raise CannotCheckError(f"program not found: {command[0]}")


def _results(scenarios: list["Scenario"], options: CheckOptions) -> list["ScenarioResult"]:
    from fairwarning.check.report import hints, summary
    from fairwarning.check.run_scenario import CheckRequest
    from fairwarning.check.scenario import Timing

    timing = Timing(options["quick"], options["speed"], options["start_within"])
    request = CheckRequest(options["command"], config.environment({}), timing)
    progress = CheckProgress(scenarios, err=options["json_"])
    try:
        results = asyncio.run(_run(scenarios, request, options["jobs"], progress))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise CannotCheckError("interrupted") from None
    print_note(summary(results))
    for hint in hints(results):
        print_note(f"hint: {hint}")
    return results


async def _run(
    scenarios: list["Scenario"], request: "CheckRequest", jobs: int, progress: "CheckProgress"
) -> list["ScenarioResult"]:
    from fairwarning.check.background import in_background
    from fairwarning.check.lateness import LatenessWatch
    from fairwarning.check.run import check as run_all
    from fairwarning.check.run import play

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    watch = LatenessWatch()
    async with in_background(watch.run()):
        return await run_all(scenarios, partial(play, request=request, watch=watch), jobs, progress)


class CheckProgress:
    """Prints the result of each scenario; on a terminal, also the scenarios that are running."""

    def __init__(self, scenarios: Sequence["Scenario"], *, err: bool) -> None:
        self._width = max(len(scenario.name) for scenario in scenarios)
        self._left = len(scenarios)
        self._err = err
        self._running: list[str] = []

    def begin(self, scenario: "Scenario") -> None:
        """Show that a scenario is running."""
        self._running.append(scenario.name)
        self._show()

    def end(self, result: "ScenarioResult") -> None:
        """Print the result of a scenario."""
        from fairwarning.check.report import lines

        self._running.remove(result.scenario.name)
        self._left -= 1
        self._clear()
        for line in lines(result, self._width):
            click.echo(escape_hidden(line), err=self._err)
        self._show()

    def postpone(self, result: "ScenarioResult") -> None:
        """Print that a scenario is repeated at the end."""
        self._running.remove(result.scenario.name)
        self._clear()
        late = f"{result.lateness.total_seconds():.1f} s late"
        print_note(f"note: {result.scenario.name} is repeated at the end: this machine ran {late}")
        self._show()

    def _show(self) -> None:
        if self._running and sys.stderr.isatty():
            columns = shutil.get_terminal_size().columns
            self._clear()
            click.echo(f"{self._left} left: {', '.join(self._running)}"[: columns - 1], err=True, nl=False)

    def _clear(self) -> None:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)


def _write(results: list["ScenarioResult"], options: CheckOptions) -> None:
    from fairwarning.check.report import as_json, as_junit

    if options["json_"]:
        print_json(json.loads(as_json(results)))
    for path, render in ((options["junit"], as_junit), (options["json_file"], as_json)):
        if path is not None:
            try:
                path.write_text(render(results), encoding="utf-8")
            except OSError as problem:
                raise CannotCheckError(f"{path} cannot be written: {problem.strerror}") from problem


def exit_code(results: list["ScenarioResult"], strict: bool) -> int:
    """Return the code of the worst result; only a proven fault is worse than what could not be judged."""
    from fairwarning.check.judge import ExpectationOutcome

    if any(result.problem is not None for result in results):
        return CannotCheckError.exit_code
    unsafe = (
        {ExpectationOutcome.BROKEN, ExpectationOutcome.NOT_SHOWN} if strict else {ExpectationOutcome.BROKEN}
    )
    outcomes = {result.outcome for result in results}
    if outcomes & unsafe:
        return UNSAFE
    if ExpectationOutcome.NOT_STARTED in outcomes:
        return NOT_STARTED
    if ExpectationOutcome.NOT_JUDGED in outcomes:
        return CannotCheckError.exit_code
    return SLOW if ExpectationOutcome.SLOW in outcomes else SAFE
