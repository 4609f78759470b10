"""The console next to the operator API at one address, loaded by its first request.

Most servers never show a page, so starting a server must not wait for modules that only pages need.
"""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

#: Paths of the operator API; all other paths belong to the console.
API = ("/fleet/", "/healthz", "/readyz", "/metrics")


class LazyMount:
    """Routes each request to the API or to the console."""

    def __init__(self, api: ASGIApp, load_console: Callable[[], ASGIApp]) -> None:
        self._api = api
        self._load_console = load_console
        self._loading: asyncio.Task[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        app = self._api if scope["type"] != "http" or scope["path"].startswith(API) else await self._console()
        await app(scope, receive, send)

    async def _console(self) -> ASGIApp:
        # In a thread, so that guests do not wait for the imports; once for all concurrent requests.
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load_console))
        return await asyncio.shield(self._loading)
