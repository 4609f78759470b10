"""The errors of the core.

    FairWarningError
    ├── InvalidError             a value is not allowed; names the field
    ├── ForbiddenError           the caller may not do this
    ├── UnknownEventError        no pending event has this id
    ├── UnknownMachineError      no machine has this name
    ├── UnknownHostError         no machine is on a host of this name
    ├── UnknownScopeError        no scope has this name
    ├── UnknownRolloutError      the scope has no rollout
    ├── NameTakenError           the name is in use
    ├── AmbiguousNameError       several scopes have a machine of this name
    ├── IllegalTransitionError   the status of the event does not allow this
    ├── ImpactOverError          the machine has had the impact of the event
    ├── ReportsRefusedError      the driver observes impacts itself
    ├── AlreadyUnderWayError     the machine has an unfinished event of this type or cause
    ├── TooManyUserEventsError   the scope has as many user events as its profile allows
    ├── NotSpotError             only Spot machines can be evicted
    ├── NotRunningError          a stopped machine cannot be restarted, reimaged or evicted
    ├── NoTerminateNoticeError   the machine gets no notice before it is deleted
    ├── NoImageNoticeError       the machine gets no notice before it is reimaged
    ├── EmulatorOnlyError        only the emulator can do this
    ├── MachinesListedError      the machines of this server are those of its inventory
    ├── MassRemovalError         an inventory lacks most of the machines
    ├── OlderInventoryError      an inventory is older than the fleet's
    ├── NumberTakenError         another inventory has the number of this one
    ├── SpotIsNotWarnedError     Spot machines get no terminate notice
    ├── RolloutUnderWayError     the scope already has a rollout
    ├── HostMaintainedError      the host has a maintenance that is not over
    ├── BudgetTooSmallError          more machines of a group than may be down at once
    ├── UnknownMaintenanceError  the host has no maintenance, or no maintenance has this name
    ├── UnfinishedMigrationError nodes of an earlier release may use the database
    ├── ContendedError           other requests kept changing what this one rests on; try again
    └── StorageError             a change could not be stored
        ├── StoredUnreadError    a change is stored, and this server cannot read the journal up to it
        └── MaybeLostError       a change was stored, and the database has lost changes since

Each error carries the HTTP status that a server should answer with. The APIs translate errors in one place,
and the core does not depend on HTTP.
"""

from typing import ClassVar

from fairwarning.core.maintenance.values import Maintenance
from fairwarning.core.model import Event, EventId, Principal, ScopeId, VmName
from fairwarning.formats.timestamps import for_people


class FairWarningError(Exception):
    """The base of every error that this package raises on purpose."""

    status_hint: ClassVar[int] = 400
    #: The seconds after which the same request may succeed, for the header ``Retry-After``.
    retry_after: ClassVar[str | None] = None
    #: The part of the request that is at fault, if the error is about one part.
    field: str | None = None


class InvalidError(FairWarningError):
    """A value is not allowed."""

    status_hint = 422
    field: str

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ForbiddenError(FairWarningError):
    """The caller may not do this."""

    status_hint = 403

    def __init__(self, principal: Principal, action: str) -> None:
        super().__init__(f"{principal} may not {action}")
        self.principal = principal
        self.action = action


class UnknownEventError(FairWarningError):
    """No pending event has this id."""

    status_hint = 404

    def __init__(self, event_id: EventId) -> None:
        super().__init__(f"no scheduled event has the id {event_id}")
        self.event_id = event_id


class UnknownMachineError(FairWarningError):
    """No machine has this name."""

    status_hint = 404

    def __init__(self, name: str, suggestion: str = "") -> None:
        super().__init__(f"no machine named {name}{suggestion}")
        self.name = name


class UnknownHostError(FairWarningError):
    """No machine is on a host of this name."""

    status_hint = 404

    def __init__(self, host: str) -> None:
        super().__init__(f"no machine is on host {host}")
        self.host = host


class UnknownScopeError(FairWarningError):
    """No scope has this name."""

    status_hint = 404

    def __init__(self, scope: str) -> None:
        super().__init__(f"no scope named {scope}")
        self.scope = scope


