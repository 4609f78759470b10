"""The operator API as an ASGI app."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import ASGIApp

from fairwarning.control.control import Control
from fairwarning.core.errors import EmulatorOnlyError, FairWarningError
from fairwarning.core.model import MachineRef
from fairwarning.formats.prometheus import MetricFamily
from fairwarning.operator.access import OperatorAccess
from fairwarning.operator.context import ManagementEndpoint, OperatorContext
from fairwarning.operator.problems import handle_error
from fairwarning.operator.route import OperatorRoute
from fairwarning.operator.routes import ROUTES
from fairwarning.streams import Streams
from fairwarning.throttle import Throttle

_HANDLED = (FairWarningError, HTTPException, ClientDisconnect, Exception)


def create_app(
    control: Control,
    *,
    endpoints: Callable[[MachineRef], str | None],
    alternatives: Callable[[MachineRef], tuple[str, ...]] | None = None,
    token: str | None = None,
    throttle: Throttle | None = None,
    loopback: bool = True,
    shutdown: asyncio.Event | None = None,
    management: Callable[[], Awaitable[ManagementEndpoint | None]] | None = None,
    metric_sources: Sequence[Callable[[], Iterable[MetricFamily]]] = (),
    streams: Streams | None = None,
    routes: Iterable[OperatorRoute] = ROUTES,
) -> Starlette:
    """Return the app; with a token, every request needs it, and off loopback a token is mandatory.

    Feeds end once ``shutdown`` is set; until then an open feed keeps the server from stopping.
    """
    if not loopback and not token:
        raise ValueError("off loopback the operator API needs a token")
    context = OperatorContext(
        control=control,
        endpoints=endpoints,
        alternatives=alternatives or _no_alternatives,
        shutdown=shutdown or asyncio.Event(),
        management=management or _no_management,
        metric_sources=metric_sources,
        streams=streams or Streams(),
    )
    app = Starlette(
        routes=list(_starlette_routes(context, routes)),
        middleware=[Middleware(OperatorAccess, token=token, throttle=throttle or Throttle())],
        exception_handlers=dict.fromkeys(_HANDLED, handle_error),
    )
    app.router.redirect_slashes = False
    return app


def _no_alternatives(machine: MachineRef) -> tuple[str, ...]:
    return ()


async def _no_management() -> None:
    """Return None: the server has no management API."""


def _starlette_routes(context: OperatorContext, routes: Iterable[OperatorRoute]) -> Iterable[Route]:
    by_path: dict[str, dict[str, OperatorRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    for path, methods in by_path.items():
        yield Route(path, _endpoint(context, methods), methods=list(methods))


def _endpoint(
    context: OperatorContext, methods: dict[str, OperatorRoute]
) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def endpoint(request: Request) -> ASGIApp:
        if request.method not in ("GET", "HEAD"):
            operation = methods[request.method]
            if not operation.is_offered(context.engine.policy):
                raise EmulatorOnlyError(f"{operation.method} {request.url.path}")
            return await operation.serve(context, request)
        return await context.control.look_up(lambda: methods["GET"].serve(context, request))

    return endpoint
