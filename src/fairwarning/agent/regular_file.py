"""Reads files that an operator names: a pipe or a device must not block the agent."""

import errno
import os
import stat
from pathlib import Path


def read_regular_file(path: Path, limit: int) -> bytes:
    """Return the content of a file.

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
