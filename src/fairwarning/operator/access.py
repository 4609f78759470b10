"""Who may come in: a token where one is set, and on loopback no stranger's web page."""

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
from fairwarning.operator.problems import answer
from fairwarning.throttle import Throttle, TooManyGuessesError

#: What anybody may ask: it says nothing about the fleet.
OPEN = frozenset({"/healthz"})

_CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class OperatorAccess:
    """Lets a request through to the app, or answers that it may not."""

    def __init__(self, app: ASGIApp, token: str | None, throttle: Throttle) -> None:
        self._app = app
        self._throttle = throttle
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever is answered is kept by nobody on the way."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_uncached(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = "no-store"
            await send(message)

        refusal = None if scope["path"] in OPEN else await self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send_uncached)

    async def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if self._token is not None:
            return await self._judged(scope, headers.getlist("authorization"), self._token)
        hosts = headers.getlist("host")
        if not hosts_are_loopback(hosts):
            return answer(403, "only names of this machine are served without a token")
        if not same_site(headers.getlist("origin"), hosts):
            return answer(403, "web pages of other sites may not call this API")
        return None

    async def _judged(self, scope: Scope, given: Sequence[str], token: bytes) -> Response | None:
        if bearer_token_matches(given, token):
            return None
        if has_bearer_token(given):
            try:
                await self._throttle.wrong_token(client_address(scope.get("client")))
            except TooManyGuessesError as problem:
                return answer(429, str(problem), headers={"Retry-After": problem.retry_after})
        return answer(401, "a bearer token is needed", headers=_CHALLENGE)
