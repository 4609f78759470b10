"""What the supervisor answers, and to whom."""

import asyncio
from pathlib import Path

import pytest

from fairwarning.config import Settings
from fairwarning.formats.prometheus import MetricType, parse_metrics
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.server import FleetServer
from fairwarning.supervisor.metrics import FLEET_METRICS, SHARED_GAUGES
from fairwarning.supervisor.status import METRICS_PATIENCE, StatusApp, WorkerReports, fetch
from fairwarning.supervisor.supervisor import WorkerSupervisor
from fairwarning.supervisor.worker import Launch
from fairwarning.throttle import DELAYS, MAX_WAITING, Throttle

TOKEN = "a-token-that-is-long-enough"

#: What a worker has counted itself: these counters are added.
WORK = {
    "fairwarning_http_closed_total",
    "fairwarning_http_connections_total",
    "fairwarning_metadata_answers_total",
    "fairwarning_metadata_connections_total",
    "fairwarning_metadata_rests_total",
    "fairwarning_metadata_throttled_total",
    "fairwarning_metadata_turned_away_total",
    "fairwarning_streams_refused_total",
}


def status_app(folder: Path, token: str | None, throttle: Throttle | None = None) -> StatusApp:
    """Return the app of a supervisor without workers."""
    launch = Launch(command=(), environment=dict, variable="WORKER", directory=folder)
    reports = WorkerReports()
    return StatusApp(WorkerSupervisor(launch, [], 0, reports), reports, token, throttle)


def request_of(path: str, method: str = "GET", **headers: str) -> Request:
    return Request(method, path, "", {name: (value,) for name, value in headers.items()}, b"", True)


async def settled(reply: Reply) -> Response:
    return reply if isinstance(reply, Response) else await reply


def ask(
    folder: Path,
    path: str,
    token: str | None,
    method: str = "GET",
    throttle: Throttle | None = None,
    **headers: str,
) -> Response:
    """Ask a supervisor without workers."""

    async def scenario() -> Response:
        app = status_app(folder, token, throttle)
        return await settled(app.answer("10.0.0.1", request_of(path, method, **headers)))

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:9464", 200, id="from this host"),
        pytest.param("evil.example", 403, id="by a name that a web page chose"),
    ],
)
def test_without_a_token_metrics_are_for_callers_of_loopback(tmp_path: Path, host: str, status: int) -> None:
    assert ask(tmp_path, "/metrics", None, host=host).status == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="the token"),
        pytest.param("Bearer wrong", 401, id="another token"),
        pytest.param("", 401, id="no token"),
    ],
)
def test_with_a_token_metrics_need_it(tmp_path: Path, authorization: str, status: int) -> None:
    answer = ask(tmp_path, "/metrics", TOKEN, host="metrics.example", authorization=authorization)

    assert answer.status == status


def test_each_further_wrong_token_waits_longer(tmp_path: Path) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    throttle = Throttle(lambda: 0.0, sleep)
    for authorization in ("Bearer wrong", "", f"Bearer {TOKEN}", "Bearer wrong", "Bearer wrong"):
        ask(tmp_path, "/metrics", TOKEN, throttle=throttle, authorization=authorization)

    assert delays == list(DELAYS[:3])


def test_a_wrong_token_is_refused_at_once_while_too_many_wait(tmp_path: Path) -> None:
    async def scenario() -> Response:
        held = asyncio.Event()

        async def sleep(seconds: float) -> None:
            await held.wait()

        app = status_app(tmp_path, TOKEN, Throttle(lambda: 0.0, sleep))
        request = request_of("/metrics", authorization="Bearer wrong")
        guesses = [
            asyncio.ensure_future(settled(app.answer("10.0.0.1", request))) for _ in range(MAX_WAITING)
        ]
        await asyncio.sleep(0)
        refused = await settled(app.answer("10.0.0.1", request))
        held.set()
        await asyncio.gather(*guesses)
        return refused

    answer = asyncio.run(scenario())

    assert (answer.status, answer.headers) == (429, (("Retry-After", "2"),))


def test_health_needs_no_token_and_says_nothing_of_the_fleet(tmp_path: Path) -> None:
    answer = ask(tmp_path, "/healthz", TOKEN, host="metrics.example")

    assert (answer.status, answer.body) == (503, b'{"status": "failed", "workers": []}')


def test_other_paths_and_methods_are_refused(tmp_path: Path) -> None:
    assert ask(tmp_path, "/fleet/v1/events", None, host="localhost").status == 404
    assert ask(tmp_path, "/metrics", None, "POST", host="localhost").status == 405


def test_it_is_decided_for_every_metric_of_a_server_how_workers_share_it(tmp_path: Path) -> None:
    async def metrics() -> str:
        path = tmp_path / "worker.sock"
        async with FleetServer(Settings(port_base=0), internal=path):
            answer = await fetch(path, "/metrics", METRICS_PATIENCE)
        assert answer is not None
        return answer[1].decode()

    families = parse_metrics(asyncio.run(metrics()))

    counters = {family.name for family in families if family.sort is MetricType.COUNTER}
    assert counters - FLEET_METRICS == WORK
    assert {family.name for family in families} >= FLEET_METRICS | SHARED_GAUGES
