"""The agent's own command line; it needs nothing but the standard library.

Exit codes: 0 done, 1 refused or failed, 2 usage error, 3 no endpoint answers.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from fairwarning import __version__
from fairwarning.agent import report, telemetry
from fairwarning.agent.client import MetadataClient, RefusedError, UnavailableError
from fairwarning.agent.clock import AgentSystemClock
from fairwarning.agent.discovery import MIN_TIMEOUT, NoEndpointError, search
from fairwarning.agent.journal import Journal, JournalError, in_use, read_records
from fairwarning.agent.service import AgentService
from fairwarning.agent.settings import DEFAULT_FILE, AgentSettings, address, addresses, load
from fairwarning.core.errors import FairWarningError
from fairwarning.formats.hidden_characters import escape_hidden

#: How long `explain` looks for an endpoint and waits for its answer; a person is waiting.
EXPLAIN_TIMEOUT = timedelta(seconds=10)

EPILOG = f"""\
Example:
    %(prog)s check -c agent.toml    check the settings
    %(prog)s run -c agent.toml      run the agent; SIGHUP reads the settings again
    %(prog)s explain                show why an event is not approved

Without --config, the agent reads {DEFAULT_FILE}.
Without that file it has no rules: it watches, and approves only short freezes.
"""


class _OutputError(Exception):
    """Standard output cannot be written."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(f"the output cannot be written: {problem.strerror}")
        self.problem = problem


class _Once(argparse.Action):
    """Keeps the value of an option, which may be given once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{self.option_strings[-1]} is given twice, and takes one value")
        setattr(namespace, self.dest, value)


def main(arguments: Sequence[str] | None = None, program: str = "fairwarning-agent") -> int:
    """Run the command line and return the exit code."""
    options = _parser(program).parse_args(arguments)
    command: Callable[[argparse.Namespace, Mapping[str, str]], int] = options.command
    try:
        return command(options, os.environ)
    except (NoEndpointError, UnavailableError, RefusedError) as problem:
        _print_error(str(problem), "hint: --endpoint http://ADDRESS:PORT sets the endpoint")
        return 3
    except JournalError as problem:
        return _print_error(str(problem), "hint: --state DIR puts the journal elsewhere")
    except _OutputError as refusal:
        # Python would try to write the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # `check | head` has seen enough: nothing to report.
        return 1 if isinstance(refusal.problem, BrokenPipeError) else _print_error(str(refusal))
    except (FairWarningError, OSError) as problem:
        return _print_error(str(problem))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Drain this machine before an event, approve the event, and return the machine to work.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fairwarning-agent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="run|check|status|explain")
    for name, (command, text) in _COMMANDS.items():
        subparser = commands.add_parser(name, help=text, description=text)
        subparser.set_defaults(command=command)
        subparser.add_argument(
            "-c", "--config", action=_Once, type=Path, help=f"settings file (default: {DEFAULT_FILE})"
        )
        subparser.add_argument(
            "--endpoint",
            action="append",
            help="base address of the endpoint, once per node of the service (default: discovered)",
        )
        subparser.add_argument("--state", action=_Once, type=Path, help="directory of the journal")
        if name == "run":
            subparser.add_argument(
                "--dry-run", action="store_true", help="log what would be done; do nothing"
            )
    return parser


def _settings(options: argparse.Namespace, environment: Mapping[str, str]) -> AgentSettings:
    path = _file(options)
    settings = AgentSettings() if path is None else load(path, environment)
    if options.endpoint is not None:
        settings = replace(settings, endpoints=_addresses(options.endpoint))
    if options.state is not None:
        settings = replace(settings, state=options.state)
    return settings


def _file(options: argparse.Namespace) -> Path | None:
    """Return the settings file; None if there is none and none was asked for."""
    path: Path | None = options.config
    return DEFAULT_FILE if path is None and DEFAULT_FILE.exists() else path


def _addresses(given: Sequence[str]) -> tuple[str, ...]:
    return (address("--endpoint", given[0]),) if len(given) == 1 else addresses("--endpoint", given)


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings = _settings(options, environment)
    with ExitStack() as stack:
        stack.enter_context(telemetry.log_to_stderr())
        # A dry run must not leave records that the real agent would believe.
        scratch = stack.enter_context(tempfile.TemporaryDirectory()) if options.dry_run else None
        journal = stack.enter_context(Journal(Path(scratch) if scratch else settings.state))
        AgentService(
            lambda: _settings(options, environment),
            journal,
            AgentSystemClock(),
            environment,
            dry_run=options.dry_run,
        ).run()
    return 0


def _check(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings, path = _settings(options, environment), _file(options)
    if path is None:
        _print(f"no settings: {DEFAULT_FILE} does not exist")
        _print(
            "the defaults apply: the agent runs no hooks, approves freezes under "
            f"{settings.policy.freeze_threshold} s, and only watches other events"
        )
        return 0
    _print(f"settings: {path}")
    for line in report.rehearse(settings, settings.machine or "this-machine", AgentSystemClock().now()):
        _print(line)
    return max((_print_error(problem) for problem in report.problems(settings, environment)), default=0)


def _status(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    folder = _settings(options, environment).state
    for line in report.status(read_records(folder), in_use(folder)):
        _print(line)
    return 0


def _explain(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings, clock = _settings(options, environment), AgentSystemClock()
    end = clock.elapsed() + EXPLAIN_TIMEOUT
    endpoint, *others = settings.endpoints or (
        search(None, environment, clock, EXPLAIN_TIMEOUT, _print_progress),
    )
    _print_progress(f"asking {', '.join((endpoint, *others))}")
    client = MetadataClient(
        endpoint,
        clock,
        version=settings.version,
        first_timeout=max(end - clock.elapsed(), MIN_TIMEOUT),
        others=others,
        moved=lambda used, problem: _print_progress(f"using {used} ({problem})"),
    )
    document, me = client.poll(), settings.machine or client.name()
    running = in_use(settings.state)
    records = read_records(settings.state)
    for line in report.explain(document, records, me, settings, client.now(), running, environment):
        _print(line)
    return 0


def _print(line: str) -> None:
    """Print a line; texts of the endpoint must not control the terminal."""
    try:
        print(escape_hidden(line), flush=True)
    except OSError as problem:
        raise _OutputError(problem) from None


def _print_progress(text: str) -> None:
    # Nobody would read that stderr cannot be written.
    with suppress(OSError):
        print(escape_hidden(f"fairwarning-agent: {text}"), file=sys.stderr)


def _print_error(problem: str, *hints: str) -> int:
    _print_progress(problem)
    for hint in hints:
        with suppress(OSError):
            print(hint, file=sys.stderr)
    return 1


_COMMANDS: Mapping[str, tuple[Callable[[argparse.Namespace, Mapping[str, str]], int], str]] = {
    "run": (_run, "run the agent until SIGTERM"),
    "check": (_check, "check the settings, and show what each type of event would trigger"),
    "status": (_status, "show the events in the journal of the agent"),
    "explain": (_explain, "show what the agent does about each event, and why"),
}


if __name__ == "__main__":
    sys.exit(main())
