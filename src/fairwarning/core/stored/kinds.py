"""Everything that is stored besides scopes: ``KINDS``, and who may write it.

A stored value has a key and a text. Values of the state are rows of the table ``document`` and lines of the
journal (``TextChanged``): requests write them together with what they change of scopes, and every node
follows them. Values of the service (``SERVICE_KINDS``) are rows of the table ``note``, outside the journal:
no request writes them. A key has exactly one kind.

To store something new, write a class for it, add a row here with its ``since``, and put its rules where the
row says. A key that no row knows was written by a newer version (U-03).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

from fairwarning.core.document.render import Json
from fairwarning.core.inventory import InventoryRecord
from fairwarning.core.maintenance.values import (
    Hold,
    HostLabels,
    Maintenance,
    MaintenanceBudget,
    PendingMaintenances,
    Places,
)
from fairwarning.core.model import VmName
from fairwarning.core.policy import Action
from fairwarning.core.stored import codecs
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.releases import OLDEST, DataRelease

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class StoredKind:
    """A type of stored value, whatever it is."""

    #: What history, log and ``db check`` call it.
    name: str
    #: The forms of its keys: ``*`` stands for a name without a slash, ``**`` for the rest of the key.
    keys: tuple[str, ...]
    #: What a caller has to be allowed to do to write it; None if no request writes it.
    action: Action | None
    #: The module that has its rules.
    rules: str
    since: DataRelease = OLDEST
    #: The kinds whose keys are not of this kind, although they may have one of its forms.
    besides: tuple["StoredKind", ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        forms = (re.escape(key).replace(r"\*\*", ".+").replace(r"\*", "[^/]+") for key in self.keys)
        return re.compile("|".join(forms), re.DOTALL)

    def has(self, key: str) -> bool:
        """Whether a key is one of this kind."""
        if self._pattern.fullmatch(key) is None:
            return False
        return not any(other.has(key) for other in self.besides)

    @property
    def prefix(self) -> str:
        """The beginning that all of its keys have in common."""
        return self.keys[0].partition("*")[0]

    def key(self, name: str = "") -> str:
        """Return the key of a value by its name."""
        return f"{self.prefix}{name}"


# Without slots: Python 3.11 cannot make a generic dataclass with slots.
@dataclass(frozen=True, kw_only=True)
class Kind(StoredKind, Generic[Value]):
    """A type of stored value, and how a value is written as a text."""

    encode: Callable[[Value], str]
    decode: Callable[[str], Value]

    def find(self, text: Callable[[str], str | None], name: str = "") -> Value | None:
        """Return a value, given what returns the text under a key; None if there is none."""
        stored = text(self.key(name))
        return None if stored is None else self.decode(stored)


def _resource(name: str, rules: str, *paths: str) -> Kind[Json]:
    """Return the kind of a resource of the management API: its key is its id in lower case."""
    return Kind(
        name=name,
        keys=tuple(f"/subscriptions/*{path}" for path in paths),
        encode=codecs.write_json,
        decode=codecs.read_json,
        action=Action.STORE_RESOURCE,
        rules=f"arm.{rules}",
    )


_GROUP = "/resourcegroups/*"
_PROVIDER = f"{_GROUP}/providers/microsoft"
_COMPUTE = f"{_PROVIDER}.compute"
_VM, _SET = f"{_COMPUTE}/virtualmachines/*", f"{_COMPUTE}/virtualmachinescalesets/*"
_INSTANCE = f"{_SET}/virtualmachines/*"

OPERATION: Kind[Operation] = Kind(
    name="operation",
    keys=("operation:*",),
    encode=codecs.write_operation,
    decode=codecs.read_operation,
    action=Action.STORE_RESOURCE,
    rules="arm.operations",
)
ENDED_SESSION: Kind[str] = Kind(
    name="ended session",
    keys=("console-session:*",),
    encode=str,
    decode=str,
    action=Action.END_SESSION,
    rules="console.sessions",
)
SESSIONS_ENDED: Kind[datetime] = Kind(
    name="end of all sessions",
    keys=("console-sessions-ended",),
    encode=datetime.isoformat,
    decode=datetime.fromisoformat,
    action=Action.END_SESSION,
    rules="console.sessions",
)
INVENTORY: Kind[InventoryRecord] = Kind(
    name="inventory",
    keys=("inventory",),
    encode=codecs.write_inventory,
    decode=codecs.read_inventory,
    action=Action.APPLY_INVENTORY,
    rules="core.inventory",
)
FIRST_READS: Kind[Mapping[VmName, datetime]] = Kind(
    name="first reads of an event",
    keys=("first-reads:*",),
    encode=codecs.write_first_reads,
    decode=codecs.read_first_reads,
    action=Action.POLL,
    rules="engine.polls",
    since=DataRelease.V0_3,
)
SWITCHED_OFF: Kind[Json] = Kind(
    name="switched-off machine",
    keys=("switched-off:**",),
    encode=codecs.write_json,
    decode=codecs.read_json,
    action=Action.STORE_RESOURCE,
    rules="arm.compute.older_documents",
)

MAINTENANCE: Kind[Maintenance] = Kind(
    name="maintenance",
    # A barrier has the name of its host in it.
    keys=("maintenance:**",),
    encode=codecs.write_maintenance,
    decode=codecs.read_maintenance,
    action=Action.MAINTAIN,
    rules="core.maintenance.maintain",
    since=DataRelease.V0_3,
)
PENDING: Kind[PendingMaintenances] = Kind(
    name="list of pending maintenances",
    keys=("pending-maintenances",),
    encode=codecs.write_pending,
    decode=codecs.read_pending,
    action=Action.MAINTAIN,
    rules="core.maintenance.bookkeeping",
    since=DataRelease.V0_3,
)
HOLD: Kind[Hold] = Kind(
    name="hold",
    keys=("hold",),
    encode=codecs.write_hold,
    decode=codecs.read_hold,
    action=Action.HOLD,
    rules="core.maintenance.release",
    since=DataRelease.V0_3,
)
HOLD_OF_HOST: Kind[Hold] = Kind(
    name="hold of a host",
    keys=("hold:**",),
    encode=codecs.write_hold,
    decode=codecs.read_hold,
    action=Action.HOLD,
    rules="core.maintenance.release",
    since=DataRelease.V0_3,
)
BUDGETS: Kind[tuple[MaintenanceBudget, ...]] = Kind(
    name="list of budgets",
    keys=("budgets",),
    encode=codecs.write_budgets,
    decode=codecs.read_budgets,
    action=Action.APPLY_INVENTORY,
    rules="core.maintenance.budgets",
    since=DataRelease.V0_3,
)
HOST_LABELS: Kind[HostLabels] = Kind(
    name="labels of hosts",
    keys=("host-labels",),
    encode=codecs.write_labels,
    decode=codecs.read_labels,
    action=Action.APPLY_INVENTORY,
    rules="core.inventory",
    since=DataRelease.V0_3,
)
PLACES: Kind[Places] = Kind(
    name="places of a group",
    keys=("places:**",),
    encode=codecs.write_places,
    decode=codecs.read_places,
    action=Action.MAINTAIN,
    rules="core.maintenance.budgets",
    since=DataRelease.V0_3,
)

_RESOURCES: tuple[Kind[Json], ...] = (
    _resource("resource group", "groups", _GROUP),
    _resource("virtual machine", "compute.vms", _VM),
    _resource("scale set", "compute.scalesets", _SET),
    _resource("instance", "compute.instances", _INSTANCE),
    _resource("availability set", "compute.availability_sets", f"{_COMPUTE}/availabilitysets/*"),
    _resource("cloud service", "compute.cloud_services", f"{_COMPUTE}/cloudservices/*"),
    _resource("disk", "compute.disks", f"{_COMPUTE}/disks/*"),
    _resource("extension", "compute.extensions", f"{_VM}/extensions/*", f"{_INSTANCE}/extensions/*"),
    _resource("user data", "compute.user_data", *(f"{path}/userdata" for path in (_VM, _SET, _INSTANCE))),
    _resource("rolling upgrade", "compute.actions", f"{_SET}/rollingupgrade"),
    _resource("network resource", "network", f"{_PROVIDER}.network/**"),
    _resource("deployment", "deployments", f"{_PROVIDER}.resources/deployments/*"),
    _resource("tags of a subscription", "resources.tags", "/providers/microsoft.resources/tags/default"),
)
#: What is kept as clients sent it: a template may put a resource below any other, such as a role assignment
#: below a machine, so no list has all forms of these keys.
_OTHER_RESOURCE = replace(_resource("other resource", "network", "/**"), besides=_RESOURCES)

#: Values of the state, which the journal has.
KINDS: tuple[StoredKind, ...] = (
    *_RESOURCES,
    _OTHER_RESOURCE,
    OPERATION,
    SWITCHED_OFF,
    ENDED_SESSION,
    SESSIONS_ENDED,
    INVENTORY,
    MAINTENANCE,
    PENDING,
    HOLD,
    HOLD_OF_HOST,
    BUDGETS,
    HOST_LABELS,
    PLACES,
    FIRST_READS,
)


def _service(name: str, rules: str, *keys: str) -> Kind[str]:
    return Kind(name=name, keys=keys, encode=str, decode=str, action=None, rules=rules)


#: Values of the service itself, outside the journal.
SERVICE_KINDS: tuple[StoredKind, ...] = (
    _service("time of the manual clock", "engine.time_control", "clock"),
    _service("numbers of machines", "metadata.machine_numbers", "numbers/*", "slots"),
    _service("template of a running deployment", "arm.deployments", "deployment:*"),
    _service("key of user data", "arm.compute.user_data", "user-data-key"),
    _service("key of management tokens", "arm.tokens", "arm-key"),
    _service("secret of the console", "console.sessions", "console-secret"),
    _service("restores", "database.restores", "restores"),
    _service("end of the pruned journal", "store.pruning", "pruned"),
)


class UnknownKindError(LookupError):
    """No kind has this key: a newer version wrote it."""


@lru_cache(maxsize=4096)
def kind_of(key: str) -> StoredKind:
    """Return the kind of a value of the state.

    Raises:
        UnknownKindError: this version knows no such key.
    """
    return _find(KINDS, key)


def service_kind_of(key: str) -> StoredKind:
    """Return the kind of a value of the service; the errors are those of ``kind_of``."""
    return _find(SERVICE_KINDS, key)


def kind_name(key: str) -> str:
    """Return what people call the kind of a value of the state."""
    try:
        return kind_of(key).name
    except UnknownKindError:
        return "unknown kind"


def _find(kinds: tuple[StoredKind, ...], key: str) -> StoredKind:
    for kind in kinds:
        if kind.has(key):
            return kind
    raise UnknownKindError(f"the key {key}")
