"""The bodies of the operator API, as types: what may be asked, and what is answered.

What is asked refuses members it does not know. The OpenAPI document calls these types by the same names.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.core.fleet import MachineState
from fairwarning.core.inputs import check_visible
from fairwarning.core.model import EventSource, EventStatus, EventType, EvictionPolicy, PowerState, ScopeKind
from fairwarning.formats.hidden_characters import HIDDEN_CLASS

# Python's $ also matches before a last line break, and JSON Schema has no \Z.
_END = r"(?![\s\S])"

#: How whoever asks here is called in the history, and what goes before the name they give.
OPERATOR = "operator"
#: Who asks: it ends up on terminals, so nothing in it may steer one; ``recorded`` refuses what would.
By = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        extra_json_schema={"pattern": rf"^[^{HIDDEN_CLASS}]+{_END}"},
        description="who asks; recorded as operator:NAME, so that nobody can pass for a guest",
    ),
]
Text = Annotated[str, Meta(max_length=200)]
Duration = Annotated[str, Meta(max_length=40, description="30s, 15m, 1h30m, 2d, or ISO 8601: PT5M")]
Host = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}(~[0-9]{{1,9}})?{_END}")]
Zone = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9]{{1,16}}{_END}")]
Names = Annotated[list[Text], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]


def recorded(name: str, field: str = "by") -> str:
    """Return what an asker is called in the history: no machine has a name with a colon in it.

    Raises:
        Invalid: the name has a character in it that cannot be seen.
    """
    check_visible(name, field)
    return name if name == OPERATOR or name.startswith(f"{OPERATOR}:") else f"{OPERATOR}:{name}"


# -- what is asked


class Nothing(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Nothing needs to be said."""


class Asker(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Who asks."""

    by: By = OPERATOR

    @property
    def who(self) -> str:
        """The name that is recorded."""
        return recorded(self.by)


class Removal(Asker, frozen=True, kw_only=True):
    """How to delete: with force, the notice is skipped."""

    force: bool = False


class PowerWanted(Asker, frozen=True, kw_only=True):
    """Whether a machine is to run."""

    power: PowerState


class FaultWanted(Asker, frozen=True, kw_only=True):
    """How an endpoint is to misbehave: for how long (until it is healed, if left out), and how slowly."""

    fault: EndpointFault
    lasts: str | None = None
    delay: str = "2s"


class ApprovalsWanted(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a scope is to approve by itself; what is left out stays as it is."""

    user_reboot: bool | UnsetType = UNSET
    user_redeploy: bool | UnsetType = UNSET
    all_instances_down: bool | UnsetType = UNSET


class ScopeWanted(Asker, frozen=True, kw_only=True):
    """A set of machines to bring up."""

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
    approvals: ApprovalsWanted = ApprovalsWanted()
    tags: dict[str, str] = {}


class ScopeChange(Asker, frozen=True, kw_only=True):
    """What is to change about a set; what is left out stays as it is."""

    terminate_notice: Duration | UnsetType | None = UNSET
    approvals: ApprovalsWanted | UnsetType = UNSET


class Growth(Asker, frozen=True, kw_only=True):
    """How many machines are to be added."""

    count: Count = 1


class UpgradeWanted(Asker, frozen=True, kw_only=True):
    """Which instances are to be brought to the latest model; all unless named."""

    machines: Names | None = None


class EventWanted(Asker, frozen=True, kw_only=True):
    """Something to do to machines, by name or all those of a host."""

    cause: Text
    machines: Names = []
    host: Text | None = None
    notice: Duration | None = None
    kind: EventType | None = None
    force: bool = False


class RolloutWanted(Asker, frozen=True, kw_only=True):
    """Maintenance to take through a scope, domain by domain."""

    scope: Text
    cause: Text = "host-update"
    notice: Duration | None = None


class Advance(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How far to move manual time, and who asks."""

    by: Duration
    who: By = OPERATOR


class SpeedWanted(Asker, frozen=True, kw_only=True):
    """How many times faster than announced durations are to pass."""

    speed: Annotated[float, Meta(ge=0.01, le=100_000)]


class HistoryPage(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which part of the history is asked for."""

    event: Text | None = None
    after: Seq = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class FeedStart(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The line after which the feed is to begin; now unless given."""

    after: Seq | None = None


# -- what is answered


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


class MachinesBody(Struct, frozen=True, kw_only=True):
    """Some machines."""

    machines: list[MachineBody]


class ApprovalsBody(Struct, frozen=True, kw_only=True):
    """What a scope approves by itself."""

    user_reboot: bool
    user_redeploy: bool
    all_instances_down: bool


class RolloutBody(Struct, frozen=True, kw_only=True):
    """Maintenance under way: the domain it is at, and those it has yet to visit."""

    id: str
    scope: str
    cause: str
    current: int | None
    remaining: list[int]
    notice: str | None
    by: str
    events: list[str]


class RolloutBegunBody(RolloutBody, frozen=True, kw_only=True):
    """A walk that was started, and whether anybody was there to be warned of its first domain."""

    warned: bool
    hint: str | None


class RolloutsBody(Struct, frozen=True, kw_only=True):
    """The walks under way."""

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
    """Some scopes."""

    scopes: list[ScopeBody]


class EventBody(Struct, frozen=True, kw_only=True):
    """One announced impact; what is over is Gone."""

    id: str
    scope: str
    cause: str
    type: EventType
    source: EventSource
    status: EventStatus
    resources: list[str]
    description: str
    duration: int
    created_at: datetime
    not_before: datetime
    started_at: datetime | None
    approved_by: str | None
    seen: bool
    attempt: int
    retry_at: datetime | None
    walk: str | None


class EventsBody(Struct, frozen=True, kw_only=True):
    """The pending events."""

    events: list[EventBody]


class AnnouncedBody(Struct, frozen=True, kw_only=True):
    """What a request led to, and whether anybody was there to be warned."""

    events: list[EventBody]
    warned: bool
    hint: str | None


class ClockBody(Struct, frozen=True, kw_only=True):
    """What time it is for the fleet, and when it will next change anything."""

    mode: Literal["real", "manual"]
    now: datetime
    speed: float
    next_deadline: datetime | None


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
    """The line from which on the history is complete; older ones were pruned unless something needs them."""

    seq: int
    at: datetime


class GapBody(Struct, frozen=True, kw_only=True):
    """Lines that a reader has not seen and that may be missing: those behind ``after``, up to ``upto``."""

    after: int
    upto: int


class HistoryBody(Struct, frozen=True, kw_only=True):
    """A page of the history; ``next`` continues it, null when there is no more.

    ``begins`` is there once lines were pruned, ``gap`` if some of those are behind ``after``.
    """

    history: list[HistoryLineBody]
    next: int | None
    begins: BeginningBody | UnsetType = UNSET
    gap: GapBody | UnsetType = UNSET


class CauseBody(Struct, frozen=True, kw_only=True):
    """Something that can be done to a machine."""

    name: str
    type: EventType
    source: EventSource
    summary: str


class CausesBody(Struct, frozen=True, kw_only=True):
    """Everything that can be done to a machine."""

    causes: list[CauseBody]


class ManagementBody(Struct, frozen=True, kw_only=True):
    """The management face: its address, and the certificate that clients are to trust, as file and text."""

    arm: str
    ca: str
    certificate: str
    tenant: str
    subscription: str


class HealthBody(Struct, frozen=True, kw_only=True):
    """The server answers, and keeps what it is told."""

    status: Literal["ok"] = "ok"


class ProblemBody(Struct, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457); ``field`` is the path of the member at fault."""

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET
