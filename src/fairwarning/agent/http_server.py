"""The agent's HTTP server: for load balancers, for monitoring, and for the agents of other machines.

One thread serves all connections, and no page takes time, so a client can neither use up threads nor delay
another client. A connection has one deadline, from its beginning to the end of its answer. When too many are
open, the oldest is closed: a client that sends its request at once is served even then.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final, Protocol

from fairwarning.agent.clock import AgentSystemClock
from fairwarning.agent.loop import Snapshot
from fairwarning.agent.telemetry import AgentMetrics
from fairwarning.formats.prometheus import MEDIA_TYPE, MetricFamily, MetricType, Sample, render_metrics

LOG = logging.getLogger("fairwarning.agent")

MAX_CONNECTIONS: Final = 64
#: How long a connection lives: from its beginning to the end of the answer.
REQUEST_LIMIT: Final = timedelta(seconds=10)
LARGEST_REQUEST: Final = 16 * 1024
BACKLOG: Final = 128


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
def listening(
    address: tuple[str, int], agent: AgentStatus, *, limit: timedelta = REQUEST_LIMIT
) -> Iterator[int]:
    """Serve the pages at an address for the duration of the block; yields the port."""
    ipv6 = ":" in address[0]
    with socket.create_server(
        address,
        family=socket.AF_INET6 if ipv6 else socket.AF_INET,
        backlog=BACKLOG,
        dualstack_ipv6=ipv6 and socket.has_dualstack_ipv6(),
    ) as listener:
        server = _Server(listener, agent, limit)
        thread = threading.Thread(target=server.run, name="http", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.stop()
            thread.join()


class _Exchange:
    """A connection with the part of the request that has come, or the part of the answer that is left."""

    def __init__(self, connection: socket.socket, end: timedelta) -> None:
        self.connection = connection
        self.end = end
        self.received = b""
        self.unsent = b""

    def receive(self) -> bool:
        """Read what has come; return whether the request is complete."""
        received = self.connection.recv(LARGEST_REQUEST)
        self.received += received
        if len(self.received) > LARGEST_REQUEST:
            raise ConnectionAbortedError("the request is too large")
        return not received or b"\r\n\r\n" in self.received or b"\n\n" in self.received

    def send(self) -> bool:
        """Send what the client takes; return whether that was the rest."""
        self.unsent = self.unsent[self.connection.send(self.unsent) :]
        return not self.unsent


class _Server:
    """Serves the connections of one listener, in one thread."""

    def __init__(self, listener: socket.socket, agent: AgentStatus, limit: timedelta) -> None:
        self._listener = listener
        self._agent = agent
        self._limit = limit
        self._clock = AgentSystemClock()
        self._selector = DefaultSelector()
        #: By descriptor, the oldest first.
        self._exchanges: dict[int, _Exchange] = {}
        self._wake, self._stop = socket.socketpair()

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stop.close()

    def run(self) -> None:
        """Serve until ``stop`` is called."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, EVENT_READ)
        self._selector.register(self._wake, EVENT_READ)
        with self._wake, self._selector:
            while self._wake.fileno() not in (ready := self._ready()):
                for descriptor in ready:
                    if descriptor == self._listener.fileno():
                        self._accept()
                    elif descriptor in self._exchanges:
                        self._go_on(descriptor)
                self._close_late()
            for descriptor in [*self._exchanges]:
                self._close(descriptor)

    def _ready(self) -> list[int]:
        oldest = next(iter(self._exchanges.values()), None)
        left = None if oldest is None else max((oldest.end - self._clock.elapsed()).total_seconds(), 0)
        return [key.fd for key, _ in self._selector.select(left)]

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            # The client has gone, or no descriptor is free: the oldest connection has one.
            self._close_oldest(0)
            return
        self._close_oldest(MAX_CONNECTIONS - 1)
        connection.setblocking(False)
        self._exchanges[connection.fileno()] = _Exchange(connection, self._clock.elapsed() + self._limit)
        self._selector.register(connection, EVENT_READ)

    def _close_oldest(self, allowed: int) -> None:
        if len(self._exchanges) > allowed:
            self._close(next(iter(self._exchanges)))

    def _go_on(self, descriptor: int) -> None:
        exchange = self._exchanges[descriptor]
        try:
            if not exchange.unsent:
                if not exchange.receive():
                    return
                exchange.unsent = _Handler(exchange.received, self._agent).respond()
                self._selector.modify(descriptor, EVENT_WRITE)
            if exchange.send():
                exchange.connection.shutdown(socket.SHUT_WR)
                self._close(descriptor)
        except BlockingIOError:
            return
        except OSError:
            self._close(descriptor)
        except Exception:
            # One request of many: a bug in a page must not end the server.
            LOG.exception("page_failed")
            self._close(descriptor)

    def _close_late(self) -> None:
        now = self._clock.elapsed()
        for descriptor in [number for number, exchange in self._exchanges.items() if exchange.end <= now]:
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._exchanges.pop(descriptor).connection.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers a request that has come as a whole."""

    server_version = "fairwarning-agent"
    sys_version = ""

    def __init__(self, request: bytes, agent: AgentStatus) -> None:
        self._answer = BytesIO()
        self._agent = agent
        self.rfile, self.wfile = BytesIO(request), self._answer

    def respond(self) -> bytes:
        """Return the answer, with its head."""
        self.handle()
        return self._answer.getvalue()

    def do_GET(self) -> None:
        """Answer with the page."""
        page = answer(self.path, self._agent)
        body = page.text.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a client that polls every second would fill the log."""
