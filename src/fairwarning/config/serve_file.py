"""The file of ``fairwarning serve``: one type per table. The JSON schema is generated from these types."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fairwarning.core.document.render import Json

Listen = Annotated[str, Meta(description="address and port", examples=["127.0.0.1:8080", "[::1]:8080"])]
Duration = Annotated[str, Meta(description="a duration", examples=["30s", "15m", "30d"])]
Size = Annotated[str, Meta(description="a number of bytes", examples=["500MB", "1GB"])]
Count = Annotated[int, Meta(ge=1)]
Domain = Annotated[int, Meta(ge=0, le=99)]
Name = Annotated[str, Meta(min_length=1, max_length=63)]


class _Table(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file; unknown keys are an error."""


class NodeTable(_Table, frozen=True, kw_only=True):
    """This node, among the nodes that share a store."""

    name: Annotated[str, Meta(description="the name of this node; by default the name of the host")] = ""


class SqliteTable(_Table, tag_field="kind", tag="sqlite", frozen=True, kw_only=True):
    """One node with its data in a directory."""

    path: Annotated[str, Meta(description="the directory of the data; it is created if it is missing")]


class PostgresTable(_Table, tag_field="kind", tag="postgres", frozen=True, kw_only=True):
    """One or more nodes on a PostgreSQL database."""

    dsn: Annotated[str, Meta(description="the database, as a URI or as key=value, without a password")] = ""
    dsn_file: Annotated[str, Meta(description="a file with the DSN, which only its owner may read")] = ""
    migrate: Annotated[
        bool, Meta(description="whether a start brings an older schema of the database up to date")
    ] = False
    stale_after: Annotated[
        str,
        Meta(description="how long guests are answered without news from the database", examples=["10s"]),
    ] = "10s"


class OperatorTable(_Table, frozen=True, kw_only=True):
    """The operator API and the console."""

    listen: Listen = "127.0.0.1:8080"
    token_file: Annotated[str, Meta(description="a file with the token; required off loopback")] = ""
    plain_http: Annotated[bool, Meta(description="serve without TLS, also off loopback")] = False


class ManagementTable(_Table, frozen=True, kw_only=True):
    """The management API for az and the Azure SDKs, always with TLS; without this table there is none."""

    listen: Listen = "127.0.0.1:8443"
    token_file: Annotated[
        str, Meta(description="a file with the secret of clients; required off loopback")
    ] = ""


class TlsTable(_Table, frozen=True, kw_only=True):
    """Certificates of the operator and the management API: own files, or a generated authority."""

    certificate: Annotated[str, Meta(description="a file with the chain of certificates, in PEM")] = ""
    key: Annotated[str, Meta(description="a file with the key, which only its owner may read")] = ""
    directory: Annotated[
        str, Meta(description="where a generated authority is kept; nodes may share a copy")
    ] = ""
    names: Annotated[
        list[str], Meta(description="further names and addresses for the generated certificate")
    ] = []


class MetadataTable(_Table, frozen=True, kw_only=True):
    """The metadata API, which guests poll; without this table there is none."""

    listen: Annotated[
        list[Listen],
        Meta(description="listeners that all guests share; a guest is known by its source address"),
    ] = []
    sockets: Annotated[str, Meta(description="a directory with a Unix socket for each machine")] = ""
    requests_per_second: Annotated[
        float, Meta(gt=0, description="requests of a guest above this rate are answered with 429")
    ] = 5.0
    burst: Annotated[float, Meta(ge=1, description="requests that a guest may send at once")] = 5.0
    identity_tokens: Annotated[
        bool, Meta(description="give guests tokens for the management API (managed identity)")
    ] = False


class RetentionTable(_Table, frozen=True, kw_only=True):
    """How much history is kept; an empty text means no limit."""

    age: Duration = "30d"
    size: Size = "1GB"


Limit = Annotated[str, Meta(description="the same for this cause, if it differs", examples=["2h"])]


class OverdueTable(_Table, rename="kebab", frozen=True, kw_only=True):
    """How long the impact of an event may take until it is overdue, by the cause of the event."""

    default: Annotated[
        str, Meta(description="without a report for this long, an impact is overdue", examples=["90m"])
    ] = "1h"
    restart: Limit = ""
    redeploy: Limit = ""
    reimage: Limit = ""
    freeze: Limit = ""
    live_migrate: Limit = ""
    host_update: Limit = ""
    host_reboot: Limit = ""
    cancelled_maintenance: Limit = ""
    hardware_failure: Limit = ""
    platform_redeploy: Limit = ""
    predicted_failure: Limit = ""
    evict: Limit = ""
    rebalance: Limit = ""
    delete: Limit = ""


class LimitsTable(_Table, frozen=True, kw_only=True):
    """Limits of the operator and the management API."""

    connections: Annotated[Count, Meta(description="connections of each API")] = 1000
    streams: Annotated[Count, Meta(description="live feeds and console pages")] = 250
    request_size: Annotated[str, Meta(description="the largest request", examples=["8MB"])] = "8MB"
    head_timeout: Annotated[str, Meta(description="time for the head of a request")] = "10s"
    body_timeout: Annotated[str, Meta(description="time for the body of a request")] = "60s"
    unread_timeout: Annotated[str, Meta(description="how long a response waits for its reader")] = "30s"
    stop_timeout: Annotated[
        str, Meta(description="how long requests under way may take when the server ends")
    ] = "10s"


