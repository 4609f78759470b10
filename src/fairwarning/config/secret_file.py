"""Files with a token, a key or a password, which only their owner may read."""

import stat
from pathlib import Path

from fairwarning.config.operator_file import FileKind, UnusableFileError, read_operator_file

#: The modes that give a file to other users.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_readable(path: Path, *, secret: bool) -> None:
    """Check that a file with a certificate or a key can be read; a secret only by its owner.

    Raises:
        UnusableFileError: the file cannot be used.
    """
    _read(path, FileKind.CERTIFICATE, secret=secret)


def read_secret(path: Path) -> str:
    """Return the text of a file that only its owner may read.

    Raises:
        UnusableFileError: the file cannot be used.
    """
    try:
        text = _read(path, FileKind.SECRET, secret=True).decode().strip()
    except UnicodeDecodeError:
        raise UnusableFileError(f"{path} is not text in UTF-8") from None
    if not text:
        raise UnusableFileError(f"{path} is empty")
    return text


def _read(path: Path, kind: FileKind, *, secret: bool) -> bytes:
    content, mode = read_operator_file(path, kind)
    if secret and mode & _OTHERS:
        raise UnusableFileError(f"other users can read {path} (mode {mode:04o}): chmod 600 {path}")
    return content
