"""The requests and bodies about maintenances, hosts and holds, as types; see ``schemas``."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

from fairwarning.control.hosts import HostState
from fairwarning.core.maintenance.values import MaintenancePhase, OnSilence
from fairwarning.operator.schemas import ActorRequest, Duration, EventBody, Host, Names, Text


class MaintenanceRequest(ActorRequest, frozen=True, kw_only=True):
    """A maintenance of a host, or of the machines named, to announce.

    Instants are as operators write them: ``Thu 02:00`` (the next one, in the zone of the fleet), ``+5h``, or
    ISO 8601.
    """

    cause: Text
    machines: Names = field(default_factory=list)
    host: Text | None = None
    notice: Duration | None = None
    #: When the window opens; nothing starts before.
    at: Text | None = None
    #: When the window closes; nothing starts from then on.
    until: Text | None = None
    #: A repetition with the same key changes nothing.
    key: Annotated[str, Meta(max_length=200)] = ""
    on_silence: OnSilence = OnSilence.PROCEED
    over_budget: bool = False
    dry_run: bool = False


class MaintenancesRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which maintenances to list; those that are over only on request."""

    host: Text | None = None
    over: bool = False


class HostsRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which hosts to list: those with a label, or all."""

    #: A label with its value, as ``rack=B``.
    label: Text | None = None


class CompleteHostRequest(ActorRequest, frozen=True, kw_only=True):
    """The hosts on which machines are now that were on the host before."""

    moved: Annotated[dict[Text, Host], Meta(max_length=1000)] = field(default_factory=dict)


class PostponeRequest(ActorRequest, frozen=True, kw_only=True):
    """The later NotBefore, as operators write instants."""

    until: Text


class HoldRequest(ActorRequest, frozen=True, kw_only=True):
    """Why nothing of the platform may start."""

    reason: Annotated[str, Meta(max_length=200)] = ""


class MaintenanceBody(Struct, frozen=True, kw_only=True):
    """A maintenance, over or not, and its events that are not over."""

    id: str
    host: str | None
    cause: str
    phase: MaintenancePhase
    #: Why it was withdrawn.
    reason: str
    by: str
    created_at: datetime
    not_before: datetime
    opens: datetime | None
    closes: datetime | None
    ended_at: datetime | None
    on_silence: OnSilence
    over_budget: bool
    #: The machines that were warned, by their full names.
    machines: list[str]
    #: NotBefore and the window in the zone of the fleet, as people read them.
    when: str
    events: list[EventBody]
    hint: str | None = None


class MaintenancesBody(Struct, frozen=True, kw_only=True):
    """Maintenances, the oldest first."""

    maintenances: list[MaintenanceBody]


class HoldBody(Struct, frozen=True, kw_only=True):
    """Whether nothing of the platform may start, and why."""

    held: bool
    reason: str = ""
    by: str | None = None
    since: datetime | None = None


class TenantBody(Struct, frozen=True, kw_only=True):
    """A scope with machines on a host, and what it has answered."""

    scope: str
    machines: list[str]
    polls: bool
    answer: str


class HostBody(Struct, frozen=True, kw_only=True):
    """A host, as reported by the machines that name it."""

    name: str
    state: HostState
    machines: int
    tenants: list[TenantBody]
    hold: HoldBody
    #: What the inventory says of the host, such as its rack.
    labels: dict[str, str]
    maintenances: list[MaintenanceBody]


class HostsBody(Struct, frozen=True, kw_only=True):
    """All hosts, by name."""

    hosts: list[HostBody]
