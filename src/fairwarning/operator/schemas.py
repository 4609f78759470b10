"""The requests and bodies of the operator API, as types.

Requests refuse unknown members. The OpenAPI document is generated from these types, under the names that
``openapi`` publishes.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.fleet import MachineState
from fairwarning.core.model import EventSource, EventStatus, EventType, EvictionPolicy, PowerState, ScopeKind
from fairwarning.engine.membership import NotReadyReason

# Python's $ also matches before a last line break, and JSON Schema has no \Z.
_END = r"(?![\s\S])"

#: A name that clients of earlier releases send; the history names the caller that the server authenticated.
By = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        extra_json_schema={"deprecated": True},
        description="has no effect: the history records the caller itself; accepted for one more release",
    ),
]
Text = Annotated[str, Meta(max_length=200)]
Duration = Annotated[str, Meta(max_length=40, description="30s, 15m, 1h30m, 2d, or ISO 8601: PT5M")]
Host = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}(~[0-9]{{1,9}})?{_END}")]
#: An inventory may name hosts in any way.
ListedHost = Annotated[str, Meta(min_length=1, max_length=200)]
Zone = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9]{{1,16}}{_END}")]
Names = Annotated[list[Text], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]


# -- requests


class EmptyRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A request without parameters."""


class ActorRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A request of which earlier releases recorded who made it."""

    by: By = "operator"


class DeleteRequest(ActorRequest, frozen=True, kw_only=True):
    """A deletion; ``force`` skips the notice."""

    force: bool = False


class PowerRequest(ActorRequest, frozen=True, kw_only=True):
    """The desired power state of a machine."""

    power: PowerState


class MoveRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The host on which a machine is now."""

    host: ListedHost


class FaultRequest(ActorRequest, frozen=True, kw_only=True):
    """A fault of an endpoint; without ``lasts``, it stays until it is cleared."""

    fault: EndpointFault
    lasts: str | None = None
    delay: str = "2s"


