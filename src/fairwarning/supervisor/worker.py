"""One worker process: started, told to be ready by itself, stopped.

A worker speaks systemd's notify protocol (``READY=1``, ``WATCHDOG=1``) to a socket of the supervisor, and
answers at an internal address. Both are files in a directory that only this user may enter.

    FairWarningError
    └── WorkerNotReadyError   a worker ended, or took too long, before it was ready
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from fairwarning.core.errors import FairWarningError
from fairwarning.formats.durations import for_people
from fairwarning.supervisor.assignment import Assignment, InheritedSocket

#: The longest notification.
_MAX_BYTES = 4096


class WorkerState(StrEnum):
    """How far a worker is."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    ENDED = "ended"


class WorkerNotReadyError(FairWarningError):
    """A worker ended, or took too long, before it was ready."""

    status_hint = 500

    def __init__(self, worker: int, problem: str) -> None:
        super().__init__(f"worker {worker} {problem} before it was ready")
        self.worker = worker
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How workers are started: the command, its environment, and how long they may take."""

    command: Sequence[str]
    #: The environment for a worker, plus these variables.
    environment: Callable[[Mapping[str, str]], dict[str, str]]
    #: The variable that holds the assignment.
    variable: str
    #: Private files: the sockets of notifications and internal addresses.
    directory: Path
    #: How long a worker may take to be ready, may be silent, and may take to stop.
    start: timedelta = timedelta(minutes=5)
    silence: timedelta = timedelta(seconds=30)
    drain: timedelta = timedelta(seconds=30)


class Worker:
    """A process that serves as one node."""

    def __init__(self, launch: Launch, index: int, number: int, sockets: Sequence[InheritedSocket]) -> None:
        """Take how to start it, its place among the workers, and the number of the process."""
        self.index = index
        self.number = number
        self.state = WorkerState.STARTING
        self.pid: int | None = None
        self._launch = launch
        self._sockets = tuple(sockets)
        self.internal = launch.directory / f"worker-{number}.sock"
        self._notify_path = launch.directory / f"worker-{number}.notify"
        self._ready = asyncio.Event()
        self._last_sign = 0.0
        self._exit: asyncio.Task[int] | None = None

    async def start(self) -> None:
        """Start the process, and return once it is ready.

        Raises:
            WorkerNotReadyError: it could not be started, ended, or took too long.
        """
        try:
            self._exit = exited = await self._spawn()
        except OSError as problem:  # the host has no memory or no processes left, for the moment
            self.state = WorkerState.ENDED
            raise WorkerNotReadyError(self.index, f"failed ({problem.strerror or problem})") from problem
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                (ready, exited),
                timeout=self._launch.start.total_seconds(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            ready.cancel()
        if exited.done():
            raise WorkerNotReadyError(self.index, f"ended with {describe_exit(exited.result())}")
        if not self._ready.is_set():
            self.signal(signal.SIGKILL)
            await exited
            raise WorkerNotReadyError(self.index, f"took more than {for_people(self._launch.start)}")

    def identity(self) -> dict[str, int | None]:
        """Return the fields that name this process in the log."""
        return {"worker": self.index, "pid": self.pid}

    async def wait(self) -> int:
        """Return the exit code once the process has ended; negative is the signal that killed it."""
        assert self._exit is not None, "the worker was never started"
        return await asyncio.shield(self._exit)

    def silent(self) -> bool:
        """Whether a ready worker has given no sign of life for too long."""
        age = asyncio.get_running_loop().time() - self._last_sign
        return self.state is WorkerState.READY and age > self._launch.silence.total_seconds()

    async def stop(self) -> bool:
        """Have the worker finish its work and end; False if it took too long and was killed."""
        if self._exit is None or self._exit.done():
            return True
        self.state = WorkerState.STOPPING
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait(), self._launch.drain.total_seconds())
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.wait()
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.pid is not None and self.state is not WorkerState.ENDED:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _spawn(self) -> "asyncio.Task[int]":
        launch = self._launch
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        channel.bind(str(self._notify_path))
        asyncio.get_running_loop().add_reader(channel, self._notified, channel)
        assignment = Assignment(
            worker=self.index, supervisor_pid=os.getpid(), internal=self.internal, sockets=self._sockets
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.command,
                env=launch.environment(
                    {
                        launch.variable: assignment.encode(),
                        "NOTIFY_SOCKET": str(self._notify_path),
                        "WATCHDOG_USEC": str(launch.silence // timedelta(microseconds=1)),
                        # The watchdog of the supervisor names the supervisor's process.
                        "WATCHDOG_PID": "",
                    }
                ),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[inherited.descriptor for inherited in self._sockets],
                # Ctrl-C in a terminal reaches the supervisor alone, which stops the workers in order.
                start_new_session=True,
            )
        except BaseException:
            self._close(channel)
            raise
        self.pid = process.pid
        return asyncio.create_task(self._wait_for_exit(process, channel))

    async def _wait_for_exit(self, process: asyncio.subprocess.Process, channel: socket.socket) -> int:
        code = await process.wait()
        self.state = WorkerState.ENDED
        self._close(channel)
        return code

    def _close(self, channel: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(channel)
        channel.close()
        self._notify_path.unlink(missing_ok=True)
        self.internal.unlink(missing_ok=True)

    def _notified(self, channel: socket.socket) -> None:
        with suppress(BlockingIOError):
            lines = channel.recv(_MAX_BYTES).decode(errors="replace").split("\n")
            self._last_sign = asyncio.get_running_loop().time()
            if "READY=1" in lines and self.state is WorkerState.STARTING:
                self.state = WorkerState.READY
                self._ready.set()


def describe_exit(code: int) -> str:
    """Return an exit code in words, such as ``exit code 1`` or ``SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
