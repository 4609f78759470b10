"""Everything the operator API offers, one row each; the OpenAPI document is made from the same rows."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.core.document.render import compact
from fairwarning.formats.prometheus import MEDIA_TYPE
from fairwarning.operator import clock, events, faults, fleet, history, metrics, openapi, shapes, walks
from fairwarning.operator.desk import Desk
from fairwarning.operator.route import Route, read, route, silent
from fairwarning.streams import EVENT_STREAM

_V1 = "/fleet/v1"
_MACHINE = f"{_V1}/machines/{{name:path}}"
_SCOPE = f"{_V1}/scopes/{{name:path}}"
_EVENT = f"{_V1}/events/{{id}}"


async def _health(desk: Desk, name: str, asked: shapes.Nothing) -> shapes.Health:
    await desk.engine.check_health()
    return shapes.Health()


async def _feed(desk: Desk, request: Request) -> ASGIApp:
    return await history.feed(desk, request, await read(request, shapes.FeedStart))


async def _metrics(desk: Desk, request: Request) -> ASGIApp:
    await read(request, shapes.Nothing)
    return Response(await metrics.text(desk), media_type=MEDIA_TYPE)


async def _openapi(desk: Desk, request: Request) -> ASGIApp:
    await read(request, shapes.Nothing)
    return Response(compact(openapi.document(ROUTES)), media_type="application/json")


_Nothing, _Asker, _Removal = shapes.Nothing, shapes.Asker, shapes.Removal
_Machines, _Scopes, _Event, _Announced = shapes.Machines, shapes.Scopes, shapes.Event, shapes.Announced
_Clock = shapes.Clock

ROUTES: tuple[Route, ...] = (
    route("GET", f"{_V1}/machines", "every machine", fleet.machines, _Nothing, _Machines),
    # Before the machine itself: its name may have slashes in it.
    route("PUT", f"{_MACHINE}/power", "start or stop a machine", fleet.set_power, shapes.PowerWanted,
          shapes.Machine),
    route("PUT", f"{_MACHINE}/fault", "let a machine's endpoint misbehave", faults.put, shapes.FaultWanted,
          shapes.Machine),
    route("DELETE", f"{_MACHINE}/fault", "let a machine's endpoint work again", faults.heal, _Asker,
          shapes.Machine),
    route("GET", _MACHINE, "one machine", fleet.machine, _Nothing, shapes.Machine),
    route("DELETE", _MACHINE, "delete a machine", events.delete_machine, _Removal, _Announced, 202),
    route("GET", f"{_V1}/scopes", "every scope", fleet.scopes, _Nothing, _Scopes),
    route("POST", f"{_V1}/scopes", "bring up a set", fleet.make, shapes.ScopeWanted, _Scopes, 201),
    route("POST", f"{_SCOPE}/machines", "add machines to a scope", fleet.grow, shapes.Growth, _Machines, 201),
    route("POST", f"{_SCOPE}/upgrade", "bring instances to the latest model of their set", fleet.upgrade,
          shapes.UpgradeWanted, _Machines),
    route("GET", _SCOPE, "one scope", fleet.scope, _Nothing, shapes.Scope),
    route("PATCH", _SCOPE, "change a set", fleet.change, shapes.ScopeChange, _Scopes),
    route("DELETE", _SCOPE, "delete a set", events.delete_set, _Removal, _Announced, 202),
    route("GET", f"{_V1}/events", "the pending events", events.events, _Nothing, shapes.Events),
    route("POST", f"{_V1}/events", "do something to machines", events.cause, shapes.EventWanted, _Announced,
          201),
    route("GET", _EVENT, "one pending event", events.event, _Nothing, _Event),
    route("POST", f"{_EVENT}/approve", "let an event start early", events.approve, _Asker, _Event),
    route("POST", f"{_EVENT}/cancel", "withdraw an event", events.cancel, _Asker, _Event),
    route("GET", f"{_V1}/causes", "what can be done to machines", events.causes, _Nothing, shapes.Causes),
    route("GET", f"{_V1}/walks", "the walks under way", walks.walks, _Nothing, shapes.Walks),
    route("POST", f"{_V1}/walks", "take maintenance through a scope", walks.start, shapes.WalkWanted,
          shapes.WalkBegun, 201),
    silent("DELETE", f"{_V1}/walks/{{scope:path}}", "end a walk", walks.stop, _Asker),
    route("GET", f"{_V1}/clock", "what time it is", clock.clock, _Nothing, _Clock),
    route("POST", f"{_V1}/clock/advance", "move manual time on", clock.advance, shapes.Advance, _Clock),
    route("POST", f"{_V1}/clock/next", "move manual time to the next deadline", clock.next_deadline, _Asker,
          _Clock),
    route("PUT", f"{_V1}/clock/speed", "let durations pass faster", clock.set_speed, shapes.SpeedWanted,
          _Clock),
    route("GET", f"{_V1}/arm", "where the management face is", fleet.management, _Nothing,
          shapes.Management),
    route("GET", f"{_V1}/history", "who did what, and when", history.history, shapes.HistoryPage,
          shapes.History),
    Route(method="GET", path=f"{_V1}/feed", summary="the history, live", asked=shapes.FeedStart, serve=_feed,
          media_type=EVENT_STREAM, headers=(history.RESUME,)),
    Route(method="GET", path=f"{_V1}/openapi.json", summary="this document", asked=_Nothing, serve=_openapi),
    Route(method="GET", path="/metrics", summary="what is counted, as Prometheus reads it", asked=_Nothing,
          serve=_metrics, media_type=MEDIA_TYPE),
    route("GET", "/healthz", "whether the server answers and keeps changes", _health, _Nothing,
          shapes.Health),
)  # fmt: skip
