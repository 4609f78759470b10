"""Reads the options of a step, and the files that they name; every error names its field."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from fairwarning import __version__
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.inputs import parse_duration


class SettingsError(FairWarningError, ValueError):
    """A field of the settings is invalid."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Options:
    """The table of a hook's options."""

    def __init__(self, field: str, table: object, allowed: Sequence[str]) -> None:
        if not isinstance(table, Mapping):
            raise SettingsError(field, f"must be a table with some of {', '.join(allowed)}")
        self._field = field
        self._values: dict[str, object] = {str(name): value for name, value in table.items()}
        for name in self._values:
            if name not in allowed:
                problem = f"unknown option (version {__version__} knows {', '.join(allowed)})"
                raise SettingsError(self.field(name), problem)

    def field(self, name: str) -> str:
        """Return the full name of an option, as errors show it."""
        return f"{self._field}.{name}"

    def one_of(self, *names: str) -> str:
        """Return the name of the option that is given; exactly one of them must be."""
        given = [name for name in names if name in self._values]
        if len(given) != 1:
            raise SettingsError(self._field, f"needs exactly one of {', '.join(names)}")
        return given[0]

    def text(self, name: str) -> str | None:
        """Return a string that is not empty; None if it is not given."""
        return text(self.field(name), self._values[name]) if name in self._values else None

    def needed(self, name: str) -> str:
        """Return a string that must be given."""
        return text(self.field(name), self._values.get(name))

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; an empty list if the option is not given."""
        return words(self.field(name), self._values[name]) if name in self._values else ()

    def flag(self, name: str) -> bool:
        """Return a boolean; false if it is not given."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise SettingsError(self.field(name), "must be true or false")
        return value

    def text_or_true(self, name: str) -> str | None:
        """Return a string, or None if the option is ``true``."""
        return None if self._values.get(name) is True else self.needed(name)

    def duration(self, name: str, default: timedelta) -> timedelta:
        """Return a duration."""
        if name not in self._values:
            return default
        try:
            return parse_duration(self.needed(name), self.field(name))
        except InvalidError as problem:
            raise SettingsError(problem.field, problem.problem) from None


def text(field: str, value: object) -> str:
    """Return ``value`` if it is a string that a program can take as an argument."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingsError(field, "must be a non-empty string")
    return value


def words(field: str, value: object) -> tuple[str, ...]:
    """Return ``value`` if it is a non-empty list of strings."""
    if not isinstance(value, list | tuple) or not value:
        raise SettingsError(field, "must be a non-empty list of strings")
    return tuple(text(f"{field}[{number}]", word) for number, word in enumerate(value))


def read_regular_file(path: Path, limit: int) -> bytes:
    """Return the content of a file; a pipe or a device must not block the agent.

    Raises:
        OSError: the file cannot be read, is not a regular file, or has more than ``limit`` bytes.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes")
    return content
