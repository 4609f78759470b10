"""How words on the command line become values; what makes no sense is a usage error that shows an example."""

import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import click

from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.policy import SPEEDS

T = TypeVar("T")

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d{1,6})(KB|MB|GB|TB)", re.ASCII | re.IGNORECASE)
_EVENT = re.compile(r"[A-Za-z0-9-]+", re.ASCII)


class Word(click.ParamType[T]):
    """One way to read a word, with an example of it."""

    def __init__(self, name: str, example: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._example = example
        self._read = read

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the value, or say what it should have looked like."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError:
            self.fail(f"{value!r} makes no sense here; write it like {self._example}", param, ctx)


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text, "duration")
    except InvalidError as problem:
        raise ValueError(text) from problem


def _length(text: str) -> str:
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


def _assigned(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name:
        raise ValueError(text)
    return name, str(ip_address(value))


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    # Reading the port refuses what is none.
    if parts.scheme != "http" or not parts.hostname or parts.port == 0 or parts.query or parts.fragment:
        raise ValueError(text)
    return text


def _replay(text: str) -> tuple[str | None, Path]:
    name, equals, path = text.partition("=")
    # A file may have the sign in its name.
    if not equals or Path(text).exists():
        return None, Path(text)
    if not name or not path:
        raise ValueError(text)
    return name, Path(path)


def _speed(text: str) -> float:
    slowest, fastest = SPEEDS
    # What is no number is not between them either.
    if not slowest <= float(text) <= fastest:
        raise ValueError(text)
    return float(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNITS[match[2].upper()]


def _event(text: str) -> str:
    if not _EVENT.fullmatch(text):
        raise ValueError(text)
    return text


def _listed(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise ValueError(text)
    return parts


DURATION = Word("duration", "30s, 15m or 1h30m", _duration)
#: A duration that the server reads: checked here, sent as it was written.
LENGTH = Word("duration", "30s, 15m or 1h30m", _length)
COUNTED = Word("name=count", "web=3", _counted)
HOST_PORT = Word("host:port", "127.0.0.1:8080", _host_port)
ADDRESS = Word("machine=address", "web_0=10.0.0.4", _assigned)
ENDPOINT = Word("url", "http://169.254.169.254", _endpoint)
REPLAY = Word("file", "recording.jsonl or web_0=recording.jsonl", _replay)
SPEED = Word("speed", "60, from {:g} to {:.0f}".format(*SPEEDS), _speed)
SIZE = Word("size", "500MB or 1GB", _size)
EVENT = Word("event", "C7061BAC-AFDC-4513-B24B-AA5F13A16123", _event)
ZONES = Word("zones", "1,2,3", _listed)
