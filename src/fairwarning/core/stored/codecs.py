"""How stored values are written as texts and read back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from fairwarning.core.document.render import Json
from fairwarning.core.inventory import InventoryRecord, InventoryVersion, ReplacedInventory
from fairwarning.core.model import EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A request of a management client that waits for scheduled events."""

    started_at: datetime
    resource: str
    events: tuple[EventId, ...]


def write_json(value: Json) -> str:
    """Return the text of a document."""
    return json.dumps(value)


def read_json(text: str) -> Json:
    """Return the document that a text is."""
    value: Json = json.loads(text)
    return value


def write_operation(operation: Operation) -> str:
    """Return the text of an operation."""
    started_at = operation.started_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return json.dumps(
        {"started_at": started_at, "events": sorted(operation.events), "resource": operation.resource}
    )


def read_operation(text: str) -> Operation:
    """Return the operation that a text is; those of the first release name no resource."""
    stored = json.loads(text)
    return Operation(
        started_at=datetime.fromisoformat(stored["started_at"]),
        resource=stored.get("resource", ""),
        events=tuple(map(EventId, stored["events"])),
    )


def write_inventory(record: InventoryRecord) -> str:
    """Return the text of the record of inventories."""
    return json.dumps(asdict(record), default=datetime.isoformat)


def read_inventory(text: str) -> InventoryRecord:
    """Return the record of inventories that a text is."""
    stored = json.loads(text)
    replaced = (
        ReplacedInventory(version=_read_version(earlier["version"]), at=datetime.fromisoformat(earlier["at"]))
        for earlier in stored["replaced"]
    )
    since = datetime.fromisoformat(stored["since"])
    return InventoryRecord(version=_read_version(stored["version"]), since=since, replaced=tuple(replaced))


def _read_version(stored: Mapping[str, str | int | None]) -> InventoryVersion:
    number = stored["number"]
    return InventoryVersion(digest=str(stored["digest"]), number=None if number is None else int(number))
