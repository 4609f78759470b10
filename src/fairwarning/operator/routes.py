"""Everything the operator API offers, one row each; the OpenAPI document is made from the same rows."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.core.document.render import compact_json
from fairwarning.formats.prometheus import MEDIA_TYPE
from fairwarning.operator import clock, events, faults, fleet, history, metrics, openapi, rollouts, schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.route import OperatorRoute, read, route, silent
from fairwarning.streams import EVENT_STREAM

_V1 = "/fleet/v1"
_MACHINE = f"{_V1}/machines/{{name:path}}"
_SCOPE = f"{_V1}/scopes/{{name:path}}"
_EVENT = f"{_V1}/events/{{id}}"


async def _health(desk: OperatorContext, name: str, asked: schemas.Nothing) -> schemas.HealthBody:
    await desk.engine.check_health()
    return schemas.HealthBody()


async def _feed(desk: OperatorContext, request: Request) -> ASGIApp:
    return await history.feed(desk, request, await read(request, schemas.FeedStart))


async def _metrics(desk: OperatorContext, request: Request) -> ASGIApp:
    await read(request, schemas.Nothing)
    return Response(await metrics.text(desk), media_type=MEDIA_TYPE)


async def _openapi(desk: OperatorContext, request: Request) -> ASGIApp:
    await read(request, schemas.Nothing)
    return Response(compact_json(openapi.document(ROUTES)), media_type="application/json")


_Nothing, _Asker, _Removal = schemas.Nothing, schemas.Asker, schemas.Removal
_Machines, _Scopes, _Event, _Announced = (
    schemas.MachinesBody,
    schemas.ScopesBody,
    schemas.EventBody,
    schemas.AnnouncedBody,
)
_Clock = schemas.ClockBody

ROUTES: tuple[OperatorRoute, ...] = (
    route("GET", f"{_V1}/machines", "every machine", fleet.machines, _Nothing, _Machines),
    # Before the machine itself: its name may have slashes in it.
    route(
        "PUT",
        f"{_MACHINE}/power",
        "start or stop a machine",
        fleet.set_power,
        schemas.PowerWanted,
        schemas.MachineBody,
    ),
    route(
        "PUT",
        f"{_MACHINE}/fault",
        "let a machine's endpoint misbehave",
        faults.put,
        schemas.FaultWanted,
        schemas.MachineBody,
    ),
    route(
        "DELETE",
        f"{_MACHINE}/fault",
        "let a machine's endpoint work again",
        faults.heal,
        _Asker,
        schemas.MachineBody,
    ),
    route("GET", _MACHINE, "one machine", fleet.machine, _Nothing, schemas.MachineBody),
    route("DELETE", _MACHINE, "delete a machine", events.delete_machine, _Removal, _Announced, 202),
    route("GET", f"{_V1}/scopes", "every scope", fleet.scopes, _Nothing, _Scopes),
    route("POST", f"{_V1}/scopes", "bring up a set", fleet.make, schemas.ScopeWanted, _Scopes, 201),
    route(
        "POST", f"{_SCOPE}/machines", "add machines to a scope", fleet.grow, schemas.Growth, _Machines, 201
    ),
    route(
        "POST",
        f"{_SCOPE}/upgrade",
        "bring instances to the latest model of their set",
        fleet.upgrade,
        schemas.UpgradeWanted,
        _Machines,
    ),
    route("GET", _SCOPE, "one scope", fleet.scope, _Nothing, schemas.ScopeBody),
    route("PATCH", _SCOPE, "change a set", fleet.change, schemas.ScopeChange, _Scopes),
    route("DELETE", _SCOPE, "delete a set", events.delete_set, _Removal, _Announced, 202),
    route("GET", f"{_V1}/events", "the pending events", events.events, _Nothing, schemas.EventsBody),
    route(
        "POST",
        f"{_V1}/events",
        "do something to machines",
        events.cause,
        schemas.EventWanted,
        _Announced,
        201,
    ),
    route("GET", _EVENT, "one pending event", events.event, _Nothing, _Event),
    route("POST", f"{_EVENT}/approve", "let an event start early", events.approve, _Asker, _Event),
    route("POST", f"{_EVENT}/cancel", "withdraw an event", events.cancel, _Asker, _Event),
    route(
        "GET", f"{_V1}/causes", "what can be done to machines", events.causes, _Nothing, schemas.CausesBody
    ),
    route("GET", f"{_V1}/walks", "the walks under way", rollouts.walks, _Nothing, schemas.RolloutsBody),
    route(
        "POST",
        f"{_V1}/walks",
        "take maintenance through a scope",
        rollouts.start,
        schemas.RolloutWanted,
        schemas.RolloutBegunBody,
        201,
    ),
    silent("DELETE", f"{_V1}/walks/{{scope:path}}", "end a walk", rollouts.stop, _Asker),
    route("GET", f"{_V1}/clock", "what time it is", clock.clock, _Nothing, _Clock),
    route("POST", f"{_V1}/clock/advance", "move manual time on", clock.advance, schemas.Advance, _Clock),
    route(
        "POST",
        f"{_V1}/clock/next",
        "move manual time to the next deadline",
        clock.next_deadline,
        _Asker,
        _Clock,
    ),
    route(
        "PUT", f"{_V1}/clock/speed", "let durations pass faster", clock.set_speed, schemas.SpeedWanted, _Clock
    ),
    route(
        "GET",
        f"{_V1}/arm",
        "where the management face is",
        fleet.management,
        _Nothing,
        schemas.ManagementBody,
    ),
    route(
        "GET",
        f"{_V1}/history",
        "who did what, and when",
        history.history,
        schemas.HistoryPage,
        schemas.HistoryBody,
    ),
    OperatorRoute(
        method="GET",
        path=f"{_V1}/feed",
        summary="the history, live",
        asked=schemas.FeedStart,
        serve=_feed,
        media_type=EVENT_STREAM,
        headers=(history.RESUME,),
    ),
    OperatorRoute(
        method="GET", path=f"{_V1}/openapi.json", summary="this document", asked=_Nothing, serve=_openapi
    ),
    OperatorRoute(
        method="GET",
        path="/metrics",
        summary="what is counted, as Prometheus reads it",
        asked=_Nothing,
        serve=_metrics,
        media_type=MEDIA_TYPE,
    ),
    route(
        "GET",
        "/healthz",
        "whether the server answers and keeps changes",
        _health,
        _Nothing,
        schemas.HealthBody,
    ),
)
