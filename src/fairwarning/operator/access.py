"""Access control: a bearer token where one is set; on loopback, no requests from foreign web pages."""

from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairwarning.access import (
    bearer_token_matches,
    client_address,
    has_bearer_token,
    hosts_are_loopback,
    same_site,
)
from fairwarning.operator.problems import problem_response
from fairwarning.throttle import Throttle, TooManyGuessesError

#: Paths that need no token: their responses say nothing about the fleet.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})

_CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class OperatorAccess:
    """Middleware that passes a request to the app or refuses it."""

    def __init__(self, app: ASGIApp, token: str | None, throttle: Throttle) -> None:
        self._app = app
        self._throttle = throttle
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, with ``Cache-Control: no-store`` on every response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_uncached(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = "no-store"
            await send(message)

        refusal = None if scope["path"] in OPEN_PATHS else await self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send_uncached)

    async def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if self._token is not None:
            return await self._check_token(scope, headers.getlist("authorization"), self._token)
        hosts = headers.getlist("host")
        if not hosts_are_loopback(hosts):
            return problem_response(403, "without a token, the Host header must name a loopback address")
        if not same_site(headers.getlist("origin"), hosts, (scope.get("scheme", "http"),)):
            return problem_response(403, "cross-origin requests are not allowed")
        return None

    async def _check_token(self, scope: Scope, authorization: Sequence[str], token: bytes) -> Response | None:
        if bearer_token_matches(authorization, token):
            return None
        if has_bearer_token(authorization):
            try:
                await self._throttle.wrong_token(client_address(scope.get("client")))
            except TooManyGuessesError as error:
                return problem_response(429, str(error), headers={"Retry-After": error.retry_after})
        return problem_response(401, "a bearer token is required", headers=_CHALLENGE)