class UnknownRolloutError(FairWarningError):
    """The scope has no rollout."""

    status_hint = 404

    def __init__(self, scope: ScopeId) -> None:
        super().__init__(f"scope {scope} has no rollout in progress")
        self.scope = scope


class NameTakenError(FairWarningError):
    """The name is in use."""

    status_hint = 409

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name} is taken")
        self.name = name


class AmbiguousNameError(FairWarningError):
    """Several scopes have a machine of this name."""

    status_hint = 409

    def __init__(self, name: str, scopes: tuple[ScopeId, ...]) -> None:
        choices = ", ".join(f"{scope}/{name}" for scope in scopes)
        super().__init__(f"several machines are named {name}; use one of: {choices}")
        self.name = name
        self.scopes = scopes


class IllegalTransitionError(FairWarningError):
    """The status of the event does not allow this."""

    status_hint = 409

    def __init__(self, event: Event, signal: str) -> None:
        super().__init__(f"event {event.id} is {event.status}; it cannot be {signal}")
        self.event = event
        self.signal = signal


class ImpactOverError(FairWarningError):
    """The machine has had the impact of the event."""

    status_hint = 409

    def __init__(self, event: Event, machine: str) -> None:
        super().__init__(f"event {event.id} is over for {machine}")
        self.event = event
        self.machine = machine


class ReportsRefusedError(FairWarningError):
    """The driver observes impacts itself, and takes no reports about them."""

    status_hint = 409

    def __init__(self, driver: str) -> None:
        super().__init__(
            f"the {driver} driver ends impacts by itself; only the external driver takes reports"
        )
        self.driver = driver


class AlreadyUnderWayError(FairWarningError):
    """The machine has an unfinished event of this type or cause."""

    status_hint = 409

    def __init__(self, machine: VmName, what: str, event: Event) -> None:
        super().__init__(f"{machine} already has an unfinished {what}: event {event.id} is {event.status}")
        self.machine = machine
        self.what = what
        self.event = event


class HostMaintainedError(FairWarningError):
    """The host has a maintenance that is not over."""

    status_hint = 409

    def __init__(self, maintenance: Maintenance) -> None:
        super().__init__(
            f"{maintenance.subject} already has a {maintenance.cause} that is {maintenance.phase}, "
            f"not before {for_people(maintenance.not_before)}: maintenance {maintenance.id}"
        )
        self.maintenance = maintenance


class BudgetTooSmallError(FairWarningError):
    """More machines of a group than may be down at once."""

    status_hint = 409

    def __init__(self, group: str, machines: int, most: int) -> None:
        super().__init__(
            f"this takes {machines} machines of {group} down at once, and the budget is {most}; "
            "it could start only over budget, when no other machine of the group is down"
        )
        self.group = group
        self.machines = machines
        self.most = most


class UnknownMaintenanceError(FairWarningError):
    """The host has no maintenance, or no maintenance has this name."""

    status_hint = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"no maintenance of {name} is pending")
        self.name = name


class TooManyUserEventsError(FairWarningError):
    """The scope has as many user events as its profile allows."""

    status_hint = 409

    def __init__(self, scope: ScopeId, limit: int) -> None:
        super().__init__(f"scope {scope} has {limit} user operations under way, the most this profile allows")
        self.scope = scope
        self.limit = limit


class NotSpotError(FairWarningError):
    """Only Spot machines can be evicted."""

    status_hint = 409

    def __init__(self, machine: VmName) -> None:
        super().__init__(f"{machine} is not a Spot machine")
        self.machine = machine


class NotRunningError(FairWarningError):
    """A stopped machine cannot be restarted, reimaged or evicted."""

    status_hint = 409

    def __init__(self, machine: VmName) -> None:
        super().__init__(f"{machine} is stopped")
        self.machine = machine


class NoTerminateNoticeError(FairWarningError):
    """The machine gets no notice before it is deleted."""

    status_hint = 409

    def __init__(self, machine: VmName) -> None:
        super().__init__(
            f"{machine} gets no notice of a delete: terminate notification is not enabled in its model "
            "(terminate_notice, 5m to 15m)"
        )
        self.machine = machine


