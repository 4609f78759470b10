"""A backup is one complete file, or no file."""

import asyncio
import gzip
import json
import os
import stat
import tracemalloc
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.core.stored.releases import NEWEST
from fairwarning.database.backup import BackupTrailer, open_backup, verify_backup, write_backup
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.errors import BackupExistsError, DatabaseNotSoundError, UnusableBackupError
from fairwarning.database.findings import DatabaseFinding
from fairwarning.database.operations import back_up, check_backup, restore
from fairwarning.database.tables import ORDER, StoredRow, quiet
from fairwarning.engine.clock import ManualClock
from fairwarning.store.marker import MARKER
from fairwarning.store.rows import row_checksum
from fairwarning.store.sqlite import DATABASE, SqliteStore
from tests.conftest import NOON
from tests.database.editing import run
from tests.store.damage import WAL, Sample, closed, fill, killed, read


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return closed(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def backup(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("backup") / "fleet.backup"
    back_up(DataDirectory(sample.directory), file, clock=ManualClock(NOON))
    return file


def verify(file: Path) -> BackupTrailer:
    with open_backup(file) as stream:
        return verify_backup(file, stream, quiet)[1]


def test_a_backup_has_a_header_every_row_and_a_trailer(backup: Path) -> None:
    lines = [json.loads(line) for line in gzip.decompress(backup.read_bytes()).splitlines()]

    header, *rows, trailer = lines
    assert header["format"] == "fairwarning-backup"
    assert (header["version"], header["last_line"]) == (2, 66)
    assert datetime.fromisoformat(header["taken_at"]) == NOON
    assert [table for table in ORDER if any(row[0] == table for row in rows)] == list(ORDER)
    assert trailer["rows"] == {table: sum(row[0] == table for row in rows) for table in ORDER}
    assert all(row_checksum(*row[1:-1]) == row[-1] for row in rows)


def test_only_the_owner_can_read_a_backup(backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert os.listdir(backup.parent) == [backup.name]


def test_a_backup_is_checked_like_a_database(backup: Path) -> None:
    report = check_backup(backup)

    assert report.findings.kept == []
    assert report.proved == 2


def test_a_backup_replaces_a_file_only_if_told(sample: Sample, tmp_path: Path) -> None:
    file = tmp_path / "fleet.backup"
    file.write_text("precious")

    with pytest.raises(BackupExistsError):
        back_up(DataDirectory(sample.directory), file)
    assert file.read_text() == "precious"

    back_up(DataDirectory(sample.directory), file, overwrite=True)
    assert verify(file).rows["machine"] == 16


def test_a_damaged_database_is_not_backed_up_and_leaves_no_file(sample: Sample, tmp_path: Path) -> None:
    directory = sample.copy(tmp_path / "copy")
    run(directory, "UPDATE document SET body = 'x' WHERE key = 'operation:0'")
    (tmp_path / "backups").mkdir()

    with pytest.raises(DatabaseNotSoundError, match="document operation:0 does not match its checksum"):
        back_up(DataDirectory(directory), tmp_path / "backups" / "fleet.backup")

    assert list((tmp_path / "backups").iterdir()) == []


def test_a_backup_has_the_state_of_one_moment_while_a_server_writes(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "data")
        await fill(store, 2)
        with DataDirectory(tmp_path / "data").read() as tables:
            await fill_more(store)
            write_backup(tmp_path / "early", tables, NOON, "test", overwrite=False, progress=quiet)
        await store.close()

    async def fill_more(store: SqliteStore) -> None:
        for number in range(20):
            await store.put_value(f"numbers/{number}", "later")

    asyncio.run(story())

    assert verify(tmp_path / "early").rows["note"] == 1


def refused(file: Path, tmp_path: Path) -> bool:
    """Whether a file is refused, and nothing is left of the try to restore it."""
    target = tmp_path / "target"
    with pytest.raises(UnusableBackupError):
        restore(DataDirectory(target), file)
    return not target.exists()


def test_a_truncated_backup_is_refused_before_anything_is_written(backup: Path, tmp_path: Path) -> None:
    content, cut = backup.read_bytes(), tmp_path / "cut"
    for length in (*range(0, len(content), 97), len(content) - 1):
        cut.write_bytes(content[:length])

        assert refused(cut, tmp_path), length


def test_a_backup_with_a_flipped_bit_is_refused(backup: Path, tmp_path: Path) -> None:
    content, changed = backup.read_bytes(), tmp_path / "changed"
    for place in range(0, len(content), 41):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        changed.write_bytes(flipped)

        assert means_the_same(bytes(flipped), content) or refused(changed, tmp_path), place


def means_the_same(one: bytes, other: bytes) -> bool:
    """Whether two gzip files have the same content; a few of their bits have no meaning."""
    try:
        return gzip.decompress(one) == gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return False


def rewritten(backup: Path, change: dict[str, str]) -> bytes:
    text = gzip.decompress(backup.read_bytes()).decode()
    for before, after in change.items():
        assert before in text
        text = text.replace(before, after, 1)
    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({'"format":"fairwarning-backup"': '"format":"other"'}, "it is not a backup of fairwarning"),
        (
            {'"version":2': '"version":3'},
            r"it has format 3, this version \(.*\) reads formats up to 2; install version .* or newer",
        ),
        ({'"sha256":"': '"sha256":"0'}, "its content does not match its trailer"),
        ({'"machine":16': '"machine":17'}, "its content does not match its trailer"),
        ({'["machine","web"': '["machine","wep"'}, "does not match its checksum"),
        ({'["poll"': '["pool"'}, "a row of table pool is out of place"),
        ({'["note"': '["note",1'}, "does not match its checksum"),
        ({'{"format"': '[{"format"'}, "Expected `object`"),
    ],
)
def test_a_backup_that_contradicts_itself_is_refused(
    backup: Path, tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    file = tmp_path / "changed"
    file.write_bytes(rewritten(backup, change))

    with pytest.raises(UnusableBackupError, match=problem):
        restore(DataDirectory(tmp_path / "target"), file)
    assert not (tmp_path / "target").exists()


def test_nothing_may_follow_the_trailer(backup: Path, tmp_path: Path) -> None:
    file = tmp_path / "longer"
    file.write_bytes(backup.read_bytes() + gzip.compress(b"more"))

    assert refused(file, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b"no gzip", id="a text"),
        pytest.param(gzip.compress(b"no JSON\n"), id="a compressed text"),
        pytest.param(gzip.compress(b"{}\n"), id="an empty object"),
    ],
)
def test_what_is_no_backup_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)

    assert refused(file, tmp_path)
    assert refused(tmp_path / "missing", tmp_path)


