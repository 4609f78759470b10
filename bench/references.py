"""What we are compared with: servers that answer every request with the same bytes, and do nothing else.

None of them knows its callers, checks a header, counts requests or has state: they are limits, not equals.
``python -m bench.references NAME PORT FILE`` runs one of those written in Python.
"""

import asyncio
import http.server
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Meter, accounted_seconds, scheduler_seconds
from bench.servers import LOOPBACK, Server, free_port, module, serving

Message = Mapping[str, object]

_CONFIGURATION = """
daemon off;
master_process off;
error_log stderr crit;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    {temporary}
    server {{
        listen {host}:{port} backlog=1024;
        location / {{ default_type application/json; return 200 '{text}'; }}
    }}
}}
"""

#: nginx modules that want a folder for temporary files, and how its build says that one is missing.
_TEMPORARY = {
    "client_body": None,
    "proxy": "--without-http_proxy_module",
    "fastcgi": "--without-http_fastcgi_module",
    "uwsgi": "--without-http_uwsgi_module",
    "scgi": "--without-http_scgi_module",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A server to be compared with."""

    name: str
    command: Callable[[int, Path], Sequence[str] | None]
    meter: Meter = scheduler_seconds


@contextmanager
def reference(one: Reference, document: Path) -> Iterator[Server | None]:
    """Run a reference that answers with ``document`` during the block; None if it is not installed."""
    port = free_port()
    command = one.command(port, document)
    if command is None:
        yield None
        return
    with serving(one.name, command, port, one.meter) as server:
        yield server


def nginx_path() -> str | None:
    """Return where nginx is installed; Debian keeps it off the path of ordinary users."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin")


def _nginx(port: int, document: Path) -> Sequence[str] | None:
    program = nginx_path()
    if program is None:
        return None
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stderr
    folder = document.parent
    configuration = folder / "nginx.conf"
    configuration.write_text(nginx_configuration(document.read_text(), port, folder, built))
    return [program, "-p", str(folder), "-c", str(configuration)]


def nginx_configuration(text: str, port: int, folder: Path, built: str) -> str:
    """Return a configuration whose only answer is ``text``, for an nginx built with these options."""
    if "$" in text:
        raise ValueError("nginx would take the $ in the document for a variable")
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    temporary = " ".join(
        f"{name}_temp_path {folder}/{name};"
        for name, missing in _TEMPORARY.items()
        if missing is None or missing not in built
    )
    return _CONFIGURATION.format(folder=folder, temporary=temporary, host=LOOPBACK, port=port, text=quoted)


def _python(name: str) -> Callable[[int, Path], Sequence[str]]:
    return lambda port, document: module("bench.references", name, port, document)


REFERENCES = (
    Reference(name="nginx return", command=_nginx),
    # A thread per connection: what ended threads have used is known to the process alone.
    Reference(name="http.server", command=_python("http.server"), meter=accounted_seconds),
    Reference(name="uvicorn raw ASGI", command=_python("uvicorn")),
)


def _serve_http_server(port: int, body: bytes) -> None:
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
            return  # callers hang up when their time is over

    Threads((LOOPBACK, port), Handler).serve_forever()


def _serve_uvicorn(port: int, body: bytes) -> None:
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
    _, which, where, what = sys.argv
    {"http.server": _serve_http_server, "uvicorn": _serve_uvicorn}[which](int(where), Path(what).read_bytes())
