"""Directories for keys: no other user can write to them, and no link leads to them.

A link that somebody put into a data directory would take the keys to where it points. Whoever can write to
the directory could replace a key by another one.

FairWarningError
└── UnsafeDirectoryError   keys would not be safe in a directory
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairwarning.core.errors import FairWarningError

_ROOT = 0


class UnsafeDirectoryError(FairWarningError):
    """Keys would not be safe in a directory."""

    status_hint = 500

    def __init__(self, directory: Path, problem: str) -> None:
        super().__init__(f"{directory} cannot hold keys: {problem}")
        self.directory = directory
        self.problem = problem


@contextmanager
def open_private_directory(directory: Path) -> Iterator[int]:
    """Yield a descriptor of a directory to which only its owner can write.

    Raises:
        UnsafeDirectoryError: a link leads to the directory, or other users can write to it.
    """
    if directory.is_symlink():
        raise UnsafeDirectoryError(directory, "it is a symbolic link")
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        raise UnsafeDirectoryError(directory, problem.strerror or str(problem)) from problem
    try:
        _check_owner(directory, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _check_owner(directory: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), _ROOT):
        raise UnsafeDirectoryError(directory, "it belongs to another user")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"other users can write to it (mode {mode:04o}): chmod go-w {directory}"
        raise UnsafeDirectoryError(directory, problem)
