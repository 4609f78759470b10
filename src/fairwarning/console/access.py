"""Access control for the console, and the security headers of its answers."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairwarning.access import client_address, has_bearer_token, hosts_are_loopback, same_site
from fairwarning.console.sessions import Sessions
from fairwarning.throttle import Throttle, TooManyGuessesError

LOGIN = "/login"
STATIC = "/static/"

#: Pages load and run only files of the console; other sites cannot show them in a frame.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer, browsers send "Origin: null" with the console's own forms, which would be rejected.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class ConsoleGate:
    """Middleware that passes a request on, redirects it to the login page, or rejects it."""

    def __init__(self, app: ASGIApp, sessions: Sessions, throttle: Throttle) -> None:
        self._app = app
        self._sessions = sessions
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the app finds the session in the request's state."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # Browsers may keep static files if they revalidate them; pages show current state.
                headers["Cache-Control"] = "no-cache" if scope["path"].startswith(STATIC) else "no-store"
            await send(message)

        headers = Headers(scope=scope)
        session = HTTPConnection(scope).cookies.get(self._sessions.session_cookie, "")
        scope.setdefault("state", {})["session"] = session
        rejection = self._rejection(scope, headers, session)
        authorization = headers.getlist("authorization")
        if rejection is not None and self._is_wrong_token(session, authorization):
            rejection = await self._throttled(scope) or rejection
        await (rejection or self._app)(scope, receive, send_with_headers)

    def _is_wrong_token(self, session: str, authorization: Sequence[str]) -> bool:
        return has_bearer_token(authorization) and not self._sessions.admits(session, authorization)

    async def _throttled(self, scope: Scope) -> ASGIApp | None:
        try:
            await self._throttle.wrong_token(client_address(scope.get("client")))
        except TooManyGuessesError as problem:
            return PlainTextResponse(f"{problem}\n", 429, {"Retry-After": problem.retry_after})
        return None

    def _rejection(self, scope: Scope, headers: Headers, session: str) -> ASGIApp | None:
        hosts = headers.getlist("host")
        if not self._sessions.token_required and not hosts_are_loopback(hosts):
            return PlainTextResponse("Without a token, the console answers only to loopback names.\n", 403)
        if not same_site(headers.getlist("origin"), hosts, ("http", "https")):
            return PlainTextResponse("The console does not accept requests from other sites.\n", 403)
        if self._is_allowed(scope["path"], headers, session):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            target = scope["path"] + (
                f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            )
            return RedirectResponse(f"{LOGIN}?{urlencode({'next': target})}", 303)
        return PlainTextResponse("A token is required.\n", 401, {"WWW-Authenticate": "Bearer"})

    def _is_allowed(self, path: str, headers: Headers, session: str) -> bool:
        return (
            path == LOGIN
            or path.startswith(STATIC)
            or self._sessions.admits(session, headers.getlist("authorization"))
        )
