"""How stored values are written as texts and read back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType

from fairwarning.core.document.render import Json
from fairwarning.core.inventory import InventoryRecord, InventoryVersion, ReplacedInventory
from fairwarning.core.maintenance.values import (
    Hold,
    HostLabels,
    Maintenance,
    MaintenanceBudget,
    MaintenancePhase,
    OnSilence,
    PendingMaintenances,
    Places,
    QueuedBarrier,
)
from fairwarning.core.model import BarrierId, EventId, HostId, VmName


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


def write_maintenance(maintenance: Maintenance) -> str:
    """Return the text of a maintenance."""
    return json.dumps(asdict(maintenance), default=datetime.isoformat)


@lru_cache(maxsize=1024)
def read_maintenance(text: str) -> Maintenance:
    """Return the maintenance that a text is."""
    stored = json.loads(text)
    instants = {name: _read_instant(stored[name]) for name in ("opens", "closes", "ended_at")}
    return Maintenance(
        **{
            **stored,
            **instants,
            "created_at": datetime.fromisoformat(stored["created_at"]),
            "not_before": datetime.fromisoformat(stored["not_before"]),
            "on_silence": OnSilence(stored["on_silence"]),
            "phase": MaintenancePhase(stored["phase"]),
            "machines": tuple(stored["machines"]),
        }
    )


def write_pending(pending: PendingMaintenances) -> str:
    """Return the text of the maintenances that are not over."""
    return json.dumps({host: list(ids) for host, ids in pending.items()})


@lru_cache(maxsize=4)
def read_pending(text: str) -> PendingMaintenances:
    """Return the maintenances that are not over, by host."""
    stored = json.loads(text)
    return MappingProxyType({HostId(host): tuple(map(BarrierId, ids)) for host, ids in stored.items()})


def write_hold(hold: Hold) -> str:
    """Return the text of a hold."""
    return json.dumps(asdict(hold), default=datetime.isoformat)


def read_hold(text: str) -> Hold:
    """Return the hold that a text is."""
    stored = json.loads(text)
    return Hold(reason=stored["reason"], by=stored["by"], since=datetime.fromisoformat(stored["since"]))


def write_budgets(budgets: tuple[MaintenanceBudget, ...]) -> str:
    """Return the text of the budgets of a fleet."""
    return json.dumps([asdict(budget) for budget in budgets])


@lru_cache(maxsize=4)
def read_budgets(text: str) -> tuple[MaintenanceBudget, ...]:
    """Return the budgets of a fleet."""
    return tuple(MaintenanceBudget(**stored) for stored in json.loads(text))


def write_labels(labels: HostLabels) -> str:
    """Return the text of the labels of hosts."""
    return json.dumps({host: dict(own) for host, own in sorted(labels.items())})


@lru_cache(maxsize=4)
def read_labels(text: str) -> HostLabels:
    """Return the labels of hosts."""
    stored = json.loads(text)
    return MappingProxyType({HostId(host): MappingProxyType(own) for host, own in stored.items()})


def write_places(places: Places) -> str:
    """Return the text of the places of a group."""
    queue = [(turn.not_before.isoformat(), turn.barrier) for turn in places.queue]
    return json.dumps({"taken": dict(places.taken), "queue": queue})


@lru_cache(maxsize=1024)
def read_places(text: str) -> Places:
    """Return the places of a group that a text is."""
    stored = json.loads(text)
    taken = {EventId(event): tuple(machines) for event, machines in stored["taken"].items()}
    queue = (QueuedBarrier(datetime.fromisoformat(at), BarrierId(barrier)) for at, barrier in stored["queue"])
    return Places(taken=MappingProxyType(taken), queue=tuple(queue))


def write_first_reads(reads: Mapping[VmName, datetime]) -> str:
    """Return the text of the first reads of an event by its machines."""
    return json.dumps({name: at.astimezone(UTC).isoformat() for name, at in sorted(reads.items())})


@lru_cache(maxsize=1024)
def read_first_reads(text: str) -> Mapping[VmName, datetime]:
    """Return the first reads that a text is; cached, because every machine of an event asks for them."""
    stored = json.loads(text)
    return MappingProxyType({VmName(name): datetime.fromisoformat(at) for name, at in stored.items()})


def _read_instant(stored: str | None) -> datetime | None:
    return None if stored is None else datetime.fromisoformat(stored)
