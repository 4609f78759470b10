"""Runs a supervisor as a process: its signals, its private directory, and the address of its status."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from fairwarning.core.errors import FairWarningError
from fairwarning.engine.clock import SystemClock
from fairwarning.formats.log_messages import LogMessage
from fairwarning.http1.server import HttpServer
from fairwarning.service_manager import ServiceManager
from fairwarning.supervisor.status import StatusApp, WorkerReports
from fairwarning.supervisor.supervisor import CannotShareError, ListenAddress, WorkerSupervisor
from fairwarning.supervisor.worker import Launch

log = logging.getLogger("fairwarning.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What to supervise: how many processes of which command, and where they listen."""

    workers: int
    command: Sequence[str]
    environment: Callable[[Mapping[str, str]], dict[str, str]]
    variable: str
    addresses: Sequence[ListenAddress]
    #: The address at which the supervisor answers about all workers, and the token for the metrics.
    status: tuple[str, int]
    token: str | None
    #: Reads the token again, after a reload.
    read_token: Callable[[], str | None]
    #: How long a worker may take to stop.
    drain: timedelta


async def supervise(
    plan: Supervision,
    manager: ServiceManager,
    published: Callable[[Sequence[tuple[str, int]]], AbstractContextManager[None]],
) -> None:
    """Run the workers until SIGTERM or SIGINT, and reload them at SIGHUP.

    ``published`` is entered while the workers are ready, with the addresses of the workers and the status.
    """
    stop, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    with TemporaryDirectory(prefix="fairwarning-") as directory:
        launch = Launch(
            command=plan.command,
            environment=plan.environment,
            variable=plan.variable,
            directory=Path(directory),
            drain=plan.drain,
        )
        reports = WorkerReports()
        supervisor = WorkerSupervisor(launch, plan.addresses, plan.workers, reports)
        app = StatusApp(supervisor, reports, plan.token)

        async def renew_token() -> None:
            try:
                app.set_token(await asyncio.to_thread(plan.read_token))
            except (FairWarningError, OSError) as problem:
                log.error(LogMessage("reload_failed", problem=problem))

        server = HttpServer[str](app.answer, SystemClock().now)
        try:
            listener = await server.listen_tcp(*plan.status, lambda peer: peer[0])
        except OSError as problem:
            raise CannotShareError(ListenAddress(*plan.status), problem) from problem
        addresses = [*supervisor.addresses, listener.address]
        try:
            await supervisor.run(stop, reload, manager, published(addresses), renew_token)
        finally:
            await server.close()
