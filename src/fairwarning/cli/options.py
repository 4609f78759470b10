"""The types of options and arguments; an invalid value is a usage error that shows a valid one."""

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urlsplit

import click

from fairwarning.cli.output import print_note
from fairwarning.core.causes import Cause, unknown_cause
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.policy import SPEEDS
from fairwarning.formats import sizes
from fairwarning.formats.hidden_characters import escape_hidden

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])

_EVENT = re.compile(r"[A-Za-z0-9-]+", re.ASCII)


def json_option(command: F) -> F:
    """Add the option ``--json`` to a command."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON instead of a table.")(command)


class InvalidOptionError(click.BadParameter):
    """The value of an option is invalid; says why, and what may help."""

    def __init__(self, option: str, problem: str, *hints: str) -> None:
        super().__init__(escape_hidden(problem), param_hint=[option])
        self.hints = hints

    def show(self, file: IO[str] | None = None) -> None:
        """Print the usage, the reason and the hints."""
        super().show(file)
        for hint in self.hints:
            print_note(f"hint: {hint}")


class CauseChoice(click.Choice[str]):
    """One of some causes; suggests close ones."""

    def __init__(self, causes: Mapping[str, Cause]) -> None:
        super().__init__(list(causes))
        self._causes = causes

    def get_invalid_choice_message(self, value: str, ctx: click.Context | None) -> str:
        """Return what is wrong with a value."""
        return escape_hidden(unknown_cause(value, self._causes))


class OutputFile(click.Path[Path]):
    """A file to write, in a directory that exists."""

    def __init__(self, *, writable: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=writable)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return the path, or fail if the directory does not exist."""
        path = super().convert(value, param, ctx)
        if not path.parent.is_dir():
            problem = f"{path} cannot be written: {path.parent} is not a directory"
            self.fail(escape_hidden(problem), param, ctx)
        return path


class ParsedType(click.ParamType[T]):
    """A parameter type: what its values are called, examples of them, and how they are parsed."""

    def __init__(self, name: str, noun: str, examples: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._noun = noun
        self._examples = examples
        self._parse = parse

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the value, or fail with an example of a valid one."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError:
            self.fail(invalid(self._noun, value, self._examples), param, ctx)


def invalid(noun: str, value: str, examples: str) -> str:
    """Return the message about an invalid value."""
    return f"invalid {noun} {value!r} (expected {examples})"


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text, "duration")
    except InvalidError as problem:
        raise ValueError(text) from problem


def _duration_text(text: str) -> str:
    _duration(text)
    return text


def _counted(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not name or not count.isdecimal():
        raise ValueError(text)
    return name, int(count)


def _host_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(text)
    return host.strip("[]"), int(port)


def _machine_address(text: str) -> tuple[str, str]:
    name, _, address = text.partition("=")
    if not name:
        raise ValueError(text)
    return name, str(ip_address(address))


def _moved(text: str) -> tuple[str, str]:
    machine, _, host = text.partition("=")
    if not machine or not host:
        raise ValueError(text)
    return machine, host


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    # The property raises ValueError for an invalid port.
    if parts.scheme != "http" or not parts.hostname or parts.port == 0 or parts.query or parts.fragment:
        raise ValueError(text)
    return text


def _replay(text: str) -> tuple[str | None, Path]:
    name, equals, path = text.partition("=")
    # The name of a file may contain the sign.
    if not equals or Path(text).exists():
        return None, Path(text)
    if not name or not path:
        raise ValueError(text)
    return name, Path(path)


def _speed(text: str) -> float:
    slowest, fastest = SPEEDS
    # The comparison is false for nan.
    if not slowest <= float(text) <= fastest:
        raise ValueError(text)
    return float(text)


def _event(text: str) -> str:
    if not _EVENT.fullmatch(text):
        raise ValueError(text)
    return text


def _list(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise ValueError(text)
    return parts


_DURATIONS = "e.g. 30s, 15m, 1h30m"

DURATION = ParsedType("duration", "duration", _DURATIONS, _duration)
#: A duration that is checked here and sent to the server as it was written.
DURATION_TEXT = ParsedType("duration", "duration", _DURATIONS, _duration_text)
COUNTED = ParsedType("name=count", "name and count", "e.g. web=3", _counted)
HOST = ParsedType("host", "address", "e.g. 127.0.0.1, 0.0.0.0", lambda text: str(ip_address(text)))
HOST_PORT = ParsedType("host:port", "address", "e.g. 127.0.0.1:8080", _host_port)
MOVED = ParsedType("machine=host", "machine and host", "e.g. web_0=kvm-20", _moved)
ADDRESS = ParsedType("machine=address", "machine and address", "e.g. web_0=10.0.0.4", _machine_address)
ENDPOINT = ParsedType("url", "URL", "e.g. http://169.254.169.254", _endpoint)
REPLAY = ParsedType("file", "recording", "e.g. recording.jsonl, web_0=recording.jsonl", _replay)
SPEED = ParsedType("speed", "speed", "e.g. 60; {:g} to {:.0f}".format(*SPEEDS), _speed)
SIZE = ParsedType("size", "size", "e.g. 500MB, 1GB", sizes.parse)
EVENT = ParsedType("event", "event id", "e.g. C7061BAC-AFDC-4513-B24B-AA5F13A16123, C7061BAC", _event)
ZONES = ParsedType("zones", "list of zones", "e.g. 1,2,3", _list)
