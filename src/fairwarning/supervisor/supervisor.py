"""Keeps a number of workers running, and stops, restarts and reloads them without losing a request.

Every worker has a place, its index, and one socket of each address. The sockets stay open here, so a place
outlives its process: a guest reaches the same index after a restart or a reload (``http1/reuseport.py``).

- A worker that dies is started again. Meanwhile its guests are sent to the other workers.
- A reload starts a second process in each place, one place after the other. Both accept on the same socket
  until the new one is ready and the old one drains, so no connection is refused.
- A stop closes the sockets here first: new connections are refused while the workers drain.

    FairWarningError
    └── CannotShareError   an address cannot be bound; names the address
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import compress, count
from operator import not_
from typing import NamedTuple, Protocol

from fairwarning.core.errors import FairWarningError
from fairwarning.formats.log_messages import LogMessage
from fairwarning.http1.reuseport import ListenerGroup
from fairwarning.service_manager import ServiceManager
from fairwarning.supervisor.assignment import InheritedSocket
from fairwarning.supervisor.worker import Launch, Worker, WorkerNotReadyError, WorkerState, describe_exit

log = logging.getLogger("fairwarning.supervisor")

#: Seconds before a worker that died is started again; the last entry repeats.
PAUSES = 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0

#: A worker that lived this long has the first pause again.
STEADY = timedelta(minutes=1)

#: Seconds between two looks for silent workers.
_LOOK = 1.0


class ListenAddress(NamedTuple):
    """An address that all workers share."""

    host: str
    port: int
    #: Whether ``::`` serves IPv4, too.
    dual_stack: bool = False


class CannotShareError(FairWarningError):
    """An address that workers share cannot be bound."""

    status_hint = 500

    def __init__(self, address: ListenAddress, problem: OSError) -> None:
        host = f"[{address.host}]" if ":" in address.host else address.host
        reason = problem.strerror or str(problem)
        super().__init__(f"cannot listen on {host}:{address.port}: {reason[:1].lower()}{reason[1:]}")
        self.address = address


class Observer(Protocol):
    """Is asked for a last look at a worker that is about to stop."""

    async def before_stop(self, worker: Worker) -> None:
        """Take what the worker still has to say."""
        ...


class Place:
    """The place of one worker, whichever process is in it."""

    def __init__(
        self, index: int, new_worker: Callable[[int], Worker], changed: Callable[[], None], observer: Observer
    ) -> None:
        self.index = index
        #: The process that new connections are meant for.
        self.worker = new_worker(index)
        self.restarts = 0
        self._new_worker = new_worker
        self._changed = changed
        self._observer = observer
        #: Deaths without a steady life between them.
        self._deaths = 0
        self._ready_since = 0.0
        self._occupying = asyncio.Lock()

    @property
    def live(self) -> bool:
        """Whether a process is ready here."""
        return self.worker.state is WorkerState.READY

    async def start(self) -> None:
        """Start the worker of this place, and return once it is ready.

        Raises:
            WorkerNotReadyError: it ended, or took too long.
        """
        await self.worker.start()
        self._became_ready(self.worker)

    async def keep(self) -> None:
        """Start the worker again whenever it dies, until cancelled."""
        while True:
            worker = self.worker
            code = await worker.wait()
            async with self._occupying:
                if self.worker is worker:
                    self._changed()
                    log.error(LogMessage("worker_died", **worker.identity(), exit=describe_exit(code)))
                    await self._start_again()

    async def replace(self) -> None:
        """Put a new process in this place, and have the old one finish its work and end.

        Raises:
            WorkerNotReadyError: the new process did not become ready; the old one stays.
        """
        async with self._occupying:
            old, new = self.worker, self._new_worker(self.index)
            await new.start()
            self._became_ready(new)
        await self._observer.before_stop(old)
        if not await old.stop():
            log.error(LogMessage("worker_killed", **old.identity()))

    async def _start_again(self) -> None:
        lived = asyncio.get_running_loop().time() - self._ready_since
        if lived > STEADY.total_seconds():
            self._deaths = 0
        while not self.live:
            await asyncio.sleep(PAUSES[min(self._deaths, len(PAUSES) - 1)])
            self._deaths += 1
            self.restarts += 1
            self.worker = self._new_worker(self.index)
            try:
                await self.start()
            except WorkerNotReadyError as problem:
                log.error(LogMessage("worker_not_started", **self.worker.identity(), problem=problem.problem))

    def _became_ready(self, worker: Worker) -> None:
        self.worker = worker
        self._ready_since = asyncio.get_running_loop().time()
        self._changed()
        log.info(LogMessage("worker_ready", **worker.identity()))


class WorkerSupervisor:
    """All places, and the sockets that their workers share."""

    def __init__(
        self, launch: Launch, addresses: Sequence[ListenAddress], workers: int, observer: Observer
    ) -> None:
        """Open the sockets.

        Raises:
            CannotShareError: an address cannot be bound.
        """
        #: Whether a worker could not be replaced at the last reload.
        self.reload_failed = False
        self._launch = launch
        self._numbers = count(1)
        self._processes: list[Worker] = []
        self._groups: list[tuple[ListenAddress, ListenerGroup]] = []
        for address in addresses:
            host, port, dual_stack = address
            try:
                group = ListenerGroup(host, port, workers, dual_stack=dual_stack)
            except OSError as problem:
                self._close_sockets()
                raise CannotShareError(address, problem) from problem
            self._groups.append((address, group))
        self.places = [Place(index, self._new_worker, self._direct, observer) for index in range(workers)]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses that are listened on, with the ports that were free."""
        return [group.address for _, group in self._groups]

    def processes(self) -> list[Worker]:
        """Return the processes that have not ended, those that are being replaced included."""
        self._processes = [worker for worker in self._processes if worker.state is not WorkerState.ENDED]
        return list(self._processes)

    async def run(
        self,
        stop: asyncio.Event,
        reload: asyncio.Event,
        manager: ServiceManager,
        while_ready: AbstractContextManager[None],
        reloaded: Callable[[], Awaitable[None]],
    ) -> None:
        """Start the workers, keep them running and reload them on request, until ``stop`` is set.

        ``reloaded`` is called when all workers are replaced.

        Raises:
            WorkerNotReadyError: a worker could not start when all of them were started.
        """
        stopped = asyncio.create_task(stop.wait())
        work = asyncio.create_task(self._work(reload, manager, while_ready, reloaded))
        try:
            await asyncio.wait((stopped, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        finally:
            manager.stopping()
            for task in (stopped, work):
                task.cancel()
            await asyncio.gather(stopped, work, return_exceptions=True)
            await self._stop()

    async def _work(
        self,
        reload: asyncio.Event,
        manager: ServiceManager,
        while_ready: AbstractContextManager[None],
        reloaded: Callable[[], Awaitable[None]],
    ) -> None:
        # One after the other: the first may have to prepare the store.
        for place in self.places:
            await place.start()
        manager.ready(self._summary())
        with while_ready:
            await self._keep(reload, manager, reloaded)

    async def _keep(
        self, reload: asyncio.Event, manager: ServiceManager, reloaded: Callable[[], Awaitable[None]]
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            for place in self.places:
                tasks.create_task(place.keep())
            tasks.create_task(self._watch(manager))
            while True:
                await reload.wait()
                reload.clear()
                self.reload_failed = not await self._replace_all()
                if not self.reload_failed:
                    await reloaded()
                    log.info(LogMessage("workers_reloaded", workers=len(self.places)))

    async def _watch(self, manager: ServiceManager) -> None:
        """Kill workers that give no sign of life, and give one to the service manager."""
        while True:
            manager.alive(self._summary())
            await asyncio.sleep(_LOOK)
            for worker in filter(Worker.silent, self.processes()):
                log.error(LogMessage("worker_silent", **worker.identity()))
                worker.signal(signal.SIGKILL)

    def _summary(self) -> str:
        return f"{sum(place.live for place in self.places)} of {len(self.places)} workers are ready"

    async def _replace_all(self) -> bool:
        """Replace the workers one after the other; False if one cannot be replaced, which ends the reload."""
        for place in self.places:
            try:
                await place.replace()
            except WorkerNotReadyError as problem:
                log.error(LogMessage("worker_not_replaced", worker=place.index, problem=problem.problem))
                return False
        return True

    async def _stop(self) -> None:
        """Refuse new connections, and have all workers finish their work and end."""
        self._close_sockets()
        processes = self.processes()
        in_time = await asyncio.gather(*map(Worker.stop, processes))
        for worker in compress(processes, map(not_, in_time)):
            log.error(LogMessage("worker_killed", **worker.identity()))

    def _close_sockets(self) -> None:
        for _, group in self._groups:
            group.close()
        self._groups = []

    def _new_worker(self, index: int) -> Worker:
        sockets = [
            InheritedSocket(host=address.host, port=address.port, descriptor=group.sockets[index].fileno())
            for address, group in self._groups
        ]
        worker = Worker(self._launch, index, next(self._numbers), sockets)
        self._processes.append(worker)
        return worker

    def _direct(self) -> None:
        live = [place.index for place in self.places if place.live]
        for _, group in self._groups:
            group.direct(live)
