"""Request handlers: from requests and forms to pages, redirects and live streams."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
    FormAction,
    FormError,
    FormProblem,
    FormResult,
    Fragment,
    NoPageError,
    Page,
    PageRequest,
    PageView,
    Show,
    parse_fields,
)
from fairwarning.console.sessions import LIFETIME, Sessions
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.formats.reason_phrases import REASON_PHRASES
from fairwarning.throttle import Throttle

#: The largest form that is accepted.
MOST_BYTES = 64 * 1024

#: Error pages are sent outside the access middleware, so they bring its headers themselves.
_ERROR_HEADERS = {**HEADERS, "Cache-Control": "no-store"}

#: The header in which a browser repeats the last message id when it reconnects to a stream.
RESUME = "last-event-id"

Handler = Callable[[Request], Awaitable[ASGIApp]]


class FormRefusedError(FairWarningError):
    """A form cannot be accepted, whatever its fields say."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class PageHandlers:
    """Handles the requests that the access middleware admits."""

    def __init__(
        self, context: ConsoleContext, sessions: Sessions, throttle: Throttle, pages: Sequence[Page]
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._throttle = throttle
        self._renderer = live.PageRenderer(context.engine.feed, context.control.time_control)
        self._pages = [(Route(page.path, _unused, methods=["GET"]), page.show) for page in pages]

    def for_page(self, page: Page) -> Handler:
        """Return the handler that shows a page."""

        async def handle(request: Request) -> ASGIApp:
            flash = unquote(request.cookies.get(self._sessions.flash_cookie, ""))
            page_request = self._page_request(request)
            try:
                response = await self._context.control.look_up(
                    lambda: self._render(page.show, page_request, flash=flash)
                )
            except FairWarningError as error:
                return self._render_problem(page_request, error)
            if flash and isinstance(response, HTMLResponse):
                response.delete_cookie(self._sessions.flash_cookie, path="/")
            return response

        return handle

    def for_action(self, action: FormAction) -> Handler:
        """Return the handler of a form; an error shows the form again, with its input and the problem."""

        async def handle(request: Request) -> ASGIApp:
            page_request = replace(self._page_request(request), form=parse_fields(await _body(request)))
            try:
                self._check_csrf(page_request)
                result = await self._context.control.look_up(lambda: action.act(self._context, page_request))
            except FairWarningError as error:
                path = action.page.at(page_request.name)
                again = replace(page_request, path=path, problems=_problems(error))
                return _with_retry(error, await self._render(action.page.show, again, status=_status(error)))
            return self._redirect(result)

        return handle

    async def stream(self, request: Request) -> ASGIApp:
        """Stream the changes of a page."""
        context = self._context
        query = parse_fields(request.url.query)
        path, _, page_query = query.get("page", "/").partition("?")
        show, name = self._find_page(path)
        session, authorization = _session(request), request.headers.getlist("authorization")
        page_request = PageRequest(
            path=path,
            name=name,
            query=parse_fields(page_query),
            csrf=self._sessions.csrf_token(session),
            emulator=context.engine.policy.emulator,
        )

        async def fragments() -> Sequence[Fragment]:
            try:
                view = await show(context, page_request)
            except FairWarningError as error:
                return layout.fragments(context, page_request, problem=str(error))
            of_page = view.fragments if isinstance(view, PageView) else ()
            return (*layout.fragments(context, page_request), *of_page)

        async def render() -> live.ShownPage | None:
            # A session can end while its stream is open: it expires, or another tab logs out.
            admitted = self._sessions.admits(session, authorization)
            return await self._renderer.render(page_request, fragments) if admitted else None

        have = request.headers.get(RESUME) or query.get("have")
        feed, time_control = context.engine.feed, context.control.time_control
        messages = live.messages(feed, time_control, render, have, context.shutdown)
        return context.streams.stream(messages)

    async def show_login(self, request: Request) -> ASGIApp:
        """Show the login page."""
        page_request = self._page_request(request)
        if not self._sessions.token_required:
            return RedirectResponse("/", 303)
        return HTMLResponse(_login_page(page_request, page_request.query.get("next")))

    async def login(self, request: Request) -> ASGIApp:
        """Start a session if the token is right."""
        page_request = replace(self._page_request(request), form=parse_fields(await _body(request)))
        target = page_request.form.get("next")
        try:
            self._check_csrf(page_request)
            if not self._sessions.is_token(page_request.form.get("token")):
                await self._throttle.wrong_token(client_address(request.client))
                raise FormRefusedError(403, "Wrong token.")
        except FairWarningError as error:
            again = replace(page_request, problems=_problems(error))
            return HTMLResponse(_login_page(again, target), _status(error))
        response = RedirectResponse(_local_path(target), 303)
        response.set_cookie(
            self._sessions.session_cookie,
            self._sessions.begin(),
            max_age=int(LIFETIME.total_seconds()),
            path="/",
            secure=_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return response

    async def logout(self, request: Request) -> ASGIApp:
        """End the session."""
        self._check_csrf(replace(self._page_request(request), form=parse_fields(await _body(request))))
        await self._sessions.end(_session(request))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(self._sessions.session_cookie, path="/")
        return response

    async def show_error(self, request: Request, error: Exception) -> Response:
        """Show an error page."""
        status, text = _status(error), _error_text(request, error)
        title = REASON_PHRASES[status]
        page = layout.render_bare("error.html", title, self._request_without_query(request), text=text)
        return _with_retry(error, HTMLResponse(page, status, headers=_ERROR_HEADERS))

    async def _render(
        self, show: Show, request: PageRequest, *, flash: str = "", status: int = 200
    ) -> Response:
        view = await show(self._context, request)
        if not isinstance(view, PageView):
            return view
        can_log_out = self._sessions.token_required
        page = layout.render_page(self._context, request, view, flash=flash, can_log_out=can_log_out)
        return HTMLResponse(page, status)

    def _render_problem(self, request: PageRequest, error: FairWarningError) -> Response:
        """Return a page that says why the page itself cannot be shown, and loads again if it may be later."""
        status = _status(error)
        values = {"retry_after": error.retry_after}
        view = PageView(title=REASON_PHRASES[status], template="problem.html", values=values)
        can_log_out = self._sessions.token_required
        page = layout.render_page(self._context, request, view, problem=str(error), can_log_out=can_log_out)
        return _with_retry(error, HTMLResponse(page, status))

    def _page_request(self, request: Request) -> PageRequest:
        return replace(self._request_without_query(request), query=parse_fields(request.url.query))

    def _request_without_query(self, request: Request) -> PageRequest:
        return PageRequest(
            path=request.url.path,
            name=str(request.path_params.get("name", "")),
            csrf=self._sessions.csrf_token(_session(request)),
            emulator=self._context.engine.policy.emulator,
        )

    @staticmethod
    def _check_csrf(request: PageRequest) -> None:
        if not hmac.compare_digest(request.form.get("csrf").encode(), request.csrf.encode()):
            raise FormRefusedError(403, "This form has expired. Nothing was changed; please submit it again.")

    def _find_page(self, path: str) -> tuple[Show, str]:
        for route, show in self._pages:
            match, scope = route.matches({"type": "http", "method": "GET", "path": path, "root_path": ""})
            if match is Match.FULL:
                return show, str(scope["path_params"].get("name", ""))
        raise NoPageError(path)

    def _redirect(self, result: FormResult) -> Response:
        response = RedirectResponse(result.to, 303)
        if result.flash:
            # A cookie carries the message across the redirect; the next page shows it once, as text.
            response.set_cookie(
                self._sessions.flash_cookie,
                quote(result.flash),
                max_age=60,
                path="/",
                httponly=True,
                samesite="strict",
            )
        return response


async def _unused(request: Request) -> Response:
    raise NoPageError(request.url.path)


async def _body(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise FormRefusedError(413, f"The form is larger than {MOST_BYTES} bytes.")
    return body.decode("utf-8", "replace")


def _login_page(request: PageRequest, target: str) -> str:
    return layout.render_bare("login.html", "Log in", request, next=target)


def _encrypted(request: Request) -> bool:
    """Whether the browser used HTTPS, at least up to a reverse proxy."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _session(request: Request) -> str:
    return str(request.scope.get("state", {}).get("session", ""))


def _local_path(target: str) -> str:
    """Return the target if it is a path of this console, else the start page."""
    local = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if local and target.isprintable() else "/"


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


def _with_retry(error: Exception, response: Response) -> Response:
    """Return a response that says when to try again, if the error does."""
    if isinstance(error, FairWarningError) and error.retry_after is not None:
        response.headers["Retry-After"] = error.retry_after
    return response


def _error_text(request: Request, error: Exception) -> str:
    match error:
        case FairWarningError():
            return str(error)
        case HTTPException(status_code=404):
            return str(NoPageError(request.url.path))
        case HTTPException(status_code=status):
            return f"{REASON_PHRASES[status].capitalize()}."
        case _:
            return "The server failed; its log has the details."
