"""Sends one request to an ASGI application, without a client or a socket."""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes, urlsplit

import httpx2
from starlette.types import ASGIApp, Message

#: Characters that need no percent encoding in a path or a query.
_PLAIN = "!$%&'()*+,;=:@/?~[]"

#: httpx2 requires a request for each response.
_ANY = httpx2.Request("GET", "http://localhost")


async def ask(
    app: ASGIApp,
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    *,
    failing: bool = False,
) -> httpx2.Response:
    """Return the response; if ``failing``, also that of an application that raises afterwards."""
    parts = urlsplit(url)
    raw = quote(parts.path, safe=_PLAIN).encode()
    lines = {"host": parts.netloc, "accept": "*/*"}
    lines |= {name.lower(): value for name, value in (headers or {}).items()}
    if content:
        lines.setdefault("content-length", str(len(content)))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": parts.scheme,
        "path": unquote_to_bytes(raw).decode(errors="replace"),
        "raw_path": raw,
        "query_string": quote(parts.query, safe=_PLAIN).encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in lines.items()],
        "server": (parts.hostname, parts.port),
        "client": ("127.0.0.1", 123),
    }
    requests: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    messages: list[Message] = []

    answered = asyncio.Event()

    async def receive() -> Message:
        if requests:
            return requests.pop()
        # A client disconnects only after its response.
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    try:
        await app(scope, receive, send)
    except Exception:
        if not (failing and messages):
            raise
    start, *rest = messages
    body = b"".join(message.get("body", b"") for message in rest) if method != "HEAD" else b""
    return httpx2.Response(start["status"], headers=start["headers"], content=body, request=_ANY)
