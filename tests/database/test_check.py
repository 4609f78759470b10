"""Every kind of damage is found, and is found once."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.changes import (
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeRemoved,
    TextChanged,
)
from fairwarning.core.model import EventStatus, ScopeId, VmName
from fairwarning.database.check import CheckReport
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.errors import NoDatabaseError
from fairwarning.database.findings import MOST_FINDINGS
from fairwarning.database.operations import check_database
from fairwarning.store.errors import OlderDatabaseError
from fairwarning.store.marker import MARKER
from fairwarning.store.migrate import NewerDatabaseError, migrations
from fairwarning.store.sqlite import DATABASE, SqliteStore
from tests.conftest import NOON
from tests.database.editing import add_to, database_of, edit, replace_in_body, run
from tests.store.damage import Sample, closed, fill, flips
from tests.store.stores import Node, event, machine, made
from tests.store.test_old_databases import RELEASE


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return closed(tmp_path_factory.mktemp("sample"))


def check(directory: Path) -> CheckReport:
    return check_database(DataDirectory(directory))


def found(directory: Path) -> list[tuple[str, str]]:
    """Return the kind and the place of every finding."""
    return [(finding.kind.value, finding.where) for finding in check(directory).findings.kept]


def test_a_sound_database_has_no_findings(sample: Sample) -> None:
    report = check(sample.directory)

    assert report.findings.total == 0
    assert report.rows["journal"] == 66
    assert (report.proved, report.partly_proved, report.unproved) == (2, 0, 0)


def skip_versions(directory: Path) -> None:
    add_to(directory, "journal", "seq >= 19 AND scope = 'web'", "version", 5)
    add_to(directory, "scope", "id = 'web'", "version", 5)


def rename_value(directory: Path, before: str, after: str) -> None:
    lines = "kind = 'TextChanged' AND body LIKE '%:0\",%'"
    replace_in_body(directory, "journal", lines, f'"{before}"', f'"{after}"')
    run(directory, "UPDATE document SET key = ? WHERE key = ?", after, before)
    edit(directory, "document", f"key = '{after}'", key=after)


LAST_LINE = 66

#: Line 19 announces event E0, line 20 publishes it and line 21 records polls: one batch.
DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a changed row": (
        lambda at: run(at, "UPDATE machine SET body = body || ' ' WHERE name = 'web_0'"),
        "checksum",
        "machine web/web_0",
    ),
    "a changed line": (
        lambda at: run(at, "UPDATE journal SET body = body || ' ' WHERE seq = 20"),
        "checksum",
        "journal line 20",
    ),
    "a row that cannot be decoded": (
        lambda at: edit(at, "machine", "name = 'web_0'", body="{}"),
        "unreadable",
        "machine web/web_0",
    ),
    "a kind of line that a newer version wrote": (
        lambda at: edit(at, "journal", "seq = 20", kind="Dreamt"),
        "newer",
        "journal line 20",
    ),
    "a member of an enum that a newer version wrote to a row": (
        lambda at: replace_in_body(at, "machine", "name = 'web_0'", '"power":"running"', '"power":"asleep"'),
        "newer",
        "machine web/web_0",
    ),
    "a member of an enum that a newer version wrote to a line": (
        lambda at: replace_in_body(at, "journal", "seq = 19", '"scheduled"', '"foreseen"'),
        "newer",
        "journal line 19",
    ),
    "a value of a kind that a newer version wrote": (
        lambda at: rename_value(at, "operation:0", "plan:0"),
        "newer",
        "document plan:0",
    ),
    "a value of the service that a newer version wrote": (
        lambda at: run(at, "INSERT INTO note VALUES ('calendar', '', row_checksum('calendar', ''))"),
        "newer",
        "note calendar",
    ),
    "a line that cannot be decoded": (
        lambda at: edit(at, "journal", "seq = 20", body="{}"),
        "unreadable",
        "journal line 20",
    ),
    "a column of a scope that contradicts its body": (
        lambda at: edit(at, "scope", "id = 'web'", set_name="app"),
        "column",
        "scope web",
    ),
    "a column of a machine that contradicts its body": (
        lambda at: replace_in_body(at, "machine", "name = 'web_0'", '"name":"web_0"', '"name":"web_9"'),
        "column",
        "machine web/web_0",
    ),
    "a column of an event that contradicts its body": (
        lambda at: edit(at, "event", "id = 'E0'", status="Started"),
        "column",
        "event web/E0",
    ),
    "a column of a line that contradicts its body": (
        lambda at: edit(at, "journal", "seq = 20", scope="db"),
        "column",
        "journal line 20",
    ),
    "a machine without its scope": (
        lambda at: run(
            at,
            "INSERT INTO machine (scope, name, body, checksum) SELECT 'app', name, body,"
            " row_checksum('app', name, body) FROM machine WHERE name = 'web_0'",
        ),
        "orphan",
        "machine app/web_0",
    ),
    "a missing line": (
        lambda at: run(at, "DELETE FROM journal WHERE seq = 20"),
        "gap",
        "journal line 20",
    ),
    "a missing last line": (
        lambda at: run(at, "DELETE FROM journal WHERE seq = ?", LAST_LINE),
        "end",
        "journal",
    ),
    "a line too many": (
        lambda at: run(
            at,
            "INSERT INTO journal SELECT seq + 1, at, scope, version, kind, event, body, row_checksum("
            "seq + 1, at, scope, version, kind, event, body, request, 5, seq + 1), request, 5, seq + 1"
            " FROM journal WHERE seq = ?",
            LAST_LINE,
        ),
        "end",
        "journal",
    ),
    "a batch that ends too late": (
        lambda at: edit(at, "journal", "seq = ?".replace("?", str(LAST_LINE)), ends=LAST_LINE + 1),
        "batch",
        f"journal line {LAST_LINE}",
    ),
    "a batch that is cut": (
        lambda at: edit(at, "journal", "seq = 20", ends=20),
        "batch",
        "journal line 20",
    ),
    "a batch with a foreign line": (
        lambda at: edit(at, "journal", "seq = 21", stamp=5),
        "batch",
        "journal line 21",
    ),
    "a skipped version": (
        skip_versions,
        "version",
        "journal line 20",
    ),
    "an incarnation that goes back": (
        lambda at: replace_in_body(at, "journal", "seq = 20", '"incarnation":8', '"incarnation":3'),
        "incarnation",
        "journal line 20",
    ),
    "a scope with another version": (
        lambda at: edit(at, "scope", "id = 'web'", version=99),
        "scope",
        "scope web",
    ),
    "a scope with another incarnation": (
        lambda at: edit(at, "scope", "id = 'web'", incarnation=99),
        "scope",
        "scope web",
    ),
    "a scope with other properties": (
        lambda at: replace_in_body(at, "scope", "id = 'web'", '"update_domains":1', '"update_domains":2'),
        "scope",
        "scope web",
    ),
    "a machine that differs": (
        lambda at: replace_in_body(at, "machine", "name = 'web_0'", '"host":"h"', '"host":"g"'),
        "machine",
        "machine web/web_0",
    ),
    "a missing machine": (
        lambda at: run(at, "DELETE FROM machine WHERE name = 'web_0'"),
        "machine",
        "machine web/web_0",
    ),
    "an event that differs": (
        lambda at: replace_in_body(at, "event", "id = 'E0'", '"duration":-1', '"duration":9'),
        "event",
        "event web/E0",
    ),
    "a missing event": (
        lambda at: run(at, "DELETE FROM event WHERE id = 'E0'"),
        "event",
        "event web/E0",
    ),
    "machines in another order": (
        lambda at: run(at, "UPDATE machine SET position = position + 100 WHERE name = 'web_3'"),
        "order",
        "machine web/web_3",
    ),
    "events in another order": (
        lambda at: run(at, "UPDATE event SET position = position + 100 WHERE id = 'E3'"),
        "order",
        "event web/E3",
    ),
    "a poll that differs": (
        lambda at: edit(at, "poll", "scope = 'web'", at="2026-11-18T12:00:00.000000+00:00"),
        "poll",
        "poll web",
    ),
    "a missing poll": (lambda at: run(at, "DELETE FROM poll WHERE scope = 'web'"), "poll", "poll web"),
    "a set that differs": (
        lambda at: edit(at, "fleet_set", "set_id = 'web'", incarnation=5),
        "set",
        "fleet_set web",
    ),
    "a missing set": (
        lambda at: run(at, "DELETE FROM fleet_set WHERE set_id = 'web'"),
        "set",
        "fleet_set web",
    ),
    "a text that differs": (
        lambda at: edit(at, "document", "key = 'operation:0'", body="other"),
        "text",
        "document operation:0 (operation)",
    ),
    "a missing text": (
        lambda at: run(at, "DELETE FROM document WHERE key = 'operation:0'"),
        "text",
        "document operation:0 (operation)",
    ),
    "a text that was never written": (
        lambda at: run(
            at,
            "INSERT INTO document (key, body, stamp, checksum) VALUES ('operation:x', '', 9,"
            " row_checksum('operation:x', '', 9))",
        ),
        "text",
        "document operation:x (operation)",
    ),
    "a scope with another stamp": (lambda at: edit(at, "scope", "id = 'web'", stamp=5), "stamp", "scope web"),
    "a set with another stamp": (
        lambda at: edit(at, "fleet_set", "set_id = 'web'", stamp=5),
        "stamp",
        "fleet_set web",
    ),
    "a text with another stamp": (
        lambda at: edit(at, "document", "key = 'operation:0'", stamp=5),
        "stamp",
        "document operation:0 (operation)",
    ),
    "a pruned mark that is no number": (
        lambda at: run(at, "INSERT INTO note VALUES ('pruned', 'much', row_checksum('pruned', 'much'))"),
        "value",
        "note pruned",
    ),
    "restores that are no list": (
        lambda at: run(at, "INSERT INTO note VALUES ('restores', '{}', row_checksum('restores', '{}'))"),
        "value",
        "note restores",
    ),
    "a fence that no lease has": (
        lambda at: edit(at, "claim", "key = 'host 0'", fence=0),
        "lease",
        "claim host 0",
    ),
    "an end of a lease that is no time": (
        lambda at: edit(at, "claim", "key = 'host 0'", until="soon"),
        "unreadable",
        "claim host 0",
    ),
    "a lease without an owner": (
        lambda at: edit(at, "claim", "key = 'host 0'", owner=""),
        "lease",
        "claim host 0",
    ),
    "a database with fewer commits than its marker says": (
        lambda at: edit(at, "header", "true", commits=1),
        "marker",
        MARKER,
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_kind_of_damage_is_one_finding(sample: Sample, tmp_path: Path, damage: str) -> None:
    break_it, kind, where = DAMAGES[damage]
    directory = sample.copy(tmp_path / "copy")
    break_it(directory)

    assert found(directory) == [(kind, where)]


def test_a_removed_scope_whose_rows_are_still_there_is_found(tmp_path: Path) -> None:
    async def story() -> None:
        store, node = await SqliteStore.open(tmp_path), Node()
        await store.commit(node.decide(made("web", "web_0")))
        shutil.copytree(tmp_path, tmp_path / "before")
        await store.commit(node.decide([ScopeRemoved(scope=ScopeId("web"), set_id="web", incarnation=7)]))
        await store.close()

    asyncio.run(story())
    with database_of(tmp_path) as database:
        database.execute("ATTACH ? AS before", (str(tmp_path / "before" / DATABASE),))
        for table in ("scope", "machine"):
            database.execute(f"INSERT INTO {table} SELECT * FROM before.{table}")

    assert found(tmp_path) == [("scope", "scope web")]


def test_a_damaged_file_is_a_finding_and_no_error(sample: Sample, tmp_path: Path) -> None:
    unnoticed = []
    for damage in flips(sample, DATABASE, 40, seed=11):
        directory = sample.copy(tmp_path / "copy")
        damage.do(directory)
        if not check(directory).findings.total and asyncio.run(_differs(directory, sample)):
            unnoticed.append(damage.name)
        shutil.rmtree(directory)

    assert unnoticed == []


async def _differs(directory: Path, sample: Sample) -> bool:
    store = await SqliteStore.open(directory)
    try:
        return await store.snapshot() != sample.state.snapshot
    finally:
        await store.close()


def test_only_the_first_findings_are_kept_and_all_are_counted(sample: Sample, tmp_path: Path) -> None:
    directory = sample.copy(tmp_path / "copy")
    rows = [("web", f"m{number}", "", 1) for number in range(MOST_FINDINGS + 5)]
    with database_of(directory) as database:
        database.executemany("INSERT INTO machine (scope, name, body, checksum) VALUES (?, ?, ?, ?)", rows)

    report = check(directory)

    assert len(report.findings.kept) == MOST_FINDINGS
    assert report.findings.total == MOST_FINDINGS + 5


async def _pruned(directory: Path) -> None:
    """Store a fleet, prune its journal, and change some of it afterwards."""
    store, node, web = await SqliteStore.open(directory), Node(), ScopeId("web")
    await store.commit(node.decide(made("web", "web_0", "web_1", "web_2")))
    await store.commit(node.decide(made("idle", "idle_0")))
    announced = EventChanged(scope=web, event=event("web", 1, "web_0"), what=EventMilestone.SCHEDULED, by="")
    await store.commit(node.decide([announced, Published(scope=web, incarnation=8)]))
    await store.commit(node.decide([TextChanged(key="operation:old", text="old")]))
    await store.commit(node.decide([TextChanged(key="operation:older", text="operation:older")]))
    await store.prune(None, 1000, ())
    await store.commit(node.decide([MachineChanged(scope=web, machine=machine("web", "web_1"))]))
    await store.commit(node.decide([MachineRemoved(scope=web, name=VmName("web_2"))]))
    await store.commit(node.decide([TextChanged(key="operation:new", text="new")]))
    await store.commit(node.decide(made("late", "late_0")))
    await store.close()


def test_a_pruned_journal_proves_what_has_changed_since_and_pending_events(tmp_path: Path) -> None:
    asyncio.run(_pruned(tmp_path))

    report = check(tmp_path)

    assert report.findings.total == 0
    assert report.complete_after > 0
    assert (report.proved, report.partly_proved, report.unproved) == (1, 1, 1)


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (
            lambda at: replace_in_body(at, "machine", "name='web_1'", '"h"', '"g"'),
            [("machine", "machine web/web_1")],
        ),
        (
            lambda at: replace_in_body(at, "event", "id = 'E1'", '"duration":-1', '"duration":9'),
            [("event", "event web/E1")],
        ),
        (lambda at: run(at, "DELETE FROM event"), [("event", "event web/E1")]),
        (
            lambda at: edit(at, "document", "key = 'operation:new'", body="x"),
            [("text", "document operation:new (operation)")],
        ),
        (
            lambda at: run(at, "DELETE FROM machine WHERE name = 'late_0'"),
            [("machine", "machine late/late_0")],
        ),
        # Nothing in the journal says what these were: they are beyond proof, and the report says so.
        (lambda at: replace_in_body(at, "machine", "name='web_0'", '"h"', '"g"'), []),
        (lambda at: edit(at, "document", "key = 'operation:old'", body="x"), []),
    ],
    ids=["machine", "event", "no event", "text", "late machine", "unproved machine", "unproved text"],
)
def test_what_a_pruned_journal_proves_is_checked(
    tmp_path: Path, break_it: Callable[[Path], None], expected: list[tuple[str, str]]
) -> None:
    asyncio.run(_pruned(tmp_path))
    break_it(tmp_path)

    assert found(tmp_path) == expected


def test_an_event_that_is_over_may_not_have_a_row(tmp_path: Path) -> None:
    async def story() -> None:
        store, node, web = await SqliteStore.open(tmp_path), Node(), ScopeId("web")
        await store.commit(node.decide(made("web", "web_0")))
        one = event("web", 1, "web_0")
        await store.commit(
            node.decide([EventChanged(scope=web, event=one, what=EventMilestone.SCHEDULED, by="")])
        )
        shutil.copytree(tmp_path, tmp_path / "before")
        over = replace(one, status=EventStatus.GONE)
        gone = EventChanged(scope=web, event=over, what=EventMilestone.FINISHED, by="")
        await store.commit(node.decide([gone]))
        await store.close()

    asyncio.run(story())
    with database_of(tmp_path) as database:
        database.execute("ATTACH ? AS before", (str(tmp_path / "before" / DATABASE),))
        database.execute("INSERT INTO event SELECT * FROM before.event")

    assert found(tmp_path) == [("event", "event web/E1")]


def test_a_database_is_checked_while_a_server_writes(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path)
        await fill(store, 3)
        with DataDirectory(tmp_path).read() as tables:
            await store.put_value("numbers/9", "than the reader")

            assert b"later" not in [row[0] for row in tables.rows("note")]
            assert tables.last_line == await store.last()
        assert check(tmp_path).findings.total == 0
        await store.claim("host", "a node", NOON, timedelta(minutes=1))
        await store.close()

    asyncio.run(story())


def test_a_directory_of_the_first_release_is_sound_after_its_migration(tmp_path: Path) -> None:
    shutil.copytree(RELEASE.parent, tmp_path / "old")
    database = DataDirectory(tmp_path / "old")

    with pytest.raises(OlderDatabaseError):
        check_database(database)

    assert database.migrate() == (3, len(migrations()))
    assert database.migrate() == (len(migrations()), len(migrations()))
    assert check_database(database).findings.kept == []


def test_what_is_no_database_of_this_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoDatabaseError):
        check(tmp_path)
    with pytest.raises(NoDatabaseError):
        DataDirectory(tmp_path).migrate()

    closed(tmp_path / "newer")
    with database_of(tmp_path / "newer") as database:
        database.execute("INSERT INTO migration (number) VALUES (99)")
        database.execute("PRAGMA user_version = 99")
        database.commit()

    with pytest.raises(NewerDatabaseError):
        check(tmp_path / "newer")
    with pytest.raises(NewerDatabaseError):
        DataDirectory(tmp_path / "newer").migrate()
