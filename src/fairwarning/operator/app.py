"""The operator API as an ASGI app."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route as Door
from starlette.types import ASGIApp

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import TimeControl
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.operator.access import OperatorAccess
from fairwarning.operator.context import ManagementEndpoint, OperatorContext
from fairwarning.operator.problems import refuse
from fairwarning.operator.route import OperatorRoute
from fairwarning.operator.routes import ROUTES
from fairwarning.streams import Streams
from fairwarning.throttle import Throttle

_REFUSED = (FairWarningError, HTTPException, ClientDisconnect, Exception)


def create_app(
    engine: Engine,
    *,
    endpoints: Callable[[MachineRef], str | None],
    alternatives: Callable[[MachineRef], tuple[str, ...]] | None = None,
    welcome: Callable[[Sequence[MachineRef]], Awaitable[None]] | None = None,
    token: str | None = None,
    throttle: Throttle | None = None,
    loopback: bool = True,
    closing: asyncio.Event | None = None,
    management: Callable[[], Awaitable[ManagementEndpoint | None]] | None = None,
    journeys: TimeControl | None = None,
    counted: Callable[[], Iterable[MetricFamily]] = tuple,
    streams: Streams | None = None,
) -> Starlette:
    """Return the app; a token that is given is asked for, and off loopback one must be given.

    Feeds end once ``closing`` is set; until then they would keep a server from ending by itself.
    """
    if not loopback and not token:
        raise ValueError("off loopback the operator API needs a token")
    desk = OperatorContext(
        engine=engine,
        endpoints=endpoints,
        alternatives=alternatives or _no_other_way,
        welcome=welcome or _nothing_to_open,
        closing=closing or asyncio.Event(),
        management=management or _no_other_face,
        journeys=journeys or TimeControl(engine),
        counted=counted,
        streams=streams or Streams(),
    )
    app = Starlette(
        routes=list(_doors(desk, ROUTES)),
        middleware=[Middleware(OperatorAccess, token=token, throttle=throttle or Throttle())],
        exception_handlers=dict.fromkeys(_REFUSED, refuse),
    )
    app.router.redirect_slashes = False
    return app


def _no_other_way(machine: MachineRef) -> tuple[str, ...]:
    return ()


async def _nothing_to_open(machines: Sequence[MachineRef]) -> None:
    """Machines of a server without a metadata face need nothing opened."""


async def _no_other_face() -> None:
    """A server with no management face."""


def _doors(desk: OperatorContext, routes: Iterable[OperatorRoute]) -> Iterable[Door]:
    by_path: dict[str, dict[str, OperatorRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    for path, methods in by_path.items():
        yield Door(path, _endpoint(desk, methods), methods=list(methods))


def _endpoint(
    desk: OperatorContext, methods: dict[str, OperatorRoute]
) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def endpoint(request: Request) -> ASGIApp:
        method = "GET" if request.method == "HEAD" else request.method
        return await methods[method].serve(desk, request)

    return endpoint
