"""Changes rows of a data directory as no server would; the checksums are right again afterwards."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection

from fairwarning.store.connection import connect
from fairwarning.store.rows import COLUMNS
from fairwarning.store.sqlite import DATABASE


@contextmanager
def database_of(directory: Path) -> Iterator[Connection]:
    with closing(connect(directory / DATABASE, ())) as database:
        yield database


def run(directory: Path, statement: str, *values: str | int) -> None:
    """Run a statement that must change at least one row."""
    with database_of(directory) as database:
        assert database.execute(statement, values).rowcount > 0


def edit(directory: Path, table: str, where: str, **columns: str | int) -> None:
    """Change columns of rows, with the right checksum."""
    changes = ", ".join(f"{column} = ?" for column in columns)
    run(directory, f"UPDATE {table} SET {changes} WHERE {where}", *columns.values())
    _sign(directory, table, where)


def add_to(directory: Path, table: str, where: str, column: str, number: int) -> None:
    """Add a number to a column of rows, with the right checksum."""
    run(directory, f"UPDATE {table} SET {column} = {column} + ? WHERE {where}", number)
    _sign(directory, table, where)


def replace_in_body(directory: Path, table: str, where: str, before: str, after: str) -> None:
    """Change the body of rows, with the right checksum."""
    run(directory, f"UPDATE {table} SET body = replace(body, ?, ?) WHERE {where}", before, after)
    _sign(directory, table, where)


def _sign(directory: Path, table: str, where: str) -> None:
    run(directory, f"UPDATE {table} SET checksum = row_checksum({', '.join(COLUMNS[table])}) WHERE {where}")
