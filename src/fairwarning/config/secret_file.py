"""Files with a token, a key or a password, which only their owner may read.

FairWarningError
└── UnusableFileError   a file cannot be read, is empty, or can be read by other users
"""

import os
import stat
from pathlib import Path

from fairwarning.core.errors import FairWarningError

#: The modes that give a file to other users.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class UnusableFileError(FairWarningError):
    """A file that the settings name cannot be used; never quotes its content."""


def check_readable(path: Path, *, secret: bool) -> None:
    """Check that a file can be read; a secret only by its owner.

    Raises:
        UnusableFileError: the file cannot be used.
    """
    _read(path, 0, secret=secret)


def read_secret(path: Path) -> str:
    """Return the text of a file that only its owner may read.

    Raises:
        UnusableFileError: the file cannot be used.
    """
    try:
        text = _read(path, -1, secret=True).decode().strip()
    except UnicodeDecodeError:
        raise UnusableFileError(f"{path} is not text in UTF-8") from None
    if not text:
        raise UnusableFileError(f"{path} is empty")
    return text


def _read(path: Path, size: int, *, secret: bool) -> bytes:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(size)
    except OSError as problem:
        raise UnusableFileError(f"{path} cannot be read: {problem.strerror}") from problem
    if secret and mode & _OTHERS:
        raise UnusableFileError(f"other users can read {path} (mode {mode:04o}): chmod 600 {path}")
    return content
