"""Every refusal the core can give.

    FairWarningError
    ├── Invalid             a value makes no sense; names the field
    ├── UnknownEvent        no pending event has this id
    ├── UnknownMachine      no machine goes by this name
    ├── UnknownHost         no machine is on a host of this name
    ├── UnknownScope        no scope goes by this name
    ├── UnknownWalk         no walk is under way in this scope
    ├── NameTaken           a scope of this name exists already
    ├── AmbiguousName       several scopes have a machine of this name
    ├── IllegalTransition   the event is not in a state that allows this
    ├── AlreadyUnderWay     the machine waits for an event of this kind already
    ├── TooManyUserEvents   the scope has as many user events as its profile allows
    ├── NotSpot             only Spot machines can be evicted
    ├── NotRunning          what is stopped cannot be restarted, moved or evicted
    ├── SpotIsNotWarned     Spot machines get no notice of their deletion
    ├── WalkUnderWay        the scope is being walked already
    ├── Conflict            somebody else changed the scope first; decide again
    └── StorageError        what was decided could not be kept

Each carries the HTTP status a server should answer with, so that the HTTP rooms translate errors in
one place and the core still knows nothing of HTTP.
"""

from typing import ClassVar

from fairwarning.core.model import Event, EventId, EventType, ScopeId, VmName


class FairWarningError(Exception):
    """Base of every error this package raises on purpose."""

    status_hint: ClassVar[int] = 400


class InvalidError(FairWarningError):
    """A value makes no sense."""

    status_hint = 422

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class UnknownEventError(FairWarningError):
    """No pending event has this id."""

    status_hint = 404

    def __init__(self, event_id: EventId) -> None:
        super().__init__(f"no scheduled event has the id {event_id}")
        self.event_id = event_id


class UnknownMachineError(FairWarningError):
    """No machine goes by this name."""

    status_hint = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"no machine is called {name}")
        self.name = name


class UnknownHostError(FairWarningError):
    """No machine is on a host of this name."""

    status_hint = 404

    def __init__(self, host: str) -> None:
        super().__init__(f"no machine is on host {host}")
        self.host = host


class UnknownScopeError(FairWarningError):
    """No scope goes by this name."""

    status_hint = 404

    def __init__(self, scope: str) -> None:
        super().__init__(f"no scope is called {scope}")
        self.scope = scope


class UnknownRolloutError(FairWarningError):
    """No walk is under way in this scope."""

    status_hint = 404

    def __init__(self, scope: ScopeId) -> None:
        super().__init__(f"no walk is under way in scope {scope}")
        self.scope = scope


class NameTakenError(FairWarningError):
    """A scope of this name exists already."""

    status_hint = 409

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name} is taken")
        self.name = name


class AmbiguousNameError(FairWarningError):
    """Several scopes have a machine of this name."""

    status_hint = 409

    def __init__(self, name: str, scopes: tuple[ScopeId, ...]) -> None:
        choices = ", ".join(f"{scope}/{name}" for scope in scopes)
        super().__init__(f"{name} names several machines; say which: {choices}")
        self.name = name
        self.scopes = scopes


class IllegalTransitionError(FairWarningError):
    """The event is not in a state that allows this."""

    status_hint = 409

    def __init__(self, event: Event, signal: str) -> None:
        super().__init__(f"event {event.id} is {event.status}; it cannot be {signal}")
        self.event = event
        self.signal = signal


class AlreadyUnderWayError(FairWarningError):
    """The machine waits for an event of this kind already."""

    status_hint = 409

    def __init__(self, machine: VmName, kind: EventType, event: Event) -> None:
        super().__init__(f"{machine} has an unfinished {kind} already: event {event.id} is {event.status}")
        self.machine = machine
        self.kind = kind
        self.event = event


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
    """What is stopped cannot be restarted, moved or evicted."""

    status_hint = 409

    def __init__(self, machine: VmName) -> None:
        super().__init__(f"{machine} is stopped")
        self.machine = machine


class SpotIsNotWarnedError(FairWarningError):
    """Spot machines get no notice of their deletion."""

    status_hint = 409

    def __init__(self) -> None:
        super().__init__("terminate notification cannot be enabled for Spot machines")


class RolloutUnderWayError(FairWarningError):
    """The scope is being walked already."""

    status_hint = 409

    def __init__(self, scope: ScopeId) -> None:
        super().__init__(f"scope {scope} is being walked already")
        self.scope = scope


class ConflictError(FairWarningError):
    """Somebody else changed the scope first; decide again."""

    status_hint = 409

    def __init__(self, scope: ScopeId, expected: int) -> None:
        super().__init__(f"scope {scope} has moved on from version {expected}")
        self.scope = scope
        self.expected = expected


class StorageError(FairWarningError):
    """What was decided could not be kept."""

    status_hint = 503

    def __init__(self, message: str, problem: str) -> None:
        """Take what operators are told, and the part of it that anybody may know: it names no path."""
        super().__init__(message)
        self.problem = problem
