"""Between requests and pages: visits and forms come in; pages, redirects and streams go out."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from fairwarning.access import client_address
from fairwarning.console import layout, live
from fairwarning.console.access import HEADERS, LOGIN
from fairwarning.console.context import ConsoleContext
from fairwarning.console.page import (
    Action,
    Done,
    FormError,
    FormProblem,
    Fragment,
    NoPageError,
    Page,
    PageView,
    Show,
    Visit,
    fields,
)
from fairwarning.console.sessions import LIFE, Sessions
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.throttle import Throttle

#: The largest form that is read.
MOST_BYTES = 64 * 1024

#: The answer to a failure is written outside the gate, where nothing else adds these.
_ALONE = {**HEADERS, "Cache-Control": "no-store"}

#: What a browser repeats when it comes back to a stream.
RESUME = "last-event-id"

Answer = Callable[[Request], Awaitable[ASGIApp]]


class FormRefusedError(FairWarningError):
    """The request itself is at fault."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class PageHandlers:
    """Answers the requests of those who were let in."""

    def __init__(
        self, room: ConsoleContext, sessions: Sessions, throttle: Throttle, pages: Sequence[Page]
    ) -> None:
        self._room = room
        self._sessions = sessions
        self._throttle = throttle
        self._looks = live.Looks(room.engine.feed, room.journeys)
        self._pages = [(Route(one.path, _unused, methods=["GET"]), one.show) for one in pages]

    def showing(self, page: Page) -> Answer:
        """Return what answers requests for a page."""

        async def answer(request: Request) -> ASGIApp:
            visit = self._visit(request)
            said = unquote(request.cookies.get(self._sessions.said, ""))
            response = await self._shown(page.show, visit, said=said)
            if said and isinstance(response, HTMLResponse):
                response.delete_cookie(self._sessions.said, path="/")
            return response

        return answer

    def acting(self, action: Action) -> Answer:
        """Return what answers forms; what is refused is told in place, and nothing that was typed is lost."""

        async def answer(request: Request) -> ASGIApp:
            visit = replace(self._visit(request), form=fields(await _body(request)))
            try:
                self._believe(visit)
                done = await action.act(self._room, visit)
            except FairWarningError as error:
                told = replace(visit, path=action.page.at(visit.name), problems=_problems(error))
                return await self._shown(action.page.show, told, status=_status(error))
            return self._redirect(done)

        return answer

    async def follow(self, request: Request) -> ASGIApp:
        """Answer with a page as it changes."""
        asked = fields(request.url.query)
        path, _, query = asked.get("page", "/").partition("?")
        show, name = self._page_at(path)
        session, bearer = _session(request), request.headers.getlist("authorization")
        visit = Visit(path=path, name=name, query=fields(query), csrf=self._sessions.proof(session))

        async def see() -> Sequence[Fragment]:
            try:
                view = await show(self._room, visit)
            except FairWarningError as error:
                return layout.fragments(self._room, visit, problem=str(error))
            changing = view.fragments if isinstance(view, PageView) else ()
            return (*layout.fragments(self._room, visit), *changing)

        async def look() -> live.ShownPage | None:
            # Sessions end, by their own time or by logging out in another tab.
            admitted = self._sessions.admits(session, bearer)
            return await self._looks.at(visit, see) if admitted else None

        have = request.headers.get(RESUME) or asked.get("have")
        room = self._room
        return room.streams.stream(live.messages(room.engine.feed, room.journeys, look, have, room.closing))

    async def ask_token(self, request: Request) -> ASGIApp:
        """Answer with the login page."""
        visit = self._visit(request)
        if not self._sessions.needed:
            return RedirectResponse("/", 303)
        return HTMLResponse(layout.bare("login.html", "Log in", visit, next=visit.query.get("next")))

    async def let_in(self, request: Request) -> ASGIApp:
        """Begin a session for whoever has the token."""
        visit = replace(self._visit(request), form=fields(await _body(request)))
        onwards = visit.form.get("next")
        try:
            self._believe(visit)
            if not self._sessions.opens(visit.form.get("token")):
                await self._throttle.wrong_token(client_address(request.client))
                raise FormRefusedError(403, "this is not the token")
        except FairWarningError as error:
            told = replace(visit, problems=_problems(error))
            return HTMLResponse(layout.bare("login.html", "Log in", told, next=onwards), _status(error))
        response = RedirectResponse(_local(onwards), 303)
        response.set_cookie(
            self._sessions.cookie,
            self._sessions.begin(),
            max_age=int(LIFE.total_seconds()),
            path="/",
            secure=_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return response

    async def let_out(self, request: Request) -> ASGIApp:
        """End a session."""
        self._believe(replace(self._visit(request), form=fields(await _body(request))))
        self._sessions.end(_session(request))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(self._sessions.cookie, path="/")
        return response

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer what was refused with a page that says why."""
        status, text = _status(error), _words(request, error)
        title = HTTPStatus(status).phrase
        page = layout.bare("error.html", title, self._visit(request), text=text)
        return HTMLResponse(page, status, headers=_ALONE)

    async def _shown(self, show: Show, visit: Visit, *, said: str = "", status: int = 200) -> Response:
        view = await show(self._room, visit)
        if not isinstance(view, PageView):
            return view
        page = layout.html(self._room, visit, view, said=said, leave=self._sessions.needed)
        return HTMLResponse(page, status)

    def _visit(self, request: Request) -> Visit:
        return Visit(
            path=request.url.path,
            name=str(request.path_params.get("name", "")),
            query=fields(request.url.query),
            csrf=self._sessions.proof(_session(request)),
        )

    @staticmethod
    def _believe(visit: Visit) -> None:
        if not hmac.compare_digest(visit.form.get("csrf").encode(), visit.csrf.encode()):
            raise FormRefusedError(
                403, "this page was older than the server; nothing was done: please press again"
            )

    def _page_at(self, path: str) -> tuple[Show, str]:
        for route, show in self._pages:
            match, found = route.matches({"type": "http", "method": "GET", "path": path, "root_path": ""})
            if match is Match.FULL:
                return show, str(found["path_params"].get("name", ""))
        raise NoPageError(path)

    def _redirect(self, done: Done) -> Response:
        response = RedirectResponse(done.to, 303)
        if done.said:
            # Carried across the redirect, and shown once, as text.
            response.set_cookie(
                self._sessions.said, quote(done.said), max_age=60, path="/", httponly=True, samesite="strict"
            )
        return response


async def _unused(request: Request) -> Response:
    raise NoPageError(request.url.path)


async def _body(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise FormRefusedError(413, f"the form is larger than {MOST_BYTES} bytes")
    return body.decode("utf-8", "replace")


def _encrypted(request: Request) -> bool:
    """Whether the browser came by HTTPS, if only as far as a proxy before us."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _session(request: Request) -> str:
    return str(request.scope.get("state", {}).get("session", ""))


def _local(address: str) -> str:
    """Return an address of ours, never one of another site."""
    fine = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if fine and address.isprintable() else "/"


def _problems(error: FairWarningError) -> tuple[FormProblem, ...]:
    match error:
        case FormError(problems=problems):
            return problems
        case InvalidError(field=field, problem=problem):
            return (FormProblem(problem, field),)
        case _:
            return (FormProblem(str(error)),)


def _status(error: Exception) -> int:
    match error:
        case FormRefusedError(status=status) | HTTPException(status_code=status):
            return status
        case FairWarningError():
            return error.status_hint
        case ClientDisconnect():
            return 400
        case _:
            return 500


def _words(request: Request, error: Exception) -> str:
    match error:
        case FairWarningError():
            return str(error)
        case HTTPException(status_code=404):
            return str(NoPageError(request.url.path))
        case HTTPException(status_code=status):
            return HTTPStatus(status).phrase.lower()
        case _:
            return "the server failed; its log says why"