class WorkersTable(_Table, frozen=True, kw_only=True):
    """The supervisor of ``serve --workers``."""

    status: Annotated[
        Listen,
        Meta(
            description="where the supervisor answers /healthz and /readyz of all workers, and /metrics, "
            "which needs the operator's token if there is one"
        ),
    ] = "127.0.0.1:9464"
    plain_http: Annotated[
        bool, Meta(description="answer off loopback, too; this needs a token in [operator]")
    ] = False


class LogTable(_Table, frozen=True, kw_only=True):
    """The log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class InventoryTable(_Table, frozen=True, kw_only=True):
    """Machines that are listed in another file, the version of the list, and how the fleet follows it."""

    file: Annotated[
        str, Meta(description="a CSV file; its columns are keys of [[machine]], named in the first line")
    ] = ""
    version: Annotated[
        int,
        Meta(ge=0, description="increase it with every change of the list; 0: the version is a hash"),
    ] = 0
    replaces: Annotated[
        str, Meta(description="the version of the fleet's inventory that this older one replaces on purpose")
    ] = ""
    remove_most: Annotated[
        bool, Meta(description="accept a list that lacks more than half of the machines of the fleet")
    ] = False


class SetTable(_Table, omit_defaults=True, frozen=True, kw_only=True):
    """A set of machines that share one document; its machines name it with ``set``."""

    name: Name
    kind: Literal["availability-set", "scale-set", "flexible-scale-set"] = "availability-set"
    group: Annotated[str, Meta(description="the resource group that the management API shows")] = ""
    count: Annotated[
        int, Meta(ge=0, le=1000, description="machines to number instead of listing them; for a rehearsal")
    ] = 0
    update_domains: Annotated[int, Meta(ge=0, le=100)] | None = None
    fault_domains: Annotated[int, Meta(ge=1, le=100)] | None = None
    broadcast: Annotated[bool, Meta(description="whether all machines of the set see its events")] = True
    terminate_notice: Annotated[
        str, Meta(description="notice before a machine is deleted", examples=["5m"])
    ] = ""


class BudgetTable(_Table, omit_defaults=True, frozen=True, kw_only=True):
    """How many machines of a group may be down at once; a group is a scope, or the machines with one tag."""

    each: Annotated[
        str, Meta(min_length=1, description="scope, or the name of a tag", examples=["scope", "db"])
    ]
    most: Annotated[Count, Meta(description="machines of each group that may be down at once")]
    group: Annotated[
        str, Meta(description="the one group that this budget is for: a scope, or a value of the tag")
    ] = ""


class HostTable(_Table, omit_defaults=True, frozen=True, kw_only=True):
    """What is known of a physical host besides its machines."""

    name: Annotated[str, Meta(min_length=1, description="the host, as machines name it")]
    labels: Annotated[
        dict[str, str], Meta(description="by what operators select hosts", examples=[{"rack": "B"}])
    ] = {}


class MachineEntry(_Table, omit_defaults=True, frozen=True, kw_only=True):
    """A machine; without ``set`` it is standalone."""

    name: Annotated[Name, Meta(description="the name that events use")]
    address: Annotated[
        str | list[str], Meta(description="source addresses by which metadata listeners know the guest")
    ] = []
    set: Annotated[str, Meta(description="the set that the machine belongs to")] = ""
    group: Annotated[str, Meta(description="the resource group of a standalone machine")] = ""
    zone: Annotated[str, Meta(description="the zone; the machines of each zone share a document")] = ""
    host: Annotated[str, Meta(description="the physical host; by default the machine has its own")] = ""
    update_domain: Annotated[
        Domain | None,
        Meta(description="machines of one domain are maintained together; by default that of the host"),
    ] = None
    fault_domain: Domain | None = None
    size: str = ""
    location: str = ""
    spot: bool = False
    eviction: Literal["Deallocate", "Delete"] = "Deallocate"
    terminate_notice: Annotated[
        str, Meta(description="of a standalone machine: notice before it is deleted")
    ] = ""
    vm_id: Annotated[str, Meta(description="the machine's id; derived from its name by default")] = ""
    tags: dict[str, str] = {}


StoreTable: TypeAlias = SqliteTable | PostgresTable


class ServeFile(_Table, frozen=True, kw_only=True):
    """The file of ``fairwarning serve``."""

    driver: Annotated[
        Literal["external", "simulated"],
        Meta(description="what acts on machines: your own tools, or nothing (a rehearsal)"),
    ] = "external"
    zone: Annotated[
        str,
        Meta(description="the time zone in which operators write instants", examples=["Europe/Berlin"]),
    ] = "UTC"
    store: StoreTable
    node: NodeTable = NodeTable()
    operator: OperatorTable = OperatorTable()
    management: ManagementTable | None = None
    tls: TlsTable | None = None
    metadata: MetadataTable | None = None
    retention: RetentionTable = RetentionTable()
    overdue: OverdueTable = OverdueTable()
    limits: LimitsTable = LimitsTable()
    workers: WorkersTable = WorkersTable()
    log: LogTable = LogTable()
    inventory: InventoryTable = InventoryTable()
    budget: list[BudgetTable] = []
    host: list[HostTable] = []
    set: list[SetTable] = []
    machine: list[MachineEntry] = []


def schema() -> dict[str, Json]:
    """Return the JSON schema of the file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The file of fairwarning serve",
        **msgspec.json.schema(ServeFile),
    }
