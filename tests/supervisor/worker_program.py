"""A worker without a fleet: answers with its index and process id, and counts its answers.

Usage: python -m tests.supervisor.worker_program [MODE [FILE]]

``fails`` ends at once, ``silent`` gives no sign of life once it is ready, ``reads FILE`` ends at once if the
file says ``broken``.
"""

import asyncio
import os
import signal
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample, render_metrics
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Rate
from fairwarning.supervisor.assignment import Assignment, InheritedSockets, end_with_supervisor


class Program:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._answers = 0

    def answer(self, caller: str | None, request: Request) -> Reply:
        if caller == "supervisor":
            return self._internal(request.path)
        self._answers += 1
        return self._slowly() if request.path == "/slow" else self._who()

    def _internal(self, path: str) -> Response:
        if path != "/metrics":
            return Response(200, b'{"status":"ok"}')
        answers = MetricFamily("answers_total", MetricType.COUNTER, "Answers.", (Sample(self._answers),))
        return Response(200, render_metrics([answers]).encode())

    async def _slowly(self) -> Response:
        await asyncio.sleep(0.5)
        return self._who()

    def _who(self) -> Response:
        return Response(200, f"{self._assignment.worker} {os.getpid()}".encode())


def notify(text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])


async def main(mode: str) -> None:
    assignment = Assignment.decode(os.environ["WORKER"])
    end_with_supervisor(assignment)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sockets, program = InheritedSockets(assignment), Program(assignment)
    limits = Limits(grace=9, linger=8, steps=Rate(1e9, 1e9))
    server = HttpServer[str](program.answer, lambda: datetime.now(UTC), limits, bind=sockets.bind)
    await server.listen_unix(assignment.internal, "supervisor")
    for inherited in assignment.sockets:
        await server.listen_tcp(inherited.host, inherited.port, lambda peer: "guest")
    notify("READY=1")
    while not stop.is_set():
        if mode != "silent":
            notify("WATCHDOG=1")
        await asyncio.wait([asyncio.ensure_future(stop.wait())], timeout=0.1)
    await server.close()


if __name__ == "__main__":
    MODE, *rest = [*sys.argv[1:], "plain"]
    if MODE == "fails" or (MODE == "reads" and Path(rest[0]).read_text() == "broken"):
        raise SystemExit(3)
    asyncio.run(main(MODE))
