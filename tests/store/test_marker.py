"""The marker: the file that says which database belongs to a data directory."""

import asyncio
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from fairwarning.store.checks import WITH_HEADER, columns_in
from fairwarning.store.errors import DatabaseDamagedError, WrongDatabaseError
from fairwarning.store.marker import MARKER, Marker, MarkerFile, read_marker
from fairwarning.store.migrate import migrate, migrations
from fairwarning.store.rows import COLUMNS
from fairwarning.store.sqlite import DATABASE
from tests.store.damage import Sample, closed, killed, read


@pytest.fixture
def whole(tmp_path: Path) -> Sample:
    return closed(tmp_path / "state")


def test_it_says_how_often_the_database_was_written(whole: Sample) -> None:
    with closing(sqlite3.connect(whole.directory / DATABASE)) as database:
        ((name, commits),) = database.execute("SELECT database, commits FROM header")

    assert read_marker(whole.directory) == Marker(name, commits)


def test_a_killed_server_leaves_the_exact_number(tmp_path: Path) -> None:
    left = killed(tmp_path)
    marker = read_marker(left.directory)

    assert asyncio.run(read(left.directory)) == left.state
    assert marker == read_marker(left.directory)


def test_a_directory_without_one_is_given_one(whole: Sample) -> None:
    before = read_marker(whole.directory)
    (whole.directory / MARKER).unlink()

    assert asyncio.run(read(whole.directory)) == whole.state
    assert read_marker(whole.directory) == before


def test_a_server_killed_while_it_made_the_file_leaves_a_directory_that_opens(whole: Sample) -> None:
    path = whole.directory / MARKER
    path.rename(path.with_suffix(".new"))
    os.truncate(path.with_suffix(".new"), 10)

    assert asyncio.run(read(whole.directory)) == whole.state
    assert read_marker(whole.directory) is not None


def test_a_server_killed_before_its_first_table_leaves_a_directory_that_opens(tmp_path: Path) -> None:
    (tmp_path / DATABASE).touch()

    assert asyncio.run(read(tmp_path))[:-1] == ([], [], [], None, {})


def test_every_flipped_bit_of_it_is_noticed(whole: Sample) -> None:
    path = whole.directory / MARKER
    content = path.read_bytes()

    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(DatabaseDamagedError, match=f"{MARKER} beside it"):
            asyncio.run(read(whole.directory))


def test_a_copy_of_the_database_alone_is_noticed_and_taken_once_the_file_is_gone(tmp_path: Path) -> None:
    earlier = closed(tmp_path / "earlier", rounds=2)
    marker = read_marker(earlier.directory)
    assert marker is not None
    (earlier.directory / MARKER).write_bytes(Marker(marker.database, marker.commits + 3).encode())

    with pytest.raises(WrongDatabaseError, match="it is an older copy: the last 3 changes are missing"):
        asyncio.run(read(earlier.directory))
    (earlier.directory / MARKER).unlink()

    assert asyncio.run(read(earlier.directory)) == earlier.state


def test_a_number_that_only_grows_keeps_the_file_as_long_as_it_was(whole: Sample) -> None:
    size = (whole.directory / MARKER).stat().st_size
    marker = read_marker(whole.directory)
    assert marker is not None

    file = MarkerFile(whole.directory, marker)
    file.put(10**15)
    file.close()

    assert (whole.directory / MARKER).stat().st_size == size
    assert read_marker(whole.directory) == Marker(marker.database, 10**15)


def as_it_was_before_checksums(directory: Path) -> None:
    """Turn a directory into what an earlier version wrote."""
    (directory / MARKER).unlink()
    with closing(sqlite3.connect(directory / DATABASE, isolation_level=None)) as database:
        database.execute("ATTACH ':memory:' AS old")
        tables = {table: columns for table, columns in columns_in(WITH_HEADER).items() if table != "header"}
        for table, columns in tables.items():
            database.execute(f"CREATE TABLE old.{table} AS SELECT {', '.join(columns)} FROM main.{table}")
        for table in COLUMNS:
            database.execute(f"DROP TABLE main.{table}")
        database.execute("DROP TABLE migration")
        database.execute("PRAGMA user_version = 0")
        migrate(database, migrations()[:3])
        for table, columns in tables.items():
            names = ", ".join(columns)
            database.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM old.{table}")


def test_a_directory_from_before_there_were_checksums_opens_and_gets_them(whole: Sample) -> None:
    as_it_was_before_checksums(whole.directory)

    found = asyncio.run(read(whole.directory))

    assert found[0] == whole.state.scopes
    assert found[2:4] == whole.state[2:4]
    assert found.lines == [line._replace(request="", stamp=0, ends=line.seq) for line in whole.state.lines]
    assert read_marker(whole.directory) is not None
    with closing(sqlite3.connect(whole.directory / DATABASE)) as database:
        missing = [
            database.execute(f"SELECT count(*) FROM {table} WHERE checksum < 0").fetchone()[0]
            for table in COLUMNS
        ]
    assert missing == [0] * len(COLUMNS)


def test_text_that_was_damaged_before_there_were_checksums_is_named(whole: Sample) -> None:
    as_it_was_before_checksums(whole.directory)
    path = whole.directory / DATABASE
    path.write_bytes(path.read_bytes().replace(b"id of web_1", b"id of we\xff\xff1"))

    with pytest.raises(DatabaseDamagedError, match="contains text that is not UTF-8"):
        asyncio.run(read(whole.directory))


def test_its_form_never_changes_because_earlier_releases_read_it_before_they_look_at_the_schema() -> None:
    text = Marker("3f2a", 12).encode()

    assert text == b'{"database": "3f2a", "commits":               12, "checksum": %10d}\n' % zlib.crc32(
        b"3f2a\x0012"
    )
