"""What the supervisor answers at its own address: ``/metrics``, ``/healthz`` and ``/readyz`` of all workers.

The supervisor asks every worker at its internal address when it is asked. ``/healthz`` is 200 while at least
one worker answers 200. ``/readyz`` is 200 while every worker that gets connections answers 200 in time: the
connections of a worker that has died go to the others, but a worker that is frozen, or not ready itself,
still gets its share. The body has every worker, and ``fairwarning_workers`` in the metrics counts them.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from itertools import compress
from operator import not_
from pathlib import Path

from fairwarning.access import bearer_token_matches, has_bearer_token, hosts_are_loopback
from fairwarning.core.document.render import Json
from fairwarning.formats.prometheus import (
    MEDIA_TYPE,
    MetricFamily,
    MetricType,
    Sample,
    parse_metrics,
    render_metrics,
)
from fairwarning.http1.messages import JSON, Reply, Request, Response, failure
from fairwarning.supervisor.metrics import CombinedMetrics
from fairwarning.supervisor.supervisor import Place, WorkerSupervisor
from fairwarning.supervisor.worker import Worker, WorkerState
from fairwarning.throttle import Throttle, TooManyGuessesError

#: How long a worker may take for its metrics, and for its health.
METRICS_PATIENCE, HEALTH_PATIENCE = timedelta(seconds=5), timedelta(seconds=2)

_READY_PATH = "/readyz"
_HEALTH_PATHS = "/healthz", _READY_PATH


class WorkerReports:
    """What workers report about themselves, those that have ended included."""

    def __init__(self) -> None:
        self._metrics = CombinedMetrics()

    async def before_stop(self, worker: Worker) -> None:
        """Take what the worker has counted."""
        await self._ask(worker)

    async def metrics(self, workers: Callable[[], Sequence[Worker]]) -> list[MetricFamily]:
        """Return the metrics of the workers and of all that have ended."""
        await asyncio.gather(*map(self._ask, workers()))
        # Some may have ended or begun meanwhile.
        self._metrics.forget_others({worker.number for worker in workers()})
        return list(self._metrics.families())

    async def _ask(self, worker: Worker) -> None:
        answer = await fetch(worker.internal, "/metrics", METRICS_PATIENCE)
        if answer is not None and answer[0] == HTTPStatus.OK:
            self._metrics.report(worker.number, worker.index, parse_metrics(answer[1].decode()))


class StatusApp:
    """Answers about the workers of a supervisor; with a token, metrics need it."""

    def __init__(
        self,
        supervisor: WorkerSupervisor,
        reports: WorkerReports,
        token: str | None,
        throttle: Throttle | None = None,
        patience: timedelta = HEALTH_PATIENCE,
    ) -> None:
        self._supervisor = supervisor
        self._patience = patience
        self._reports = reports
        self._throttle = throttle or Throttle()
        self.set_token(token)

    def set_token(self, token: str | None) -> None:
        """Ask for another token from now on."""
        self._token = None if token is None else token.encode()

    def answer(self, caller: str | None, request: Request) -> Reply:
        """Answer one request."""
        if request.path not in ("/metrics", *_HEALTH_PATHS):
            return failure(404, "not found")
        if request.method not in ("GET", "HEAD"):
            return failure(405, "only GET and HEAD are allowed")
        if request.path in _HEALTH_PATHS:
            return self._health(request.path)
        return self._metrics(caller or "", request)

    async def _refusal(self, caller: str, request: Request) -> Response | None:
        if self._token is not None:
            return await self._check_token(caller, request.headers.get("authorization", ()), self._token)
        if hosts_are_loopback(request.headers.get("host", ())):
            return None
        return failure(403, "without a token, the Host header must name a loopback address")

    async def _check_token(self, caller: str, authorization: Sequence[str], token: bytes) -> Response | None:
        if bearer_token_matches(authorization, token):
            return None
        if has_bearer_token(authorization):
            try:
                await self._throttle.wrong_token(caller)
            except TooManyGuessesError as error:
                return replace(failure(429, str(error)), headers=(("Retry-After", error.retry_after),))
        return failure(401, "a bearer token is required")

    async def _metrics(self, caller: str, request: Request) -> Response:
        refusal = await self._refusal(caller, request)
        if refusal is not None:
            return refusal
        supervisor = self._supervisor
        families = await self._reports.metrics(supervisor.processes)
        own = own_families(supervisor.places, reload_failed=supervisor.reload_failed)
        names = {family.name for family in own}
        text = render_metrics((*own, *(family for family in families if family.name not in names)))
        return Response(200, text.encode(), content_type=MEDIA_TYPE)

    async def _health(self, path: str) -> Response:
        places = self._supervisor.places
        asked = [place.worker for place in places]
        answers = await asyncio.gather(*(fetch(worker.internal, path, self._patience) for worker in asked))
        good = [answer is not None and answer[0] == HTTPStatus.OK for answer in answers]
        # A worker that has ended meanwhile gets no connections any more.
        bad = [worker for worker in compress(asked, map(not_, good)) if worker.state is WorkerState.READY]
        status = "failed" if not any(good) else "degraded" if bad and path == _READY_PATH else "ok"
        workers = [_described(place, answer) for place, answer in zip(places, answers, strict=True)]
        body = json.dumps({"status": status, "workers": workers})
        return Response(200 if status == "ok" else 503, body.encode(), content_type=JSON)


async def fetch(internal: Path, target: str, patience: timedelta) -> tuple[int, bytes] | None:
    """Return status and body of a worker's answer at its internal address; None if there is none in time."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(patience.total_seconds()):
            reader, writer = await asyncio.open_unix_connection(internal)
            try:
                writer.write(request.encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
        return int(head.split(b" ", 2)[1]), body
    except (OSError, TimeoutError, LookupError, ValueError):
        return None


def _described(place: Place, answer: tuple[int, bytes] | None) -> dict[str, Json]:
    worker = place.worker
    described: dict[str, Json] = {
        "worker": place.index,
        "pid": worker.pid,
        "state": worker.state.value,
        "restarts": place.restarts,
    }
    if answer is None:
        return {**described, "problem": "the worker does not answer"}
    status, body = answer
    try:
        return {**described, "http_status": status, "answer": json.loads(body)}
    except ValueError:
        return {**described, "http_status": status}


def own_families(places: Sequence[Place], *, reload_failed: bool) -> tuple[MetricFamily, ...]:
    """Return the metrics of the supervisor itself."""
    states = [place.worker.state for place in places]
    counts = tuple(Sample(states.count(state), {"state": state.value}) for state in WorkerState)
    restarts = sum(place.restarts for place in places)
    return (
        MetricFamily("fairwarning_workers", MetricType.GAUGE, "Workers, by state.", counts),
        MetricFamily(
            "fairwarning_worker_restarts_total",
            MetricType.COUNTER,
            "Times that a worker was started again because it had died.",
            (Sample(restarts),),
        ),
        MetricFamily(
            "fairwarning_reload_failed",
            MetricType.GAUGE,
            "Whether a worker could not be replaced at the last reload.",
            (Sample(int(reload_failed)),),
        ),
    )
