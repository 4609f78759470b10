"""The store of a fleet that several nodes share: PostgreSQL 15 or newer, through psycopg.

The package may import ``core``, ``engine.ports``, its neighbours in ``store`` and psycopg, which comes with
the extra ``fairwarning[postgres]`` and is loaded only if a fleet is stored in PostgreSQL. Start with
``store``, then read ``commit_batch`` in ``migrations/postgres``.
"""

from fairwarning.engine.ports import SharedStore
from fairwarning.store.errors import DatabaseUnsuitableError


async def open_postgres(dsn: str, *, migrate: bool = False) -> SharedStore:
    """Return the store in a PostgreSQL database, as ``PostgresStore.open`` does.

    Raises:
        DatabaseUnsuitableError: psycopg is not installed, or the database cannot be used.
    """
    try:
        from fairwarning.store.postgres.store import PostgresStore
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "psycopg":
            raise
        raise DatabaseUnsuitableError("PostgreSQL needs psycopg: install fairwarning[postgres]") from problem
    return await PostgresStore.open(dsn, migrate=migrate)
