"""Manual pages: one for each command, from the command's own help, and the agent's, which is written by hand.

The commands load lazily, so the walk asks each group for its commands by name. In a help text, a paragraph
marked with ``\\b`` keeps its lines. Paragraphs that begin with *Example:*, *Environment:* or *Exit codes:*
become the sections in which readers of manual pages look for them.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from fairwarning.cli import cli
from tools.release import ROOT, Release
from tools.release.archives import write_archive

AGENT_PAGE = ROOT / "packaging" / "fairwarning-agent.8"

#: Paragraphs of help texts that are sections of a manual page, in the order of the sections.
SECTIONS: Mapping[str, str] = {
    "Environment:": "ENVIRONMENT",
    "Exit codes:": "EXIT STATUS",
    "Example:": "EXAMPLES",
}


def build(release: Release) -> list[Path]:
    """Write all pages into one archive, in folders by section of the manual."""
    day = datetime.fromtimestamp(release.epoch, UTC).date().isoformat()
    footer = f'"{day}" "fairwarning {release.version}" "fairwarning"'
    pages = {
        f"man1/{name(context)}.1": page(context, f".TH {name(context).upper()} 1 {footer}")
        for context in commands(click.Context(cli, info_name="fairwarning", **cli.context_settings))
    }
    agent = AGENT_PAGE.read_text().replace(".TH FAIRWARNING-AGENT 8\n", f".TH FAIRWARNING-AGENT 8 {footer}\n")
    pages["man8/fairwarning-agent.8"] = agent
    return [write_archive(release, f"fairwarning-{release.version}-manuals.tar.gz", pages)]


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command and of all commands below it."""
    yield context
    for child in children(context):
        yield from commands(child)


def children(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of the commands of a group."""
    if isinstance(context.command, click.Group):
        for word in context.command.list_commands(context):
            command = context.command.get_command(context, word)
            if command is not None and not command.hidden:
                yield click.Context(command, info_name=word, parent=context)


def name(context: click.Context) -> str:
    """Return the name of the page of a command, such as ``fairwarning-db-check``."""
    return context.command_path.replace(" ", "-")


def page(context: click.Context, title: str) -> str:
    """Return the page of a command."""
    command = context.command
    texts = _paragraphs(command.help or "")
    special = {text.partition("\n")[0]: text for text, _ in texts if text.partition("\n")[0] in SECTIONS}
    lines = [
        title,
        ".SH NAME",
        f"{_escaped(name(context))} \\- {_escaped(command.get_short_help_str(limit=1000).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_escaped(context.command_path)}",
        _escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_prose([pair for pair in texts if pair[0] not in special.values()]),
        ".SH OPTIONS",
        *_options(context),
        *_prose(_paragraphs(command.epilog or "")),
    ]
    if subcommands := list(children(context)):
        lines.append(".SH COMMANDS")
        for child in subcommands:
            summary = child.command.get_short_help_str(limit=1000)
            lines += [".TP", f".BR {_escaped(name(child))} (1)", _escaped(summary)]
    for heading, section in SECTIONS.items():
        if heading in special:
            lines += [f".SH {section}", *_as_written(inspect.cleandoc(special[heading].partition("\n")[2]))]
    return "\n".join([*lines, *_see_also(context)]) + "\n"


def _paragraphs(text: str) -> list[tuple[str, bool]]:
    """Return the paragraphs of a help text, and whether each keeps its lines."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text)) if text else []
    return [(block.removeprefix("\b\n"), block.startswith("\b\n")) for block in blocks]


def _prose(paragraphs: list[tuple[str, bool]]) -> Iterator[str]:
    for text, as_written in paragraphs:
        yield ".PP"
        if as_written:
            yield from _as_written(text)
        else:
            yield _escaped(" ".join(text.split()))


def _as_written(text: str) -> list[str]:
    return [".nf", *(_escaped(line) for line in text.splitlines()), ".fi"]


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        words, text = parameter.get_help_record(context) or ("", "")
        if text:
            yield from (".TP", f".B {_escaped(words)}", _escaped(" ".join(text.split())))


def _see_also(context: click.Context) -> list[str]:
    if context.parent is None:
        return [".SH SEE ALSO", ".BR fairwarning\\-agent (8)"]
    return [".SH SEE ALSO", f".BR {_escaped(name(context.parent))} (1)"]


def _escaped(text: str) -> str:
    """Return a line that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
