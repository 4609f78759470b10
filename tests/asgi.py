"""One request to an application, called as a server calls it: no client, no socket."""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes, urlsplit

import httpx2
from starlette.applications import Starlette
from starlette.types import Message

#: What stands for itself in a path or a query; everything else is written with percent signs.
_PLAIN = "!$%&'()*+,;=:@/?~[]"

#: An answer has to have a request; nobody looks at it.
_ANY = httpx2.Request("GET", "http://localhost")


async def ask(
    app: Starlette,
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    *,
    failing: bool = False,
) -> httpx2.Response:
    """Return the answer; of an application that fails too, if ``failing`` says so."""
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
    asked: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    told: list[Message] = []

    answered = asyncio.Event()

    async def receive() -> Message:
        if asked:
            return asked.pop()
        # A client stays until it has its answer.
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        told.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    try:
        await app(scope, receive, send)
    except Exception:
        if not (failing and told):
            raise
    start, *rest = told
    body = b"".join(one.get("body", b"") for one in rest) if method != "HEAD" else b""
    return httpx2.Response(start["status"], headers=start["headers"], content=body, request=_ANY)
