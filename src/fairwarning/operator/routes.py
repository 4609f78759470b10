"""All routes of the operator API, one row each; the OpenAPI document is generated from the same rows."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.core.document.render import compact_json
from fairwarning.formats.prometheus import MEDIA_TYPE
from fairwarning.operator import (
    clock,
    events,
    fleet,
    history,
    maintenance_schemas,
    maintenances,
    metrics,
    nodes,
    openapi,
    rollouts,
    schemas,
)
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.route import OperatorRoute, decode, route, route_without_body
from fairwarning.streams import EVENT_STREAM

_V1 = "/fleet/v1"
_MACHINE = f"{_V1}/machines/{{name:path}}"
_SCOPE = f"{_V1}/scopes/{{name:path}}"
_EVENT = f"{_V1}/events/{{id}}"


async def _feed(context: OperatorContext, request: Request) -> ASGIApp:
    return await history.feed(context, request, await decode(request, schemas.FeedRequest))


async def _metrics(context: OperatorContext, request: Request) -> ASGIApp:
    await decode(request, schemas.EmptyRequest)
    return Response(await metrics.metrics_text(context), media_type=MEDIA_TYPE)


async def _openapi(context: OperatorContext, request: Request) -> ASGIApp:
    await decode(request, schemas.EmptyRequest)
    routes = [operation for operation in ROUTES if operation.is_offered(context.engine.policy)]
    return Response(compact_json(openapi.document(routes)), media_type="application/json")


_Empty, _Actor, _Delete = schemas.EmptyRequest, schemas.ActorRequest, schemas.DeleteRequest
_Machine, _Machines, _Scopes, _Event, _Announced, _Clock = (
    schemas.MachineBody,
    schemas.MachinesBody,
    schemas.ScopesBody,
    schemas.EventBody,
    schemas.AnnouncedBody,
    schemas.ClockBody,
)


def _rollout_routes(path: str, *, deprecated: bool = False) -> tuple[OperatorRoute, ...]:
    return (
        route(
            "GET",
            path,
            "the rollouts in progress",
            rollouts.rollouts,
            _Empty,
            schemas.RolloutsBody,
            deprecated=deprecated,
        ),
        route(
            "POST",
            path,
            "start maintenance of a scope, domain by domain",
            rollouts.start,
            schemas.RolloutRequest,
            schemas.RolloutBegunBody,
            201,
            deprecated=deprecated,
        ),
        route_without_body(
            "DELETE", f"{path}/{{scope:path}}", "stop a rollout", rollouts.stop, _Actor, deprecated=deprecated
        ),
    )


_HOST = f"{_V1}/hosts/{{name}}"
_MAINTENANCE_ROUTES = (
    route(
        "GET",
        f"{_V1}/maintenances",
        "the maintenances of hosts and of batches of machines",
        maintenances.maintenances,
        maintenance_schemas.MaintenancesRequest,
        maintenance_schemas.MaintenancesBody,
    ),
    route(
        "POST",
        f"{_V1}/maintenances",
        "announce a maintenance of a host or of machines",
        maintenances.announce,
        maintenance_schemas.MaintenanceRequest,
        maintenance_schemas.MaintenanceBody,
        201,
    ),
    route(
        "GET",
        f"{_V1}/maintenances/{{id}}",
        "one maintenance, over or not",
        maintenances.maintenance,
        _Empty,
        maintenance_schemas.MaintenanceBody,
    ),
    route(
        "GET",
        f"{_V1}/hosts",
        "the hosts with a label, or all hosts",
        maintenances.hosts,
        maintenance_schemas.HostsRequest,
        maintenance_schemas.HostsBody,
    ),
    route("GET", _HOST, "one host", maintenances.host, _Empty, maintenance_schemas.HostBody),
    route(
        "POST",
        f"{_HOST}/complete",
        "report all that has started on a host as done",
        maintenances.complete_host,
        maintenance_schemas.CompleteHostRequest,
        schemas.EventsBody,
    ),
    route(
        "POST",
        f"{_HOST}/cancel",
        "cancel what is scheduled for a host",
        maintenances.cancel_host,
        _Actor,
        schemas.EventsBody,
    ),
    route(
        "POST",
        f"{_HOST}/postpone",
        "give what is scheduled for a host a later NotBefore",
        maintenances.postpone,
        maintenance_schemas.PostponeRequest,
        schemas.EventsBody,
    ),
    route(
        "PUT",
        f"{_HOST}/hold",
        "let nothing of the platform start on a host",
        maintenances.hold_host,
        maintenance_schemas.HoldRequest,
        maintenance_schemas.HoldBody,
    ),
    route_without_body("DELETE", f"{_HOST}/hold", "end the hold on a host", maintenances.unhold_host, _Actor),
    route(
        "GET",
        f"{_V1}/hold",
        "whether the fleet is on hold",
        maintenances.hold_of_fleet,
        _Empty,
        maintenance_schemas.HoldBody,
    ),
    route(
        "PUT",
        f"{_V1}/hold",
        "let nothing of the platform start in the fleet",
        maintenances.hold_fleet,
        maintenance_schemas.HoldRequest,
        maintenance_schemas.HoldBody,
    ),
    route_without_body(
        "DELETE", f"{_V1}/hold", "end the hold on the fleet", maintenances.unhold_fleet, _Actor
    ),
)

ROUTES: tuple[OperatorRoute, ...] = (
    route("GET", f"{_V1}/machines", "all machines", fleet.machines, _Empty, _Machines),
    # These come before the machine itself, because a machine's name may contain slashes.
    route(
        "PUT", f"{_MACHINE}/power", "start or stop a machine", fleet.set_power, schemas.PowerRequest, _Machine
    ),
    route(
        "PUT",
        f"{_MACHINE}/fault",
        "make a machine's endpoint misbehave",
        fleet.set_fault,
        schemas.FaultRequest,
        _Machine,
        emulator=True,
    ),
    route(
        "DELETE",
        f"{_MACHINE}/fault",
        "make a machine's endpoint work again",
        fleet.clear_fault,
        _Actor,
        _Machine,
        emulator=True,
    ),
    route("GET", _MACHINE, "one machine", fleet.machine, _Empty, schemas.MachineDetailBody),
    route(
        "PATCH",
        _MACHINE,
        "report that a machine is on another host",
        fleet.move,
        schemas.MoveRequest,
        _Machine,
    ),
    route("DELETE", _MACHINE, "delete a machine", events.delete_machine, _Delete, _Announced, 202),
    route("GET", f"{_V1}/scopes", "all scopes", fleet.scopes, _Empty, _Scopes),
    route("POST", f"{_V1}/scopes", "create a set", fleet.create_set, schemas.CreateSetRequest, _Scopes, 201),
    route(
        "POST",
        f"{_SCOPE}/machines",
        "add machines to a scope",
        fleet.add_machines,
        schemas.AddMachinesRequest,
        _Machines,
        201,
    ),
    route(
        "POST",
        f"{_SCOPE}/upgrade",
        "apply the latest model of a set to its instances",
        fleet.upgrade,
        schemas.UpgradeRequest,
        _Machines,
    ),
    route("GET", _SCOPE, "one scope", fleet.scope, _Empty, schemas.ScopeBody),
    route("PATCH", _SCOPE, "change a set", fleet.change_set, schemas.ChangeSetRequest, _Scopes),
    route("DELETE", _SCOPE, "delete a set", events.delete_set, _Delete, _Announced, 202),
    route("GET", f"{_V1}/events", "the pending events", events.events, _Empty, schemas.EventsBody),
    route(
        "POST",
        f"{_V1}/events",
        "cause an event on machines",
        events.cause,
        schemas.CauseRequest,
        _Announced,
        201,
    ),
    route("GET", _EVENT, "one pending event", events.event, _Empty, _Event),
    route("POST", f"{_EVENT}/approve", "approve an event", events.approve, _Actor, _Event),
    route("POST", f"{_EVENT}/cancel", "cancel an event", events.cancel, _Actor, _Event),
    route(
        "POST",
        f"{_EVENT}/complete",
        "report the impact of an event as done",
        events.complete,
        schemas.CompleteRequest,
        _Event,
    ),
    route(
        "POST",
        f"{_EVENT}/fail",
        "report the impact of an event on a machine as failed",
        events.fail,
        schemas.FailRequest,
        _Event,
    ),
    route(
        "POST",
        f"{_EVENT}/postpone",
        "give an event, and those behind its barrier, a later NotBefore",
        maintenances.postpone,
        maintenance_schemas.PostponeRequest,
        schemas.EventsBody,
    ),
    *_MAINTENANCE_ROUTES,
    route("GET", f"{_V1}/causes", "the causes of events", events.causes, _Empty, schemas.CausesBody),
    *_rollout_routes(f"{_V1}/rollouts"),
    *_rollout_routes(f"{_V1}/walks", deprecated=True),
    route("GET", f"{_V1}/clock", "the fleet's time", clock.clock, _Empty, _Clock),
    route(
        "POST",
        f"{_V1}/clock/advance",
        "move manual time forward",
        clock.advance,
        schemas.AdvanceRequest,
        _Clock,
        emulator=True,
    ),
    route(
        "POST",
        f"{_V1}/clock/next",
        "move manual time to the next deadline",
        clock.next_deadline,
        _Actor,
        _Clock,
        emulator=True,
    ),
    route(
        "PUT",
        f"{_V1}/clock/speed",
        "change how fast durations pass",
        clock.set_speed,
        schemas.SpeedRequest,
        _Clock,
        emulator=True,
    ),
    route(
        "GET",
        f"{_V1}/arm",
        "the address of the management API",
        fleet.management,
        _Empty,
        schemas.ManagementBody,
    ),
    route(
        "GET",
        f"{_V1}/history",
        "who did what, and when",
        history.history,
        schemas.HistoryRequest,
        schemas.HistoryBody,
    ),
    OperatorRoute(
        method="GET",
        path=f"{_V1}/feed",
        summary="the history, live",
        request_type=schemas.FeedRequest,
        serve=_feed,
        media_type=EVENT_STREAM,
        headers=(history.RESUME_HEADER,),
    ),
    route("GET", f"{_V1}/nodes", "the servers of the fleet", nodes.nodes, _Empty, schemas.NodesBody),
    OperatorRoute(
        method="GET",
        path=f"{_V1}/openapi.json",
        summary="this document",
        request_type=_Empty,
        serve=_openapi,
    ),
    OperatorRoute(
        method="GET",
        path="/metrics",
        summary="metrics in Prometheus' text format",
        request_type=_Empty,
        serve=_metrics,
        media_type=MEDIA_TYPE,
    ),
    route(
        "GET",
        "/healthz",
        "whether the server is alive",
        nodes.health,
        _Empty,
        schemas.HealthBody,
    ),
    route(
        "GET",
        "/readyz",
        "whether the server may be sent traffic",
        nodes.readiness,
        _Empty,
        schemas.ReadyBody,
    ),
)

#: The routes about the process itself, which a supervisor asks.
SERVICE_ROUTES = tuple(operation for operation in ROUTES if not operation.path.startswith(f"{_V1}/"))
