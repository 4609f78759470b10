"""Brings a PostgreSQL database to the schema of this version, and checks whether this version can use it.

``meta`` says which migrations the database has run (``schema``) and the oldest schema that a node has to know
to use it (``readable_from``). A new release migrates first: a migration never disturbs the nodes of the
release before. Once no such node is left, ``db migrate --finish`` raises ``readable_from``, and what is new
is used from then on (U-01). A database in which nothing is stored has nothing to wait for: the migration
finishes it. ``commit_batch`` refuses the batches of nodes that do not know the schema (U-02), also of a node
that stood still while the migration was finished.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import psycopg

from fairwarning import __version__
from fairwarning.core.stored.releases import DataRelease
from fairwarning.engine.ports import GONE_AFTER
from fairwarning.store.errors import OlderDatabaseError
from fairwarning.store.migrate import ChangedMigrationError, Migration, NewerDatabaseError, migrations
from fairwarning.store.postgres.connection import Session

#: The key of the advisory lock that a migration holds: "fairwarn" in ASCII.
LOCK = 0x666169727761726E

TABLES = """
    CREATE TABLE IF NOT EXISTS meta (
        one boolean PRIMARY KEY DEFAULT true CHECK (one), schema int NOT NULL, readable_from int NOT NULL
    );
    INSERT INTO meta (schema, readable_from) VALUES (0, 1) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL);
"""
ADD_RELEASE = "ALTER TABLE migration ADD COLUMN IF NOT EXISTS release text"
#: The release that ran a migration; null if that is not recorded, or if the table has no such column yet.
RELEASE_OF = "SELECT to_jsonb(migration)->>'release' FROM migration WHERE number = %s"
META = """
    SELECT schema, readable_from, (SELECT json_object_agg(number, checksum)::text FROM migration) FROM meta
"""
#: Whether anything was ever stored.
STORED = """
    SELECT last > 0 OR EXISTS (SELECT FROM scope) OR EXISTS (SELECT FROM fleet_set)
        OR EXISTS (SELECT FROM document) OR EXISTS (SELECT FROM note) OR EXISTS (SELECT FROM claim)
    FROM ledger
"""
LIVE_NODES = "SELECT name, release FROM node WHERE beat >= clock_timestamp() - %s ORDER BY name"
FINISH = "UPDATE meta SET readable_from = greatest(readable_from, %s) RETURNING readable_from"

#: The release whose data a node can read, by the first schema that belongs to it.
READS: Mapping[int, DataRelease] = {1: DataRelease.V0_2, 4: DataRelease.V0_3}


def data_release(schema: int) -> DataRelease:
    """Return the release whose data a node can read that knows a schema."""
    return max(release for first, release in READS.items() if first <= max(schema, 1))


def steps() -> tuple[Migration, ...]:
    """Return the migrations of this version, in order."""
    return migrations("postgres")


async def check_schema(session: Session, known: Sequence[Migration]) -> DataRelease:
    """Check that a version that knows some migrations can use a database; return its oldest reader.

    Raises:
        NewerDatabaseError: only a newer version can use the database.
        OlderDatabaseError: the database lacks migrations.
        ChangedMigrationError: the database ran another text of a migration.
    """
    found, readable_from, ran = await _read_meta(session)
    if readable_from > len(known):
        raise newer_database(readable_from, len(known), await session.query(RELEASE_OF, readable_from))
    if found < len(known):
        raise OlderDatabaseError(found, len(known))
    _check_texts(known, ran)
    return data_release(readable_from)


def newer_database(
    readable_from: int, known: int, release: Iterable[Sequence[bytes | None]]
) -> NewerDatabaseError:
    """Return the error that names the release to install: the answer to ``RELEASE_OF``."""
    return NewerDatabaseError(readable_from, known, b"".join(name or b"" for (name,) in release).decode())


async def migrate(session: Session, known: Sequence[Migration]) -> None:
    """Run the migrations that a database lacks, one process at a time."""
    await session.query(f"SELECT pg_advisory_lock({LOCK})", within=600)
    try:
        await session.query(TABLES)
        found, _, ran = await _read_meta(session)
        _check_texts(known[:found], ran)
        if known[found:]:
            await session.query(ADD_RELEASE)
        for step in known[found:]:
            await _run(session, step)
        if known[found:] and not await _is_used(session):
            await session.query(FINISH, len(known))
    finally:
        await session.query(f"SELECT pg_advisory_unlock({LOCK})")


async def _is_used(session: Session) -> bool:
    """Whether anything is stored in a database, or a node runs on it."""
    ((stored,),) = await session.query(STORED)
    return bool(stored or await session.query(LIVE_NODES, GONE_AFTER))


async def _read_meta(session: Session) -> tuple[int, int, Mapping[str, str]]:
    """Return the schema, the oldest schema to know, and the checksums of migrations by number."""
    try:
        ((found, readable_from, ran),) = await session.query(META)
    except psycopg.errors.UndefinedTable:
        return 0, 0, {}
    return found, readable_from, msgspec.json.decode(ran or b"{}", type=dict[str, str])


def _check_texts(known: Sequence[Migration], ran: Mapping[str, str]) -> None:
    for step in known:
        if ran.get(str(step.number)) != step.checksum:
            raise ChangedMigrationError(step.name)


async def _run(session: Session, step: Migration) -> None:
    record = (
        f"INSERT INTO migration VALUES ({step.number}, '{step.name}', '{step.checksum}', '{__version__}');"
        f"UPDATE meta SET schema = {step.number}"
    )
    # A script without BEGIN is one transaction.
    await session.query(f"{step.sql};\n{record}", within=600)