class ApprovalsPatch(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """New approval settings of a scope; members that are left out keep their value."""

    user_reboot: bool | UnsetType = UNSET
    user_redeploy: bool | UnsetType = UNSET
    all_instances_down: bool | UnsetType = UNSET


class CreateSetRequest(ActorRequest, frozen=True, kw_only=True):
    """A set of machines to create."""

    name: Text
    kind: ScopeKind = ScopeKind.SCALE_SET
    count: Count = 1
    zones: Annotated[list[Zone], Meta(max_length=10)] = []
    roles: Annotated[dict[Text, Count], Meta(max_length=20)] = {}
    names: Names = []
    spot: bool = False
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    terminate_notice: Duration | None = None
    update_domains: Annotated[int, Meta(ge=0, le=1000)] | None = None
    fault_domains: Annotated[int, Meta(ge=1, le=1000)] | None = None
    host: Host | None = None
    broadcast: bool = True
    approvals: ApprovalsPatch = ApprovalsPatch()
    tags: dict[str, str] = {}


class ChangeSetRequest(ActorRequest, frozen=True, kw_only=True):
    """New settings of a set; members that are left out keep their value."""

    terminate_notice: Duration | UnsetType | None = UNSET
    approvals: ApprovalsPatch | UnsetType = UNSET


class AddMachinesRequest(ActorRequest, frozen=True, kw_only=True):
    """The number of machines to add."""

    count: Count = 1


class UpgradeRequest(ActorRequest, frozen=True, kw_only=True):
    """The instances that get the latest model; all of the set if left out."""

    machines: Names | None = None


class CompleteRequest(ActorRequest, frozen=True, kw_only=True):
    """The machines on which the impact of an event is done, all of the event's if left out, and their host.

    Without ``moved_to``, the machines are on the hosts on which they were.
    """

    machines: Names = []
    moved_to: ListedHost | None = None


class FailRequest(ActorRequest, frozen=True, kw_only=True):
    """The machine on which the impact of an event has failed, and why."""

    machine: Text
    reason: Annotated[str, Meta(min_length=1, max_length=200)]


class CauseRequest(ActorRequest, frozen=True, kw_only=True):
    """An event to cause on the machines named, or on all machines of a host."""

    cause: Text
    machines: Names = []
    host: Text | None = None
    notice: Duration | None = None
    kind: EventType | None = None
    force: bool = False


class RolloutRequest(ActorRequest, frozen=True, kw_only=True):
    """Maintenance of a scope, one domain after another."""

    scope: Text
    cause: Text = "host-update"
    notice: Duration | None = None


class AdvanceRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How far to move manual time."""

    by: Duration
    who: By = "operator"


class SpeedRequest(ActorRequest, frozen=True, kw_only=True):
    """The factor by which durations are shortened."""

    speed: Annotated[float, Meta(ge=0.01, le=100_000)]


class HistoryRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The part of the history to return."""

    event: Text | None = None
    after: Seq = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class FeedRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The line after which the feed begins; without it, the feed begins now."""

    after: Seq | None = None


# -- bodies


class MachineBody(Struct, frozen=True, kw_only=True):
    """One machine."""

    name: str
    scope: str
    set: str
    instance: str
    power: PowerState
    state: MachineState
    update_domain: int
    fault_domain: int
    host: str
    spot: bool
    enabled: bool
    polled_at: datetime | None
    latest_model_applied: bool
    fault: EndpointFault | None
    metadata: str | None
    alternatives: list[str]


class MachineDetailBody(MachineBody, frozen=True, kw_only=True):
    """One machine, with the host name that its system has."""

    computer_name: str


class MachinesBody(Struct, frozen=True, kw_only=True):
    """A list of machines."""

    machines: list[MachineBody]


class ApprovalsBody(Struct, frozen=True, kw_only=True):
    """The approval settings of a scope: which events are approved automatically."""

    user_reboot: bool
    user_redeploy: bool
    all_instances_down: bool


class RolloutBody(Struct, frozen=True, kw_only=True):
    """A rollout in progress: its current domain and the domains that remain."""

    id: str
    scope: str
    cause: str
    current: int | None
    remaining: list[int]
    notice: str | None
    by: str
    events: list[str]


class RolloutBegunBody(RolloutBody, frozen=True, kw_only=True):
    """A rollout that was started, and whether guests can see the events of its first domain."""

    warned: bool
    hint: str | None


class RolloutsBody(Struct, frozen=True, kw_only=True):
    """The rollouts in progress."""

    walks: list[RolloutBody]


class ScopeBody(Struct, frozen=True, kw_only=True):
    """The machines that share one document."""

    id: str
    set: str
    kind: ScopeKind
    zone: str
    incarnation: int
    version: int
    enabled: bool
    enabled_at: datetime | None
    polled_at: datetime | None
    machines: list[str]
    events: list[str]
    update_domains: int
    fault_domains: int
    terminate_notice: str | None
    approvals: ApprovalsBody
    walk: RolloutBody | None


class ScopesBody(Struct, frozen=True, kw_only=True):
    """A list of scopes."""

    scopes: list[ScopeBody]


class EventBody(Struct, frozen=True, kw_only=True):
    """One event; the status of an event that is over is Gone."""

    id: str
    scope: str
    cause: str
    type: EventType
    source: EventSource
    status: EventStatus
    resources: list[str]
    #: The machines that have not had the event's impact.
    undone: list[str]
    description: str
    duration: int
    created_at: datetime
    not_before: datetime
    started_at: datetime | None
    approved_by: str | None
    #: What the event waits for before it starts, besides its own approval and notice, as people read it.
    waits_for: str | None
    #: The host that all of its machines are on; None if they are on several.
    host: str | None
    #: The maintenance that the event is part of.
    maintenance: str | None
    #: When the window of the maintenance opens, if it has not, and when it closes.
    opens: datetime | None
    closes: datetime | None
    #: Whether the event is due, and something keeps it from starting.
    blocked: bool
    shown: Annotated[bool, Meta(description="Whether guests of the scope can see the event.")]
    read: Annotated[
        dict[str, datetime],
        Meta(
            description="When each machine first read the event, by its name; without machines that have not."
        ),
    ]
    seen: Annotated[
        bool,
        Meta(
            description="The same as shown, not that a guest has read the event; gone in 0.4.0.",
            extra_json_schema={"deprecated": True},
        ),
    ]
    attempt: int
    retry_at: datetime | None
    overdue: bool
    walk: str | None


class EventsBody(Struct, frozen=True, kw_only=True):
    """The pending events."""

    events: list[EventBody]


class AnnouncedBody(Struct, frozen=True, kw_only=True):
    """The events that a request caused, and whether guests can see them."""

    events: list[EventBody]
    warned: bool
    hint: str | None


class ClockBody(Struct, frozen=True, kw_only=True):
    """The fleet's time, the next deadline, and the time zone in which operators write instants."""

    mode: Literal["real", "manual"]
    now: datetime
    speed: float
    next_deadline: datetime | None
    zone: str


class HistoryLineBody(Struct, frozen=True, kw_only=True):
    """One line of the history."""

    seq: int
    at: datetime
    kind: str
    event: str | None
    type: str
    scope: str
    by: str
    resources: list[str]
    reason: str


class BeginningBody(Struct, frozen=True, kw_only=True):
    """The first line of the complete history; older lines were pruned unless something needs them."""

    seq: int
    at: datetime


class GapBody(Struct, frozen=True, kw_only=True):
    """Lines that were pruned before the reader got them: those after ``after``, up to ``upto``.

    If ``upto`` is less than ``after``, the history ends at ``upto``: a backup was restored since the reader
    read line ``after``, and what follows begins with line ``upto`` + 1.
    """

    after: int
    upto: int


class HistoryBody(Struct, frozen=True, kw_only=True):
    """A page of the history; ``next`` is the ``after`` of the next page, null on the last one.

    ``begins`` is present once lines were pruned, ``gap`` if some of the pruned lines are after ``after``, or
    if ``after`` is beyond the end of the history.
    """

    history: list[HistoryLineBody]
    next: int | None
    begins: BeginningBody | UnsetType = UNSET
    gap: GapBody | UnsetType = UNSET


class CauseBody(Struct, frozen=True, kw_only=True):
    """A cause of an event."""

    name: str
    type: EventType
    source: EventSource
    summary: str


class CausesBody(Struct, frozen=True, kw_only=True):
    """Every cause of an event."""

    causes: list[CauseBody]


class ManagementBody(Struct, frozen=True, kw_only=True):
    """The management API: its address, and the certificate that clients must trust, as file and text."""

    arm: str
    ca: str
    certificate: str
    tenant: str
    subscription: str


class HealthBody(Struct, frozen=True, kw_only=True):
    """The server is alive; ``warnings`` says what is nevertheless wrong."""

    status: Literal["ok"] = "ok"
    warnings: list[str] | UnsetType = UNSET


class ReadyBody(Struct, frozen=True, kw_only=True):
    """The server may be sent traffic; ``inventory`` is the version of the inventory that it has applied."""

    status: Literal["ready"] = "ready"
    inventory: str | UnsetType = UNSET


class NodeBody(Struct, frozen=True, kw_only=True):
    """A server of the fleet, as of its last heartbeat; ``this`` is the one that answers.

    ``position`` is the last line of the journal that the node knows, ``lag`` the number of lines that another
    node knows and this one does not, ``clock_offset`` the seconds by which its clock is ahead of the store's,
    ``inventory`` the version of the inventory that it has applied, empty if it has none, ``reads`` the newest
    release whose data it can read.
    """

    id: str
    name: str
    address: str
    this: bool
    position: int
    lag: int
    clock_offset: float
    release: str
    inventory: str
    reads: str
    seen_at: datetime


class NodesBody(Struct, frozen=True, kw_only=True):
    """The servers of the fleet that are alive.

    ``writes`` is the oldest release that may use the database: its servers can read all that is written.
    """

    nodes: list[NodeBody]
    writes: str


class ReasonBody(Struct, frozen=True, kw_only=True):
    """Why a server should not be sent traffic."""

    reason: NotReadyReason
    detail: str


class ProblemBody(Struct, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457).

    ``field`` is the path of the invalid member; ``reasons`` says why a server is not ready.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET
    reasons: list[ReasonBody] | UnsetType = UNSET