class NoImageNoticeError(FairWarningError):
    """The machine gets no notice before it is reimaged."""

    status_hint = 409

    def __init__(self, machine: VmName) -> None:
        super().__init__(
            f"{machine} gets no notice of a reimage: OS image notification is not enabled in its model "
            "(osImageNotificationProfile of its set)"
        )
        self.machine = machine


class EmulatorOnlyError(FairWarningError):
    """Only the emulator can do this; the server has real machines and a real clock."""

    status_hint = 404

    def __init__(self, action: str) -> None:
        super().__init__(f"{action} is a feature of the emulator (fairwarning up), not of fairwarning serve")
        self.action = action


class MachinesListedError(FairWarningError):
    """The machines of this server are as its inventory lists them; no request says otherwise."""

    status_hint = 409

    def __init__(self, action: str) -> None:
        super().__init__(
            f"cannot {action}: machines come from the inventory of fairwarning serve; change its file"
        )
        self.action = action


class UnfinishedMigrationError(FairWarningError):
    """What the request would store is unknown to an earlier release whose nodes may use the database."""

    status_hint = 409

    def __init__(self, part: str, reader: str) -> None:
        super().__init__(
            f"nodes of release {reader} may use the database, and do not know {part}: "
            "run fairwarning db migrate --finish first"
        )
        self.part = part


class MassRemovalError(FairWarningError):
    """An inventory lacks most of the machines, perhaps because the list was cut off."""

    status_hint = 409

    def __init__(self, missing: int, machines: int) -> None:
        super().__init__(
            f"the inventory lacks {missing} of the {machines} machines of the fleet; "
            "remove_most = true in [inventory] removes them nevertheless"
        )
        self.missing = missing
        self.machines = machines


class OlderInventoryError(FairWarningError):
    """An inventory is older than the one that the fleet has, and would undo it."""

    status_hint = 409

    def __init__(self, version: str, reason: str, current: str, since: str) -> None:
        super().__init__(
            f"inventory {version} {reason}, and the fleet has inventory {current} since {since}; "
            f'replaces = "{current}" in [inventory] applies it nevertheless'
        )
        self.version = version
        self.current = current


class NumberTakenError(FairWarningError):
    """Another inventory has the number of this one."""

    status_hint = 409

    def __init__(self, number: int, largest: int) -> None:
        super().__init__(
            f"inventory {number} has changed, but not its number; "
            f"give it a number larger than {largest}: version in [inventory]"
        )
        self.number = number


class SpotIsNotWarnedError(FairWarningError):
    """Spot machines get no terminate notice."""

    status_hint = 409

    def __init__(self) -> None:
        super().__init__("terminate notification cannot be enabled for Spot machines")


class RolloutUnderWayError(FairWarningError):
    """The scope already has a rollout."""

    status_hint = 409

    def __init__(self, scope: ScopeId) -> None:
        super().__init__(f"scope {scope} already has a rollout in progress")
        self.scope = scope


class ContendedError(FairWarningError):
    """Other requests kept changing what this request rests on; it may be sent again."""

    status_hint = 503
    retry_after = "1"

    def __init__(self) -> None:
        super().__init__("the state changed again and again while this was decided; try again")


class StorageError(FairWarningError):
    """A change could not be stored."""

    status_hint = 503
    retry_after = "5"
    #: Whether the change may nevertheless be stored: the store failed too late to know.
    outcome_unknown: ClassVar[bool] = False

    def __init__(self, message: str, problem: str) -> None:
        """Take the message for operators, and the part of it without paths, which any client may see."""
        super().__init__(message)
        self.problem = problem


class StoredUnreadError(StorageError):
    """A change is stored, but the journal before it cannot be read, so the answer is unknown here."""

    outcome_unknown = True

    def __init__(self, line: int) -> None:
        problem = "the change is stored, but the journal cannot be read"
        super().__init__(f"{problem} up to line {line}", problem)


class MaybeLostError(StorageError):
    """A change was stored in a database that has lost changes since, and could not be stored again."""

    outcome_unknown = True

    def __init__(self) -> None:
        problem = "the database has lost changes, and it is unknown whether this one is stored"
        super().__init__(problem, problem)
