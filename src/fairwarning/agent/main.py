"""The agent's own command line: it must work where only Python is.

Exit codes: 0 done, 1 refused or failed, 2 the command line makes no sense, 3 no endpoint answers.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from fairwarning import __version__
from fairwarning.agent import logs, report
from fairwarning.agent.client import MetadataClient, RefusedError, UnavailableError
from fairwarning.agent.clock import AgentSystemClock
from fairwarning.agent.discovery import SHORTEST_TRY, NoEndpointError, search
from fairwarning.agent.journal import Journal, in_use, recall
from fairwarning.agent.service import AgentService
from fairwarning.agent.settings import DEFAULT_FILE, AgentSettings, address, load
from fairwarning.core.errors import FairWarningError

#: How long `explain` looks for an endpoint and waits for its answer: a person is waiting for it.
GIVE_UP = timedelta(seconds=10)

EPILOG = f"""\
Example:
    %(prog)s check --config agent.toml     is the file right, and what would happen?
    %(prog)s run --config agent.toml       work until SIGTERM; SIGHUP reads the file again
    %(prog)s explain                       why is nothing approved?

Without --config: {DEFAULT_FILE} if it is there; else no rules: watch, approve short freezes only.
"""


def main(words: Sequence[str] | None = None, program: str = "fairwarning-agent") -> int:
    """Do what the command line says and return the exit code."""
    asked = _parser(program).parse_args(words)
    command: Callable[[argparse.Namespace, Mapping[str, str]], int] = asked.command
    try:
        return command(asked, os.environ)
    except (NoEndpointError, UnavailableError, RefusedError) as problem:
        _complain(str(problem), "hint: --endpoint http://ADDRESS:PORT names the endpoint")
        return 3
    except FairWarningError as problem:
        return _complain(str(problem))
    except OSError as problem:
        return _complain(str(problem), "hint: --state DIR keeps the journal elsewhere")


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Prepare this machine for what is coming, approve, and put it back to work.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fairwarning-agent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="run|check|status|explain")
    for name, (command, text) in _COMMANDS.items():
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(command=command)
        one.add_argument("-c", "--config", type=Path, help=f"the agent's file (default: {DEFAULT_FILE})")
        one.add_argument("--endpoint", help="base address of the endpoint, instead of looking for it")
        one.add_argument("--state", type=Path, help="where the journal is kept")
        if name == "run":
            one.add_argument("--dry-run", action="store_true", help="only say what would be done")
    return parser


def _settings(asked: argparse.Namespace, environment: Mapping[str, str]) -> AgentSettings:
    path: Path | None = asked.config
    if path is None and not DEFAULT_FILE.exists():
        settings = AgentSettings()
    else:
        settings = load(path or DEFAULT_FILE, environment)
    if asked.endpoint is not None:
        settings = replace(settings, endpoint=address("--endpoint", asked.endpoint))
    if asked.state is not None:
        settings = replace(settings, state=asked.state)
    return settings


def _run(asked: argparse.Namespace, environment: Mapping[str, str]) -> int:
    logs.to_stderr()
    settings = _settings(asked, environment)
    with ExitStack() as stack:
        # A rehearsal must not make the real agent believe that something has been done.
        scratch = stack.enter_context(tempfile.TemporaryDirectory()) if asked.dry_run else None
        journal = stack.enter_context(Journal(Path(scratch) if scratch else settings.state))
        AgentService(
            lambda: _settings(asked, environment),
            journal,
            AgentSystemClock(),
            environment,
            dry_run=asked.dry_run,
        ).run()
    return 0


def _check(asked: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings = _settings(asked, environment)
    for line in report.rehearse(settings, settings.machine or "this-machine", AgentSystemClock().now()):
        print(line)
    return max((_complain(problem) for problem in report.problems(settings, environment)), default=0)


def _status(asked: argparse.Namespace, environment: Mapping[str, str]) -> int:
    folder = _settings(asked, environment).state
    for line in report.recall(recall(folder), in_use(folder)):
        print(line)
    return 0


def _explain(asked: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings, clock = _settings(asked, environment), AgentSystemClock()
    end = clock.elapsed() + GIVE_UP
    endpoint = search(settings.endpoint, environment, clock, GIVE_UP, _mention)
    _mention(f"asking {endpoint}")
    patience = max(end - clock.elapsed(), SHORTEST_TRY)
    client = MetadataClient(endpoint, clock, version=settings.version, patience=patience)
    document, me = client.poll(), settings.machine or client.name()
    working = in_use(settings.state)
    records = recall(settings.state)
    for line in report.explain(document, records, me, settings, client.now(), working, environment):
        print(line)
    return 0


def _mention(what: str) -> None:
    print(f"fairwarning-agent: {what}", file=sys.stderr)


def _complain(problem: str, *hints: str) -> int:
    for line in (f"fairwarning-agent: {problem}", *hints):
        print(line, file=sys.stderr)
    return 1


_COMMANDS: Mapping[str, tuple[Callable[[argparse.Namespace, Mapping[str, str]], int], str]] = {
    "run": (_run, "work until told to stop"),
    "check": (_check, "check the file, and rehearse what would happen per type of event"),
    "status": (_status, "show what the agent remembers"),
    "explain": (_explain, "say what is done about each event now, and why"),
}


if __name__ == "__main__":
    sys.exit(main())
