"""Databases of earlier schemas: everything in them gets a stamp, and damage is still found."""

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile

import pytest

from fairwarning.core.changes import PollsRecorded
from fairwarning.core.model import ScopeId
from fairwarning.engine.ports import FleetSnapshot, SetName
from fairwarning.store.checks import WITH_HEADER, WITH_LAST_INCARNATIONS, columns_in
from fairwarning.store.connection import connect
from fairwarning.store.errors import DatabaseDamagedError
from fairwarning.store.examine import examine
from fairwarning.store.migrate import migrate, migrations
from fairwarning.store.sqlite import DATABASE, SqliteStore
from tests.store.stores import Node
from tests.store.test_last_incarnations import LINES

RELEASE = Path(__file__).parent.parent / "fixtures" / "release-0.1.0" / DATABASE

ADD_LINE = "INSERT INTO journal (at, scope, version, kind, body) VALUES ('2026-11-16', ?, 1, ?, ?)"
ADD_SCOPE = """
    INSERT INTO scope (id, set_name, kind, version, incarnation, body) VALUES (?, ?, 'standalone', 1, 1, ?)
"""
ADD_DOCUMENT = "INSERT INTO document (key, body) VALUES ('/subscriptions/s/resourcegroups/app', '{}')"

#: Scopes with their set, their group and the last poll.
SCOPES = (
    ("lab/app.zone1", "app", "lab", "2026-11-16T12:00:00.000250Z"),
    ("lab/app.zone2", "app", "lab", None),
    ("web", "web", "", "2026-11-16T12:00:01Z"),
)


def old_database(path: Path, version: int) -> None:
    """Write a database of an earlier schema."""
    with closing(connect(path, ())) as database:
        migrate(database, migrations()[: WITH_HEADER - 1])
        database.executemany(ADD_LINE, LINES[:-2])
        for scope, name, group, at in SCOPES:
            facts = {"id": scope, "kind": "standalone", "set_name": name, "group": group, "polled_at": at}
            database.execute(ADD_SCOPE, (scope, name, json.dumps(facts)))
        database.execute(ADD_DOCUMENT)
        migrate(database, migrations()[:version])


async def snapshot(directory: Path) -> FleetSnapshot:
    store = await SqliteStore.open(directory)
    try:
        return await store.snapshot()
    finally:
        await store.close()


OLD = pytest.mark.parametrize("version", [WITH_HEADER - 1, WITH_HEADER, WITH_LAST_INCARNATIONS])


@OLD
def test_everything_in_an_old_database_gets_a_stamp(tmp_path: Path, version: int) -> None:
    old_database(tmp_path / DATABASE, version)

    found = asyncio.run(snapshot(tmp_path))

    assert found.scope_stamps == {scope: 1 for scope, *_ in SCOPES}
    assert found.text_stamps == {"/subscriptions/s/resourcegroups/app": 1}
    assert found.sets == {"web": SetName(1, 6), "lab/db": SetName(1, 4), "lab/app": SetName(1, 0)}
    assert found.position == 6


@OLD
def test_the_last_polls_in_an_old_database_are_kept(tmp_path: Path, version: int) -> None:
    old_database(tmp_path / DATABASE, version)
    earlier = PollsRecorded(at=datetime(2026, 11, 16, 12, tzinfo=UTC), scopes=(ScopeId("web"),))

    async def story() -> FleetSnapshot:
        store = await SqliteStore.open(tmp_path)
        try:
            await store.commit(Node().decide((earlier,)))
            return await store.snapshot()
        finally:
            await store.close()

    assert asyncio.run(story()).polled == {
        "lab/app.zone1": datetime(2026, 11, 16, 12, 0, 0, 250, tzinfo=UTC),
        "web": datetime(2026, 11, 16, 12, 0, 1, tzinfo=UTC),
    }


DAMAGED = [
    (version, table)
    for version in (WITH_HEADER, WITH_LAST_INCARNATIONS)
    for table in columns_in(version)
    if table in ("scope", "document", "journal", "last_incarnation")
]


@pytest.mark.parametrize(("version", "table"), DAMAGED)
def test_damage_in_an_old_database_is_found_before_and_after_its_migration(
    tmp_path: Path, version: int, table: str
) -> None:
    old_database(tmp_path / DATABASE, version)
    assert examine(tmp_path).problem is None
    with closing(connect(tmp_path / DATABASE, ())) as database:
        database.execute(f"UPDATE {table} SET {columns_in(version)[table][1]} = 12")

    problem = examine(tmp_path).problem
    with pytest.raises(DatabaseDamagedError, match="does not match its checksum"):
        asyncio.run(snapshot(tmp_path))
    assert isinstance(problem, DatabaseDamagedError)


def test_the_database_of_the_first_release_opens_and_is_whole(tmp_path: Path) -> None:
    copyfile(RELEASE, tmp_path / DATABASE)
    before = examine(tmp_path)

    found = asyncio.run(snapshot(tmp_path))

    assert before.problem is None
    assert examine(tmp_path).problem is None
    assert set(found.scope_stamps.values()) == set(found.text_stamps.values()) == {1}
    assert {scope.facts.set_id for scope in found.scopes.values()} <= set(found.sets)
    assert found.polled == {
        scope.id: scope.facts.polled_at
        for scope in found.scopes.values()
        if scope.facts.polled_at is not None
    }
