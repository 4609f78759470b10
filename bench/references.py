"""The servers that ours is compared with: they answer every request with the same bytes.

None of them identifies callers, checks headers, counts requests or has state: they are limits, not equals.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Meter, accounted_seconds, scheduler_seconds
from bench.servers import LOOPBACK, Server, free_port, module, serving

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

#: nginx modules that need a folder for temporary files, and the build option that leaves each out.
_TEMPORARY = {
    "client_body": None,
    "proxy": "--without-http_proxy_module",
    "fastcgi": "--without-http_fastcgi_module",
    "uwsgi": "--without-http_uwsgi_module",
    "scgi": "--without-http_scgi_module",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A server to compare with."""

    name: str
    command: Callable[[int, Path], Sequence[str] | None]
    meter: Meter = scheduler_seconds


@contextmanager
def without_events(name: str) -> Iterator[Server]:
    """Run a reference that needs no installation, with a document without events."""
    (chosen,) = (reference for reference in REFERENCES if reference.name == name)
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "document.json")
        document.write_text('{"DocumentIncarnation":1,"Events":[]}')
        with running(chosen, document) as server:
            assert server is not None
            yield server


@contextmanager
def running(reference: Reference, document: Path) -> Iterator[Server | None]:
    """Run a reference that answers with ``document`` during the block; give None if it is not installed."""
    port = free_port()
    command = reference.command(port, document)
    if command is None:
        yield None
        return
    with serving(reference.name, command, port, reference.meter) as server:
        yield server


def nginx_path() -> str | None:
    """Return the path of nginx, also where Debian installs it outside the path of ordinary users."""
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
    """Return a configuration that always answers ``text``, for an nginx built with these options."""
    if "$" in text:
        raise ValueError("nginx would read the $ in the document as a variable")
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    temporary = " ".join(
        f"{name}_temp_path {folder}/{name};"
        for name, missing in _TEMPORARY.items()
        if missing is None or missing not in built
    )
    return _CONFIGURATION.format(folder=folder, temporary=temporary, host=LOOPBACK, port=port, text=quoted)


def _python(name: str) -> Callable[[int, Path], Sequence[str]]:
    return lambda port, document: module("bench.python_references", name, port, document)


NGINX = "nginx return"

REFERENCES = (
    Reference(name=NGINX, command=_nginx),
    # A thread per connection: only the process clock includes threads that have ended.
    Reference(name="http.server", command=_python("http.server"), meter=accounted_seconds),
    Reference(name="uvicorn raw ASGI", command=_python("uvicorn")),
)
