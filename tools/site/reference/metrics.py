"""The page of the metrics: what a server, its workers and an agent report at ``/metrics``."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from urllib.request import Request, urlopen

from fairwarning.agent.http_server import PAGES
from fairwarning.agent.loop import Snapshot
from fairwarning.agent.telemetry import HELP, AgentMetrics
from fairwarning.formats.prometheus import MetricFamily, parse_metrics
from fairwarning.supervisor.status import own_families
from tools.site.reference.tables import table

HEAD = """\
# Metrics

Metrics are served in Prometheus' text format. With a token, `/metrics` of the server needs it.
"""
WORKERS = """\
`fairwarning serve --workers N` adds up the metrics of the workers. Gauges that are about one worker get the
label `worker`. It adds:
"""
#: A server with one machine of each kind of set, so that every metric has a sample.
SERVER = ("up", "--port-base", "0", "--scale-set", "web=1", "--vm", "db")
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
#: How often, and how many times, the server is looked at until it is ready.
LOOK, LOOKS = 0.1, 600


def metrics() -> str:
    """Return the page."""
    return "\n".join(
        [
            HEAD,
            "## Server\n\nAt the operator address.\n",
            _table(_server_families()),
            f"## Workers\n\n{WORKERS}",
            _table(own_families([], reload_failed=False)),
            "## Agent\n\nAt the address that `listen` sets.\n",
            _table(_agent_families()),
        ]
    )


def _table(families: Iterable[MetricFamily]) -> str:
    rows = ((f"`{one.name}`", one.sort.value, ", ".join(_labels(one)), one.help) for one in families)
    return table(["metric", "type", "labels", "meaning"], rows)


def _labels(family: MetricFamily) -> Iterable[str]:
    return dict.fromkeys(f"`{name}`" for sample in family.samples for name in sample.labels)


def _server_families() -> list[MetricFamily]:
    """Return the metrics of a server that has answered a poll and announced an event."""
    with tempfile.TemporaryDirectory() as scratch, _server(Path(scratch) / "ready.json") as ready:
        operator, machine = str(ready["operator"]), "web_0"
        endpoints = ready["metadata"]
        assert isinstance(endpoints, dict)
        _fetch(f"{endpoints[machine]}{EVENTS}", {"Metadata": "true"})
        body = json.dumps({"cause": "restart", "machines": [machine]}).encode()
        _fetch(f"{operator}/fleet/v1/events", {"Content-Type": "application/json"}, body)
        return parse_metrics(_fetch(f"{operator}/metrics").decode())


@contextmanager
def _server(ready: Path) -> Iterator[dict[str, object]]:
    words = [sys.executable, "-m", "fairwarning", *SERVER, "--ready-file", str(ready)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            for _ in range(LOOKS):
                if ready.exists() or process.poll() is not None:
                    break
                Event().wait(LOOK)
            if not ready.exists():
                process.kill()
                raise RuntimeError(f"the server did not start: {process.communicate()[1]}")
            content: dict[str, object] = json.loads(ready.read_text())
            yield content
        finally:
            process.terminate()


def _fetch(url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> bytes:
    with urlopen(Request(url, body, headers or {}), timeout=LOOK * LOOKS) as answer:
        content: bytes = answer.read()
        return content


class _Agent:
    """An agent that has counted everything once."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(waits={}, records={})
        self.metrics = AgentMetrics()
        self.turning = True
        for counter in HELP:
            self.metrics.count(counter, "ok")


def _agent_families() -> list[MetricFamily]:
    return parse_metrics(PAGES["/metrics"](_Agent()).text)
