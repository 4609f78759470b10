"""The first message of a page's live stream."""

import asyncio
from urllib.parse import urlencode

from starlette.types import Message

from tests.console.console_client import ConsoleTestClient
from tests.fleet_harness import run


def live(client: ConsoleTestClient, page: str) -> str:
    """Return the first message of a page's stream, and shut the server down."""
    body = bytearray()

    async def send(message: Message) -> None:
        body.extend(message.get("body", b""))
        if b"data:" in body:
            client.shutdown.set()

    asked: Message = {"type": "http.request", "body": b"", "more_body": False}

    async def receive() -> Message:
        nonlocal asked
        now, asked = asked, {"type": "http.disconnect"}
        if now["type"] == "http.disconnect":
            await client.shutdown.wait()
        return now

    async def read() -> None:
        query = urlencode({"page": page}).encode()
        await asyncio.wait_for(client.app(_scope(query), receive, send), 20)

    run(read())
    return body.decode()


def _scope(query: bytes) -> dict[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/live",
        "raw_path": b"/live",
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8080")],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
    }
