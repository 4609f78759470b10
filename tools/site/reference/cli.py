"""The page of the command line: every command with its help and its options."""

import inspect
import io
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from unittest.mock import patch

import click

from fairwarning.agent.main import main as agent
from fairwarning.cli import cli
from tools.site.reference.tables import table

HEAD = """\
# Command line

Data goes to stdout, everything else to stderr. `--json` prints a table as JSON. `NO_COLOR` is honoured.
`--help` after any command prints what this page says about the command.
"""
#: The commands of the agent, which has a command line of its own because it needs Python alone.
AGENT_COMMANDS = ((), ("run",), ("check",), ("status",), ("explain",))
_OPTION = re.compile(r"(?<![\w`-])(--[a-z-]+)")


def command_line() -> str:
    """Return the page."""
    # A command keeps the help option of the first context that asks for it.
    context = click.Context(cli, info_name="fairwarning", **cli.context_settings)
    return "\n".join([HEAD, *_sections(cli, context)])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    if path == "fairwarning agent":
        yield from _agent_sections()
        return
    yield f"## {path}\n"
    yield f"```text\n{' '.join(command.get_usage(context).split()).removeprefix('Usage: ')}\n```\n"
    yield _help(command.help or "")
    rows = [(f"`{names}`", text) for names, text in _options(command, context)]
    if rows:
        yield table(["option", "meaning"], rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from _sections(inner, click.Context(inner, info_name=name, parent=context))


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            yield record


def _help(text: str) -> str:
    r"""Return a help text as Markdown; paragraphs after ``\b`` keep their lines."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, _, lines = paragraph.removeprefix("\b\n").partition("\n")
            paragraphs.append(f"{title}\n\n```text\n{_unindented(lines)}\n```\n")
        else:
            paragraphs.append(_OPTION.sub(r"`\1`", " ".join(paragraph.split())) + "\n")
    return "\n".join(paragraphs)


def _unindented(lines: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in lines.splitlines())


def _agent_sections() -> Iterator[str]:
    for words in AGENT_COMMANDS:
        output = io.StringIO()
        with redirect_stdout(output), suppress(SystemExit), patch.dict(os.environ, COLUMNS="100"):
            agent([*words, "--help"], program="fairwarning agent")
        yield f"## {' '.join(('fairwarning agent', *words))}\n"
        yield f"```text\n{output.getvalue().rstrip()}\n```\n"
