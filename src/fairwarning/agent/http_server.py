"""The agent's HTTP server: for load balancers, for monitoring, and for the agents of other machines."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from fairwarning.agent.loop import Snapshot
from fairwarning.agent.telemetry import AgentMetrics
from fairwarning.formats.prometheus import MEDIA_TYPE, MetricFamily, MetricType, Sample, render_metrics


class AgentStatus(Protocol):
    """The state that the server shows; each member is read once per request, from another thread."""

    @property
    def snapshot(self) -> Snapshot:
        """The state of the agent after its last turn."""
        ...

    @property
    def metrics(self) -> AgentMetrics:
        """The counters of the agent."""
        ...

    @property
    def turning(self) -> bool:
        """Whether the loop has run recently."""
        ...


@dataclass(frozen=True, slots=True)
class StatusPage:
    """An answer of the server."""

    status: int
    text: str
    media_type: str = "text/plain; charset=utf-8"


def _metrics(agent: AgentStatus) -> StatusPage:
    snapshot = agent.snapshot
    gauges = (
        _gauge("drained", "Whether the machine is drained or being drained.", snapshot.drained),
        _gauge("events", "Events in the journal of the agent.", len(snapshot.records)),
        _gauge("turning", "Whether the loop of the agent has run recently.", agent.turning),
    )
    return StatusPage(200, render_metrics((*agent.metrics.families(), *gauges)), MEDIA_TYPE)


def _gauge(name: str, help_text: str, value: float) -> MetricFamily:
    return MetricFamily(f"fairwarning_agent_{name}", MetricType.GAUGE, help_text, (Sample(value),))


def _healthz(agent: AgentStatus) -> StatusPage:
    return StatusPage(200, "healthy\n") if agent.turning else StatusPage(503, "the loop is stuck\n")


def _readyz(agent: AgentStatus) -> StatusPage:
    # A load balancer that polls this page stops sending work before the hooks have ended.
    return StatusPage(503, "drained\n") if agent.snapshot.drained else StatusPage(200, "at work\n")


def _peer(agent: AgentStatus) -> StatusPage:
    snapshot = agent.snapshot
    body = {"machine": snapshot.machine, "ready": list(snapshot.ready), "drained": snapshot.drained}
    return StatusPage(200, json.dumps(body) + "\n", "application/json")


PAGES: dict[str, Callable[[AgentStatus], StatusPage]] = {
    "/metrics": _metrics,
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/peer": _peer,
}


def answer(path: str, agent: AgentStatus) -> StatusPage:
    """Return the page at a path."""
    page = PAGES.get(path.partition("?")[0])
    return StatusPage(404, f"not found; the pages are {', '.join(PAGES)}\n") if page is None else page(agent)


@contextmanager
def listening(address: tuple[str, int], agent: AgentStatus) -> Iterator[int]:
    """Serve the pages at an address for the duration of the block; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version = "fairwarning-agent"
        sys_version = ""

        def do_GET(self) -> None:
            page = answer(self.path, agent)
            body = page.text.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: a client that polls every second would fill the log."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        daemon_threads = True

    server = Server(address, Handler)
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
