"""What may be written while nodes of an earlier release use the same database.

An earlier release stops at a kind of journal line, a kind of stored value or a member of an enum that it does
not know, and drops a field that it does not know with its next write. So everything that a release adds to
the stored data is listed, in ``SINCE`` or in ``KINDS``, and nothing of it is written before
``Store.oldest_reader`` knows it: the request that needs it is refused (U-01). A data directory has one
reader, the newest; a database that nodes share has an older one until ``db migrate --finish``.

A field counts as written if its value is not its default.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum

from fairwarning.core.changes import EventMilestone, MachineChanged, TextChanged
from fairwarning.core.errors import UnfinishedMigrationError
from fairwarning.core.history import OperatorAction
from fairwarning.core.model import Event, Machine, MachineModel
from fairwarning.core.stored.kinds import kind_of
from fairwarning.core.stored.releases import NEWEST, DataRelease

#: A class whose values are stored, or a class and its field, or an enum and the name of its member.
StoredPart = type | tuple[type, str]

#: The release that brought a part of the stored data; everything else is as old as the first.
SINCE: Mapping[StoredPart, DataRelease] = {
    (Machine, "allocated"): DataRelease.V0_3,
    (Machine, "listed_host"): DataRelease.V0_3,
    (MachineChanged, "moved_from"): DataRelease.V0_3,
    (MachineModel, "tags"): DataRelease.V0_3,
    (Event, "opens"): DataRelease.V0_3,
    (Event, "consent"): DataRelease.V0_3,
    (Event, "blocked"): DataRelease.V0_3,
    (EventMilestone, "OPENED"): DataRelease.V0_3,
    (EventMilestone, "BLOCKED"): DataRelease.V0_3,
    (EventMilestone, "POSTPONED"): DataRelease.V0_3,
    (OperatorAction, "HELD"): DataRelease.V0_3,
    (OperatorAction, "UNHELD"): DataRelease.V0_3,
}


def check_readable(
    lines: Iterable[object], reader: DataRelease, since: Mapping[StoredPart, DataRelease] = SINCE
) -> None:
    """Refuse to write journal lines that a release cannot read.

    Raises:
        UnfinishedMigrationError: a line has something that a later release has brought.
    """
    if reader is NEWEST:
        return
    unknown = {part for part, release in since.items() if release > reader}
    for line in lines:
        if isinstance(line, TextChanged) and (kind := kind_of(line.key)).since > reader:
            raise UnfinishedMigrationError(f"a stored {kind.name}", str(reader))
        for part in _parts(line):
            if part in unknown:
                raise UnfinishedMigrationError(_name(part), str(reader))


def _parts(value: object) -> Iterator[StoredPart]:
    """Yield the classes, the fields with a value of their own, and the members of enums in a value."""
    if isinstance(value, Enum):
        yield type(value), value.name
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for field in fields(value):
            content: object = getattr(value, field.name)
            if content != _default(field):
                yield type(value), field.name
                yield from _parts(content)
    elif isinstance(value, Mapping):
        yield from _parts(tuple(value.values()))
    elif isinstance(value, Collection) and not isinstance(value, str | bytes):
        for content in value:
            yield from _parts(content)


def _default(field: Field[object]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _name(part: StoredPart) -> str:
    return part.__name__ if isinstance(part, type) else f"{part[0].__name__}.{part[1]}"
