"""What others may ask the agent: load balancers, monitoring, and the agents of neighbouring machines."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from fairwarning.agent.loop import Snapshot
from fairwarning.agent.metrics import AgentMetrics
from fairwarning.formats.prometheus import MEDIA_TYPE, MetricFamily, MetricType, Sample, render_metrics


class AgentStatus(Protocol):
    """What the face shows; each is read once per question, from another thread."""

    @property
    def snapshot(self) -> Snapshot:
        """The agent as of its last turn."""
        ...

    @property
    def figures(self) -> AgentMetrics:
        """What was counted."""
        ...

    @property
    def turning(self) -> bool:
        """Whether the loop has turned lately."""
        ...


@dataclass(frozen=True, slots=True)
class StatusPage:
    """One answer."""

    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


def _metrics(shown: AgentStatus) -> StatusPage:
    now = shown.snapshot
    gauges = (
        _gauge("drained", "Whether work has been taken off this machine", now.drained),
        _gauge("events", "Events this machine has to do with", len(now.records)),
        _gauge("turning", "Whether the loop has turned lately", shown.turning),
    )
    return StatusPage(200, render_metrics((*shown.figures.families(), *gauges)), MEDIA_TYPE)


def _gauge(what: str, help_text: str, value: float) -> MetricFamily:
    return MetricFamily(f"fairwarning_agent_{what}", MetricType.GAUGE, help_text, (Sample(value),))


def _healthz(shown: AgentStatus) -> StatusPage:
    return StatusPage(200, "turning\n") if shown.turning else StatusPage(503, "the loop does not turn\n")


def _readyz(shown: AgentStatus) -> StatusPage:
    # A load balancer that asks here stops sending work before the hooks are done.
    return StatusPage(503, "drained\n") if shown.snapshot.drained else StatusPage(200, "at work\n")


def _peer(shown: AgentStatus) -> StatusPage:
    now = shown.snapshot
    said = {"machine": now.machine, "ready": list(now.ready), "drained": now.drained}
    return StatusPage(200, json.dumps(said) + "\n", "application/json")


PAGES: dict[str, Callable[[AgentStatus], StatusPage]] = {
    "/metrics": _metrics,
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/peer": _peer,
}


def answer(path: str, shown: AgentStatus) -> StatusPage:
    """Return the page at a path."""
    page = PAGES.get(path.partition("?")[0])
    return StatusPage(404, f"known are {', '.join(PAGES)}\n") if page is None else page(shown)


@contextmanager
def listening(where: tuple[str, int], shown: AgentStatus) -> Iterator[int]:
    """Answer at an address for as long as the block lasts; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version = "fairwarning-agent"
        sys_version = ""

        def do_GET(self) -> None:
            page = answer(self.path, shown)
            body = page.text.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: whoever asks once a second would fill the log."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        daemon_threads = True

    server = Server(where, Handler)
    thread = threading.Thread(target=server.serve_forever, name="face", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
