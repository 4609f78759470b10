"""``serve --workers`` with real processes on PostgreSQL."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import NamedTuple

import httpx2
import pytest

from fairwarning.formats.prometheus import parse_metrics
from tests.cli.server import Process, call, fresh, run, until
from tests.postgres import migrated_template, new_database

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
GUESTS = [f"127.78.0.{number}" for number in range(1, 9)]

FLEET = """
driver = "simulated"
[store]
kind = "postgres"
dsn = "{dsn}"
[node]
name = "host"
[operator]
listen = "127.0.0.1:0"
[metadata]
listen = ["127.0.0.1:0"]
[workers]
status = "127.0.0.1:0"
[limits]
stop_timeout = "15s"
""" + "".join(
    f'[[machine]]\nname = "m{number}"\naddress = "{address}"\n' for number, address in enumerate(GUESTS)
)


class Health(NamedTuple):
    """What ``/healthz`` of the supervisor says about one worker."""

    pid: int
    state: str


class Serving:
    """A running ``serve --workers``, from outside."""

    def __init__(self, folder: Path, process: Process) -> None:
        ready = json.loads((folder / "ready.json").read_text())
        self.operator: str = ready["operator"]
        self.status: str = ready["status"]
        self.metadata: str = ready["shared"][0]
        self.process = process
        self._folder = folder

    def guest(self, source: str) -> httpx2.Client:
        """Return a client that calls the metadata API from an address."""
        transport = httpx2.HTTPTransport(local_address=source)
        return httpx2.Client(
            transport=transport, base_url=self.metadata, headers={"Metadata": "true"}, timeout=20
        )

    def poll(self, source: str) -> dict[str, object]:
        """Poll with a new connection."""
        with self.guest(source) as guest:
            answer = guest.get(EVENTS)
        assert answer.status_code == 200, answer.text
        document: dict[str, object] = answer.json()
        return document

    def workers(self) -> list[Health]:
        """Return what the supervisor says about its workers."""
        answer = httpx2.get(f"{self.status}/healthz").json()
        return [Health(worker["pid"], worker["state"]) for worker in answer["workers"]]

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        families = parse_metrics(httpx2.get(f"{self.status}/metrics").text)
        return sum(sample.value for family in families if family.name == name for sample in family.samples)

    def metrics_status(self, token: str) -> int:
        """Return the status of the answer to a request for the metrics with a token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.get(f"{self.status}/metrics", headers=headers).status_code

    def log(self) -> list[dict[str, object]]:
        """Return the log lines."""
        lines = (self._folder / "stderr").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self) -> set[object]:
        """Return the names of the log lines."""
        return {line["event"] for line in self.log()}

    def approve(self, source: str, event: str) -> int:
        """Approve an event, and return the status of the answer."""
        with self.guest(source) as guest:
            return guest.post(EVENTS, json={"StartRequests": [{"EventId": event}]}).status_code

    @contextmanager
    def begin_approval(self, source: str, event: str) -> Iterator[Callable[[], str]]:
        """Send all but the end of an approval; yield a function that sends the rest and reads the answer."""
        body = json.dumps({"StartRequests": [{"EventId": event}]})
        url = httpx2.URL(self.metadata)
        head = f"POST {EVENTS} HTTP/1.1\r\nHost: h\r\nMetadata: true\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((url.host, url.port or 80), 20, (source, 0)) as connection:
            connection.sendall(f"{head}{body[:-1]}".encode())

            def finish() -> str:
                connection.sendall(body[-1:].encode())
                return connection.recv(4096).decode()

            yield finish

    def accepts(self) -> bool:
        """Whether a connection is accepted."""
        url = httpx2.URL(self.metadata)
        with socket.socket() as connection:
            return connection.connect_ex((url.host, url.port or 80)) == 0

    def cause(self, machine: str) -> str:
        """Announce a restart and return the event's id."""
        done = call("cause", "restart", machine, "--json", url=self.operator)
        assert done.code == 0, done.stderr
        return str(json.loads(done.stdout)[0]["id"])

    def started(self) -> set[str]:
        """Return the events that have started."""
        rows = json.loads(call("history", "--json", url=self.operator).stdout)
        return {row["event"] for row in rows if row["kind"] == "started"}