class ManyRows:
    """Tables with many machines that are made while they are read."""

    last_line = 0
    behind = timedelta(0)
    oldest_reader = NEWEST
    machines = 3_000

    def rows(self, table: str) -> Iterator[StoredRow]:
        if table == "machine":
            for number in range(self.machines):
                columns = "web", f"web_{number}", f"<{number:02000}>"
                yield (*(text.encode() for text in columns), row_checksum(*columns))

    def problems(self) -> Iterator[DatabaseFinding]:
        return iter(())


def test_rows_stream_through_little_memory_into_a_file_and_out_of_it(tmp_path: Path) -> None:
    file = tmp_path / "many"
    tracemalloc.start()
    try:
        write_backup(file, ManyRows(), NOON + timedelta(1), "test", overwrite=False, progress=quiet)
        rows = verify(file).rows
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert rows["machine"] == ManyRows.machines
    assert peak < 2_000_000


def test_a_backup_of_a_killed_server_has_its_last_commits_and_changes_nothing(tmp_path: Path) -> None:
    left = killed(tmp_path / "state")
    before = {name: (left.directory / name).read_bytes() for name in (DATABASE, WAL, MARKER)}

    back_up(DataDirectory(left.directory), tmp_path / "backup")
    restore(DataDirectory(tmp_path / "new"), tmp_path / "backup", hold=False)

    assert {name: (left.directory / name).read_bytes() for name in before} == before
    assert asyncio.run(read(tmp_path / "new")).lines[:-2] == left.state.lines
