"""Who may come in, and what browsers are told never to do with our pages."""

from collections.abc import Mapping
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

#: Nothing runs or loads but our own files; no other site may show our pages in a frame.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer a browser would call its own forms' origin null, and they would be refused.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class ConsoleGate:
    """Lets a request through to the pages, sends it to the login, or refuses it."""

    def __init__(self, app: ASGIApp, sessions: Sessions, throttle: Throttle) -> None:
        self._app = app
        self._sessions = sessions
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the app finds the session in the request's state."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # Our own files may be kept as long as they are asked about; pages are about now.
                headers["Cache-Control"] = "no-cache" if scope["path"].startswith(STATIC) else "no-store"
            await send(message)

        headers = Headers(scope=scope)
        session = HTTPConnection(scope).cookies.get(self._sessions.cookie, "")
        scope.setdefault("state", {})["session"] = session
        refusal = self._refusal(scope, headers, session)
        given = headers.getlist("authorization")
        if refusal is not None and has_bearer_token(given) and not self._sessions.admits(session, given):
            refusal = await self._slowed(scope) or refusal
        await (refusal or self._app)(scope, receive, send_guarded)

    async def _slowed(self, scope: Scope) -> ASGIApp | None:
        try:
            await self._throttle.wrong_token(client_address(scope.get("client")))
        except TooManyGuessesError as problem:
            return PlainTextResponse(f"{problem}\n", 429, {"Retry-After": problem.retry_after})
        return None

    def _refusal(self, scope: Scope, headers: Headers, session: str) -> ASGIApp | None:
        hosts = headers.getlist("host")
        if not self._sessions.needed and not hosts_are_loopback(hosts):
            return PlainTextResponse("only names of this machine are served without a token\n", 403)
        if not same_site(headers.getlist("origin"), hosts, ("http", "https")):
            return PlainTextResponse("web pages of other sites may not call the console\n", 403)
        if self._let_in(scope["path"], headers, session):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            back = scope["path"] + (
                f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            )
            return RedirectResponse(f"{LOGIN}?{urlencode({'next': back})}", 303)
        return PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})

    def _let_in(self, path: str, headers: Headers, session: str) -> bool:
        return (
            path == LOGIN
            or path.startswith(STATIC)
            or self._sessions.admits(session, headers.getlist("authorization"))
        )
