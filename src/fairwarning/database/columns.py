"""The columns of each table by name, in the order of ``store.rows.COLUMNS``."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from fairwarning.database.tables import StoredRow

Columns = TypeVar("Columns", bound=tuple[object, ...])


class ValueColumns(NamedTuple):
    """A value of the service."""

    key: str
    value: str


class SetColumns(NamedTuple):
    """The name of a set."""

    set_id: str
    stamp: int
    incarnation: int


class ScopeColumns(NamedTuple):
    """A scope."""

    id: str
    set_name: str
    kind: str
    version: int
    incarnation: int
    body: str
    stamp: int


class MachineColumns(NamedTuple):
    """A machine."""

    scope: str
    name: str
    body: str


class EventColumns(NamedTuple):
    """A pending event."""

    scope: str
    id: str
    status: str
    not_before: str
    barrier: str
    body: str


class PollColumns(NamedTuple):
    """The last poll of a scope."""

    scope: str
    at: str


class TextColumns(NamedTuple):
    """A text that another package stores."""

    key: str
    body: str
    stamp: int


class LineColumns(NamedTuple):
    """A line of the journal."""

    seq: int
    at: str
    scope: str
    version: int
    kind: str
    event: str | None
    body: str
    request: str
    stamp: int
    ends: int


class LeaseColumns(NamedTuple):
    """A lease."""

    key: str
    owner: str
    fence: int
    until: str


#: The columns of every table.
TABLES: Mapping[str, type[tuple[object, ...]]] = {
    "note": ValueColumns,
    "journal": LineColumns,
    "fleet_set": SetColumns,
    "scope": ScopeColumns,
    "machine": MachineColumns,
    "event": EventColumns,
    "poll": PollColumns,
    "document": TextColumns,
    "claim": LeaseColumns,
}


def read_columns(row: StoredRow, columns: type[Columns]) -> Columns:
    """Return the columns of a row by name, without the checksum.

    Raises:
        ValueError: a text is not UTF-8, or a column has the wrong type.
    """
    values = [value.decode() if isinstance(value, bytes) else value for value in row[:-1]]
    return msgspec.convert(values, columns)
