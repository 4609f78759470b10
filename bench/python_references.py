"""The references written in Python. Each imports only what it needs, because its start is measured too.

``python -m bench.python_references NAME PORT FILE`` answers every request with the content of a file.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping

LOOPBACK = "127.0.0.1"

Message = Mapping[str, object]


def serve_http_server(port: int, body: bytes) -> None:
    """Answer with threads of the standard library."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            return

    class Threads(http.server.ThreadingHTTPServer):
        request_queue_size = 1024

        def handle_error(self, request: object, client_address: object) -> None:
            return  # callers close their connections when their time is over

    Threads((LOOPBACK, port), Handler).serve_forever()


def serve_uvicorn(port: int, body: bytes) -> None:
    """Answer with the smallest ASGI application."""
    import asyncio

    import uvicorn

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    async def app(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        app, host=LOOPBACK, port=port, lifespan="off", log_config=None, access_log=False, backlog=1024
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    _, name, port, path = sys.argv
    with open(path, "rb") as document:
        answer = document.read()
    {"http.server": serve_http_server, "uvicorn": serve_uvicorn}[name](int(port), answer)
