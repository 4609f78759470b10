"""The console as an ASGI app."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
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
from fairwarning.console.journal import JournalCache
from fairwarning.console.page import FormAction, Page
from fairwarning.console.pages.routes import ACTIONS, PAGES
from fairwarning.console.sessions import EndedSessions, Sessions
from fairwarning.control.control import Control
from fairwarning.core.document import render
from fairwarning.core.document.versions import EVENT_VERSIONS, DocumentShape
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import MachineRef
from fairwarning.engine.clock import SystemClock, new_secret
from fairwarning.engine.engine import Engine
from fairwarning.streams import Streams
from fairwarning.throttle import Throttle

FILES = Path(__file__).parent / "static"


def create_app(
    control: Control,
    *,
    endpoints: Callable[[MachineRef], str | None],
    alternatives: Callable[[MachineRef], tuple[str, ...]] | None = None,
    document: Callable[[MachineRef, DocumentShape], bytes] | None = None,
    versions: Mapping[str, DocumentShape] = EVENT_VERSIONS,
    token: str | None = None,
    throttle: Throttle | None = None,
    loopback: bool = True,
    shutdown: asyncio.Event | None = None,
    wall: Callable[[], datetime] | None = None,
    streams: Streams | None = None,
    secret: bytes | None = None,
) -> Starlette:
    """Return the app; with a token it asks for a login, and beyond loopback a token is mandatory.

    Live pages end once ``shutdown`` is set. Sessions expire by the ``wall`` clock, not by the clock of the
    fleet. All nodes that share a store have the same ``secret``.
    """
    if not loopback and not token:
        raise ValueError("the console needs a token when it listens beyond loopback")
    context = ConsoleContext(
        control=control,
        endpoints=endpoints,
        alternatives=alternatives or (lambda machine: ()),
        document=document or partial(_scope_document, control.engine),
        versions=versions,
        journal=JournalCache(control.engine.store),
        shutdown=shutdown or asyncio.Event(),
        streams=streams or Streams(),
    )
    sessions = Sessions(token, wall or SystemClock().now, secret or new_secret(), EndedSessions(control))
    return _starlette(context, sessions, throttle or Throttle())


def _starlette(context: ConsoleContext, sessions: Sessions, throttle: Throttle) -> Starlette:
    emulator = context.engine.policy.emulator
    pages = tuple(page for page in PAGES if emulator or not page.emulator)
    actions = tuple(action for action in ACTIONS if emulator or not action.emulator)
    handlers = PageHandlers(context, sessions, throttle, pages)
    app = Starlette(
        routes=_routes(handlers, pages, actions),
        middleware=[Middleware(ConsoleGate, sessions=sessions, throttle=throttle)],
        exception_handlers=dict.fromkeys(
            (FairWarningError, HTTPException, ClientDisconnect, Exception), handlers.show_error
        ),
    )
    app.router.redirect_slashes = False
    return app


def _routes(handlers: PageHandlers, pages: Sequence[Page], actions: Sequence[FormAction]) -> list[BaseRoute]:
    return [
        Mount("/static", StaticFiles(directory=FILES)),
        Route(LOGIN, handlers.show_login, methods=["GET"]),
        Route(LOGIN, handlers.login, methods=["POST"]),
        Route("/logout", handlers.logout, methods=["POST"]),
        Route("/live", handlers.stream, methods=["GET"]),
        *(Route(action.path, handlers.for_action(action), methods=["POST"]) for action in actions),
        *(Route(page.path, handlers.for_page(page), methods=["GET"]) for page in pages),
    ]


def _scope_document(engine: Engine, machine: MachineRef, shape: DocumentShape) -> bytes:
    """Return the document of a machine's scope, for a server without a metadata API."""
    scope = engine.scope(machine.scope)
    return render.render_document(
        scope.incarnation, visible_events(scope, machine.name), shape, scope.facts.kind
    )
