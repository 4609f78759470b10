"""Checks whether a data directory contains what was written to it, without changing anything."""

import fcntl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fairwarning.core.errors import FairWarningError
from fairwarning.formats.counts import format_count
from fairwarning.store.checks import WITH_HEADER, check_all, check_structure
from fairwarning.store.connection import connect, transaction, translate_errors
from fairwarning.store.marker import read_marker
from fairwarning.store.migrate import check_not_newer, migrations
from fairwarning.store.sqlite import DATABASE, LOCK, READING, check_identity, check_presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of an examination: a summary, or the first problem."""

    #: Whether a server uses the directory.
    in_use: bool
    summary: str = ""
    problem: FairWarningError | None = None


def examine(directory: Path) -> Examination:
    """Check every row, every journal line and the structure of the database in a directory."""
    with _shared_lock(directory) as in_use:
        try:
            return Examination(in_use=in_use, summary=_check_database(directory / DATABASE))
        except FairWarningError as problem:
            return Examination(in_use=in_use, problem=problem)


def _check_database(path: Path) -> str:
    with translate_errors(path):
        marker = read_marker(path.parent)
        check_presence(path, marker)
        if not path.exists() or not path.stat().st_size:
            return "there is no database yet"
        with closing(connect(f"file:{quote(str(path.absolute()))}?mode=ro", READING, uri=True)) as database:
            version = check_not_newer(database, len(migrations()))
            check_identity(path, database, marker)
            if version < WITH_HEADER:
                check_structure(database)
                return f"schema {version} has no checksums; the next start of the server adds them"
            with transaction(database, "BEGIN"):
                counts = check_all(database)
    rows = sum(counts.values()) - counts["journal"]
    lines = format_count(counts["journal"], "journal line")
    return f"{format_count(rows, 'row')} and {lines} are as they were written"


@contextmanager
def _shared_lock(directory: Path) -> Iterator[bool]:
    """Keep servers from starting on a directory during the block; True if a server uses it already."""
    try:
        lock = (directory / LOCK).open("rb")
    except FileNotFoundError:
        yield False
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield True
        else:
            yield False
