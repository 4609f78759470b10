"""Files that operators name: read as a whole, if they are regular files of a limited size.

A path may lead to a pipe that nobody writes to, or to a device without an end. Neither is ever waited for.

FairWarningError
└── UnusableFileError   a file cannot be read, is too large or empty, or can be read by other users
"""

import errno
import os
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from fairwarning.core.errors import FairWarningError


class UnusableFileError(FairWarningError):
    """A file that the settings name cannot be used; never quotes its content."""


class FileKind(StrEnum):
    """What a file is for; this decides how large it may be."""

    SETTINGS = "a file of settings"
    SECRET = "a secret"
    CERTIFICATE = "a certificate or key"
    INVENTORY = "an inventory"

    @property
    def most(self) -> int:
        """The most bytes that such a file may have."""
        return _MOST[self]

    @property
    def largest(self) -> str:
        """The most bytes that such a file may have, for people."""
        return f"{self.most // 10**6} MB" if self.most >= 10**6 else f"{self.most // 1000} KB"


_MOST: Mapping[FileKind, int] = {
    FileKind.SETTINGS: 10**6,
    FileKind.SECRET: 4000,
    FileKind.CERTIFICATE: 10**6,
    FileKind.INVENTORY: 64 * 10**6,
}


class OperatorFile(NamedTuple):
    """What a file contains, and what its owner and other users may do with it."""

    content: bytes
    mode: int


def read_operator_file(path: Path, kind: FileKind) -> OperatorFile:
    """Return a regular file that is not too large.

    Raises:
        UnusableFileError: the file cannot be read, or should not be.
    """
    try:
        # Opening a pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            _check_regular(mode)
            content = file.read(kind.most + 1)
    except OSError as problem:
        raise UnusableFileError(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:  # each Python says it differently
        raise UnusableFileError(f"{path} cannot be read: no file can have this name") from problem
    if len(content) > kind.most:
        raise UnusableFileError(f"{path} is too large: {kind} may have at most {kind.largest}")
    return OperatorFile(content, stat.S_IMODE(mode))


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