@contextmanager
def serving(folder: Path, text: str = FLEET) -> Iterator[Serving]:
    """Run ``serve --workers 2`` during the block."""
    path, ready = folder / "fleet.toml", folder / "ready.json"
    path.write_text(text.format(dsn=new_database(migrated_template())))
    words = ["serve", "--config", str(path), "--ready-file", str(ready), "--workers", "2"]
    process = fresh(words, folder / "stdout", folder / "stderr")
    try:
        until(lambda: ready.exists() or process.poll() is not None, "serve is ready")
        assert process.poll() is None, (folder / "stderr").read_text()
        yield Serving(folder, process)
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Give one server to all tests that leave it running."""
    with serving(tmp_path_factory.mktemp("workers")) as running:
        yield running


def test_the_workers_are_nodes_of_their_own_and_their_metrics_are_one_sum(server: Serving) -> None:
    before = server.metric("fairwarning_metadata_answers_total")

    for guest in GUESTS:
        server.poll(guest)

    nodes = httpx2.get(f"{server.operator}/fleet/v1/nodes").json()["nodes"]
    assert {node["name"] for node in nodes} == {"host-0", "host-1"}
    assert server.metric("fairwarning_metadata_answers_total") == before + len(GUESTS)
    assert server.metric("fairwarning_machines") == len(GUESTS)
    assert server.metric("fairwarning_ready") == 2
    assert httpx2.get(f"{server.status}/readyz").status_code == 200
    assert {line.get("worker") for line in server.log() if line["event"] == "server_started"} == {0, 1}


@pytest.mark.story
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_no_approval_is_lost(server: Serving) -> None:
    for guest in GUESTS:
        server.poll(guest)
    events = [server.cause(f"m{number}") for number in range(4)]
    answered = server.metric("fairwarning_metadata_answers_total")
    victim = server.workers()[1].pid

    for number, event in enumerate(events):
        if number == 2:
            os.kill(victim, signal.SIGKILL)
        assert server.approve(GUESTS[number], event) == 200

    assert server.started() >= set(events)
    until(lambda: server.workers()[1].state == "ready", "the worker is back")
    assert server.workers()[1].pid != victim
    for guest in GUESTS:
        server.poll(guest)
    assert server.metric("fairwarning_metadata_answers_total") >= answered + len(GUESTS)


@pytest.mark.slow
def test_a_reload_replaces_one_worker_after_the_other_and_fails_no_request(server: Serving) -> None:
    before = [worker.pid for worker in server.workers()]
    answered = server.metric("fairwarning_metadata_answers_total")
    polls = 0

    server.process.send_signal(signal.SIGHUP)
    with server.guest(GUESTS[0]) as first, server.guest(GUESTS[1]) as second:
        while "workers_reloaded" not in server.events():
            for guest in (first, second):
                assert guest.get(EVENTS).status_code in (200, 429)
            server.poll(GUESTS[2 + polls % 6])
            polls += 1
            Event().wait(0.05)

    assert {worker.state for worker in server.workers()} == {"ready"}
    assert not {worker.pid for worker in server.workers()} & set(before)
    assert server.metric("fairwarning_metadata_answers_total") >= answered + polls


@pytest.mark.slow
def test_a_reload_changes_the_token_for_the_metrics_of_all_workers(tmp_path: Path) -> None:
    file, first, second = tmp_path / "token", "the first token of all", "the second token of all"
    file.touch(0o600)
    file.write_text(first)
    text = FLEET.replace("[operator]\n", '[operator]\ntoken_file = "token"\n')

    with serving(tmp_path, text) as server:
        before = [server.metrics_status(token) for token in (first, second)]
        file.write_text(second)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "workers_reloaded" in server.events(), "the workers are reloaded")
        after = [server.metrics_status(token) for token in (first, second)]

    assert (before, after) == ([200, 401], [401, 200])


@pytest.mark.slow
def test_a_reload_with_another_address_is_refused_and_the_workers_go_on(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        before = server.workers()
        file = tmp_path / "fleet.toml"
        file.write_text(file.read_text().replace('["127.0.0.1:0"]', '["127.0.0.2:0"]'))

        server.process.send_signal(signal.SIGHUP)
        until(lambda: "worker_not_replaced" in server.events(), "the reload is refused")

        assert server.workers() == before
        server.poll(GUESTS[0])
        text = (tmp_path / "stderr").read_text()
        assert (
            "cannot listen on 127.0.0.2:0: the supervisor has no socket for this address; restart it" in text
        )


@pytest.mark.slow
def test_a_stop_answers_long_polls_and_finishes_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.guest(GUESTS[0]) as guest, ThreadPoolExecutor(1) as thread:
        server.poll(GUESTS[1])
        known = guest.get(EVENTS).headers["ETag"]
        poll = thread.submit(guest.get, f"{EVENTS}&wait=60", headers={"If-None-Match": known})
        until(lambda: server.metric("fairwarning_metadata_watchers") == 1, "the guest waits")
        with server.begin_approval(GUESTS[1], server.cause("m1")) as finish:
            server.process.terminate()
            until(lambda: not server.accepts(), "no connection is accepted")

            assert poll.result(timeout=10).status_code == 304
            assert finish().startswith("HTTP/1.1 200 ")
        assert server.process.wait(timeout=20) == 0
    assert "worker_killed" not in server.events()


@pytest.mark.slow
def test_the_workers_of_a_supervisor_that_is_killed_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        pids = [worker.pid for worker in server.workers()]

        server.process.kill()

        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the workers have ended")


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_command(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET.format(dsn=new_database()))

    done = run("serve", "--config", str(path), "--workers", "2")

    assert done.code == 1
    assert done.stderr.splitlines()[-1] == "error: worker 0 ended with exit code 1 before it was ready"


@pytest.mark.parametrize("option", ["--config", "--check"])
def test_several_workers_on_sqlite_are_refused(tmp_path: Path, option: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[store]\nkind = "sqlite"\npath = "data"\n[metadata]\nsockets = "guests"\n')

    done = call("serve", option, str(path), "--workers", "2")

    assert done.code == 2
    assert "--workers needs PostgreSQL" in done.stderr
    assert "one process alone can use an SQLite file" in done.stderr
    assert "[metadata] sockets cannot be shared" in done.stderr
