"""The console beside the operator API at one address, loaded with its first visitor.

Most servers that are started never show a page, and starting one must not wait for what only pages need.
"""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

#: Where the operator API is; everything else is the console's.
API = ("/fleet/", "/healthz", "/metrics")


class LazyMount:
    """Hands each request to the API or to the console."""

    def __init__(self, api: ASGIApp, console: Callable[[], ASGIApp]) -> None:
        self._api = api
        self._load = console
        self._loading: asyncio.Task[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        app = self._api if scope["type"] != "http" or scope["path"].startswith(API) else await self._console()
        await app(scope, receive, send)

    async def _console(self) -> ASGIApp:
        # In a thread, because guests must not wait for the modules either; once, however many ask.
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return await asyncio.shield(self._loading)
