"""The console as an ASGI app."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from fairwarning.console.access import LOGIN, ConsoleGate
from fairwarning.console.context import ConsoleContext
from fairwarning.console.handlers import PageHandlers
from fairwarning.console.journal import Recent
from fairwarning.console.pages.routes import ACTIONS, PAGES
from fairwarning.console.sessions import Sessions
from fairwarning.core.document import render
from fairwarning.core.document.versions import EVENT_VERSIONS, DocumentShape
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import MachineRef
from fairwarning.engine.clock import SystemClock, new_secret
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import TimeControl
from fairwarning.streams import Streams
from fairwarning.throttle import Throttle

FILES = Path(__file__).parent / "static"


def create_app(
    engine: Engine,
    *,
    endpoints: Callable[[MachineRef], str | None],
    alternatives: Callable[[MachineRef], tuple[str, ...]] | None = None,
    welcome: Callable[[Sequence[MachineRef]], Awaitable[None]] | None = None,
    document: Callable[[MachineRef, DocumentShape], bytes] | None = None,
    versions: Mapping[str, DocumentShape] = EVENT_VERSIONS,
    journeys: TimeControl | None = None,
    token: str | None = None,
    throttle: Throttle | None = None,
    loopback: bool = True,
    closing: asyncio.Event | None = None,
    wall: Callable[[], datetime] | None = None,
    streams: Streams | None = None,
) -> Starlette:
    """Return the app; a token that is given is asked for, and off loopback one must be given.

    Live pages end once ``closing`` is set. Sessions run out by the ``wall`` clock, whatever the fleet's says.
    """
    if not loopback and not token:
        raise ValueError("off loopback the console needs a token")
    room = ConsoleContext(
        engine=engine,
        endpoints=endpoints,
        alternatives=alternatives or (lambda machine: ()),
        welcome=welcome or _nothing_to_open,
        document=document or partial(_shared, engine),
        versions=versions,
        journeys=journeys or TimeControl(engine),
        recent=Recent(engine.store),
        closing=closing or asyncio.Event(),
        streams=streams or Streams(),
    )
    sessions = Sessions(token, wall or SystemClock().now, new_secret())
    return _guarded(room, sessions, throttle or Throttle())


def _guarded(room: ConsoleContext, sessions: Sessions, throttle: Throttle) -> Starlette:
    door = PageHandlers(room, sessions, throttle, PAGES)
    app = Starlette(
        routes=_routes(door),
        middleware=[Middleware(ConsoleGate, sessions=sessions, throttle=throttle)],
        exception_handlers=dict.fromkeys(
            (FairWarningError, HTTPException, ClientDisconnect, Exception), door.refuse
        ),
    )
    app.router.redirect_slashes = False
    return app


def _routes(door: PageHandlers) -> list[BaseRoute]:
    return [
        Mount("/static", StaticFiles(directory=FILES)),
        Route(LOGIN, door.ask_token, methods=["GET"]),
        Route(LOGIN, door.let_in, methods=["POST"]),
        Route("/logout", door.let_out, methods=["POST"]),
        Route("/live", door.follow, methods=["GET"]),
        *(Route(one.path, door.acting(one), methods=["POST"]) for one in ACTIONS),
        *(Route(one.path, door.showing(one), methods=["GET"]) for one in PAGES),
    ]


def _shared(engine: Engine, machine: MachineRef, shape: DocumentShape) -> bytes:
    """Return what guests of a server without a metadata face would read."""
    scope = engine.scope(machine.scope)
    return render.render_document(
        scope.incarnation, visible_events(scope, machine.name), shape, scope.facts.kind
    )


async def _nothing_to_open(machines: Sequence[MachineRef]) -> None:
    """Machines of a server without a metadata face need nothing opened."""
