"""A supervisor with real processes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.http1.messages import Request, Response
from fairwarning.http1.reuseport import ListenerGroup
from fairwarning.service_manager import ServiceManager
from fairwarning.supervisor.status import StatusApp, WorkerReports
from fairwarning.supervisor.supervisor import CannotShareError, ListenAddress, WorkerSupervisor
from fairwarning.supervisor.worker import Launch, WorkerNotReadyError, WorkerState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

GUESTS = [f"127.0.7.{number}" for number in range(1, 9)]
#: Seconds that anything may take that is not slow on purpose.
PATIENCE = 20.0


class Running(ServiceManager):
    """A supervisor of test workers, and its guests."""

    def __init__(self, folder: Path, *mode: str, workers: int = 2, silence: float = 30.0) -> None:
        super().__init__({})
        self.command = [sys.executable, "-m", "tests.supervisor.worker_program", *mode]
        launch = Launch(
            command=self.command,
            environment=lambda more: {**os.environ, **more},
            variable="WORKER",
            directory=folder,
            start=timedelta(seconds=20),
            silence=timedelta(seconds=silence),
            drain=timedelta(seconds=10),
        )
        reports = WorkerReports()
        self.supervisor = WorkerSupervisor(launch, [ListenAddress("127.0.0.1", 0)], workers, reports)
        self.app = StatusApp(self.supervisor, reports, None, patience=timedelta(seconds=1))
        self.address = self.supervisor.addresses[0]
        self.stop, self.reload, self.all_ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.notified: list[str] = []

    async def run(self) -> None:
        """Run the supervisor until it is stopped."""
        await self.supervisor.run(self.stop, self.reload, self, nullcontext(), self.reloaded)

    async def reloaded(self) -> None:
        self.notified.append("reloaded")

    async def ask(self, guest: str, path: str = "/") -> tuple[int, int]:
        """Return the index and the process id of the worker that answers a guest."""
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(guest, 0))
        try:
            return await self.ask_on(reader, writer, path, close=True)
        finally:
            writer.close()

    async def ask_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str = "/", close: bool = False
    ) -> tuple[int, int]:
        connection = "close" if close else "keep-alive"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: {connection}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (length,) = (line[16:] for line in head.split("\r\n") if line.startswith("Content-Length: "))
        index, pid = (await reader.readexactly(int(length))).split()
        if "\r\nConnection: close\r\n" in head:
            writer.close()
        return int(index), int(pid)

    async def ask_all(self) -> list[tuple[int, int]]:
        return [await self.ask(guest) for guest in GUESTS]

    async def status(self, path: str) -> Response:
        answer = self.app.answer(None, Request("GET", path, "", {"host": ("localhost",)}, b"", True))
        return answer if isinstance(answer, Response) else await answer

    async def metric(self, name: str) -> float:
        """Return a metric without labels."""
        text = (await self.status("/metrics")).body.decode()
        (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
        return float(line.split()[1])

    async def answers(self) -> float:
        """Return how many answers the workers have given, by the metrics."""
        return await self.metric("answers_total")

    def ready(self, text: str) -> None:
        self.notified.append("ready")
        self.all_ready.set()

    def alive(self, text: str) -> None:
        self.notified.append(text)

    def stopping(self) -> None:
        self.notified.append("stopping")


@asynccontextmanager
async def running(
    folder: Path, *mode: str, workers: int = 2, silence: float = 30.0
) -> AsyncIterator[Running]:
    """Run a supervisor until the block ends; a start that fails raises its error."""
    fleet = Running(folder, *mode, workers=workers, silence=silence)
    work = asyncio.create_task(fleet.run())
    ready = asyncio.create_task(fleet.all_ready.wait())
    try:
        await asyncio.wait((work, ready), return_when=asyncio.FIRST_COMPLETED)
        if fleet.all_ready.is_set():
            yield fleet
    finally:
        ready.cancel()
        fleet.stop.set()
        await work


def run(scenario: Coroutine[object, object, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_killed_worker_is_replaced_and_its_guests_are_answered_all_the_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as fleet:
            before = await fleet.ask_all()
            counted = await fleet.answers()
            (victim,) = {pid for index, pid in before if index == 1}

            os.kill(victim, signal.SIGKILL)
            await fleet.supervisor.places[1].worker.wait()
            during = [
                await fleet.ask(guest) for guest, (index, _) in zip(GUESTS, before, strict=True) if index
            ]

            await until(lambda: fleet.supervisor.places[1].live)
            after = await fleet.ask_all()
            assert {index for index, _ in before} == {0, 1}
            assert during
            assert [index for index, _ in after] == [index for index, _ in before]
            assert victim not in {pid for _, pid in after}
            assert await fleet.answers() >= counted + len(after)
            assert b"fairwarning_worker_restarts_total 1\n" in (await fleet.status("/metrics")).body

    run(scenario())


def test_a_reload_replaces_one_worker_after_the_other_and_fails_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        caplog.set_level("INFO", "fairwarning.supervisor")
        async with running(tmp_path) as fleet:
            before = await fleet.ask_all()
            counted = await fleet.answers()
            seen: list[set[int]] = []
            reader, writer = await asyncio.open_connection(*fleet.address, local_addr=(GUESTS[0], 0))

            fleet.reload.set()
            while "workers_reloaded workers=2" not in caplog.messages:
                seen.append({pid for _, pid in await fleet.ask_all()})
                if writer.is_closing():
                    reader, writer = await asyncio.open_connection(*fleet.address, local_addr=(GUESTS[0], 0))
                await fleet.ask_on(reader, writer)
            writer.close()

            after = await fleet.ask_all()
            old, new = {pid for _, pid in before}, {pid for _, pid in after}
            assert old.isdisjoint(new)
            assert [index for index, _ in after] == [index for index, _ in before]
            assert any(pids & old and pids & new for pids in seen)
            assert await fleet.answers() >= counted + len(after)
            assert "reloaded" in fleet.notified

    run(scenario())


def test_a_reload_that_fails_leaves_the_workers_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        settings = tmp_path / "settings"
        settings.write_text("good")
        async with running(tmp_path, "reads", str(settings)) as fleet:
            before = await fleet.ask_all()

            settings.write_text("broken")
            fleet.reload.set()
            await until(lambda: bool(caplog.messages))

            assert await fleet.ask_all() == before
            assert "reloaded" not in fleet.notified
            assert await fleet.metric("fairwarning_reload_failed") == 1

            settings.write_text("good")
            fleet.reload.set()
            await until(lambda: "reloaded" in fleet.notified)

            assert await fleet.metric("fairwarning_reload_failed") == 0

    run(scenario())
    assert caplog.messages == ['worker_not_replaced worker=0 problem="ended with exit code 3"']


def test_a_stop_lets_a_request_finish_before_the_address_is_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as fleet:
            answer = asyncio.create_task(fleet.ask(GUESTS[0], "/slow"))
            while await fleet.answers() < 1:
                await asyncio.sleep(0.02)

            fleet.stop.set()
            index, _ = await answer

        assert index in (0, 1)
        assert fleet.notified[:2] == ["ready", "2 of 2 workers are ready"]
        assert fleet.notified[-1] == "stopping"
        with pytest.raises(ConnectionRefusedError):
            await fleet.ask(GUESTS[0])

    run(scenario())


def test_a_stop_during_the_start_ends_what_was_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Running(tmp_path)
        work = asyncio.create_task(fleet.run())
        await until(lambda: fleet.supervisor.places[0].worker.pid is not None)

        fleet.stop.set()
        await work

        assert fleet.notified == ["stopping"]
        assert fleet.supervisor.places[0].worker.state is WorkerState.ENDED

    run(scenario())


def test_a_worker_that_gives_no_sign_of_life_is_killed_and_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "silent", workers=1, silence=0.3) as fleet:
            worker = fleet.supervisor.places[0].worker

            assert await worker.wait() == -signal.SIGKILL

    run(scenario())
    assert any(record.getMessage().startswith("worker_silent worker=0") for record in caplog.records)


def test_an_address_that_another_server_uses_is_named(tmp_path: Path) -> None:
    used = ListenerGroup("127.0.0.1", 0, 2)

    async def scenario() -> None:
        address = ListenAddress(*used.address)
        launch = Launch(command=(), environment=dict, variable="WORKER", directory=tmp_path)
        problem = f"cannot listen on 127.0.0.1:{used.address[1]}: address already in use"
        with pytest.raises(CannotShareError, match=problem):
            WorkerSupervisor(launch, [address], 2, WorkerReports())

    run(scenario())
    used.close()


def test_a_host_that_can_start_no_process_for_a_while_does_not_end_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as fleet:
            place = fleet.supervisor.places[0]
            program, fleet.command[0] = fleet.command[0], str(tmp_path / "missing")
            place.worker.signal(signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                while "worker_not_started" not in caplog.text:
                    await asyncio.sleep(0.01)
                fleet.command[0] = program
                while not place.live:
                    await asyncio.sleep(0.01)

            assert [one.state for one in fleet.supervisor.processes()] == [WorkerState.READY] * 2

    run(scenario())


def test_workers_that_cannot_start_end_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(WorkerNotReadyError, match="worker 0 ended with exit code 3 before it was ready"):
            async with running(tmp_path, "fails"):
                pass

    run(scenario())


def test_health_has_all_workers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as fleet:
            healthy = await fleet.status("/healthz")
            workers = [place.worker for place in fleet.supervisor.places]
            for worker in workers:
                worker.signal(signal.SIGKILL)
            for worker in workers:
                await worker.wait()
            dead = await fleet.status("/readyz")

            assert healthy.status == 200
            assert healthy.body.count(b'"state": "ready"') == 2
            assert dead.status == 503
            assert b"does not answer" in dead.body

    run(scenario())


def test_a_worker_that_is_frozen_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as fleet:
            (first, second) = (place.worker for place in fleet.supervisor.places)
            first.signal(signal.SIGSTOP)
            frozen = await fleet.status("/readyz")
            alive = await fleet.status("/healthz")
            first.signal(signal.SIGCONT)
            again = await fleet.status("/readyz")
            second.signal(signal.SIGKILL)
            await second.wait()
            # Its guests go to the other one until it is back.
            one_died = await fleet.status("/readyz")

            assert (frozen.status, alive.status, again.status, one_died.status) == (503, 200, 200, 200)
            assert json.loads(frozen.body)["status"] == "degraded"
            assert b"does not answer" in frozen.body

    run(scenario())
