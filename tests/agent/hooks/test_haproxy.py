"""A real HAProxy takes this machine's server out of rotation and puts it back."""

import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairwarning.agent.hooks import UNREPORTED, Hook, HookOutcome, parse
from fairwarning.agent.hooks.haproxy import FOUND, OURS, HAProxyError, admin_state, sessions
from tests.agent.hooks.contexts import in_seconds, noon, prepare, recover
from tests.cli.server import free_port
from tests.needs import found

PROGRAM = found("haproxy") or ""


CONFIG = """
global
    stats socket {admin} level admin
    stats socket 127.0.0.1:{admin_port} level admin
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{port}
    default_backend web
backend web
    balance roundrobin
    server s1 127.0.0.1:{s1}
    server s2 127.0.0.1:{s2}
"""


@dataclass(frozen=True, slots=True)
class Balancer:
    """A running HAProxy with servers s1 and s2, each of which sends its name to every client."""

    admin: str
    admin_port: int
    port: int

    def hook(self, verb: str, **options: str) -> Hook:
        return parse({"haproxy": {verb: "web/s1", "socket": self.admin, **options}})

    def run(self, verb: str, remembered: str | None = None) -> HookOutcome:
        context = prepare() if verb == "drain" else recover()
        return self.hook(verb).run(context, remembered, noon)

    def tell(self, command: str) -> str:
        """Return what HAProxy answers to an administrator."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.admin)
            line.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: line.recv(65536), b"")).decode()

    def state(self) -> int:
        return admin_state(self.tell("show servers state web"), "web/s1")

    def connect(self) -> tuple[socket.socket, str]:
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        return connection, connection.recv(2).decode()

    def answering(self) -> set[str]:
        """Return which servers new connections reach."""
        names = set()
        for _ in range(6):
            connection, name = self.connect()
            connection.close()
            names.add(name)
        return names


@contextmanager
def named_server(name: str) -> Iterator[int]:
    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(name.encode())
            while self.request.recv(64):
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Balancer]:
    with ExitStack() as undo:
        s1, s2 = (undo.enter_context(named_server(name)) for name in ("s1", "s2"))
        known = Balancer(str(tmp_path / "admin"), free_port(), free_port())
        place = tmp_path / "haproxy.cfg"
        place.write_text(
            CONFIG.format(admin=known.admin, admin_port=known.admin_port, port=known.port, s1=s1, s2=s2)
        )
        log = undo.enter_context((tmp_path / "log").open("wb"))
        process = subprocess.Popen([PROGRAM, "-f", str(place), "-db"], stdout=log, stderr=log)
        undo.callback(process.wait)
        undo.callback(process.kill)
        for _ in range(200):
            if Path(known.admin).exists():
                break
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        yield known


@pytest.mark.needs("haproxy")
def test_a_drained_server_gets_no_new_connections(balancer: Balancer) -> None:
    before = balancer.answering()

    outcome = balancer.run("drain")

    assert before == {"s1", "s2"}
    assert outcome.ok
    assert outcome.token == OURS
    assert balancer.answering() == {"s2"}


@pytest.mark.needs("haproxy")
def test_what_we_drained_is_made_ready_again(balancer: Balancer) -> None:
    token = balancer.run("drain").token

    outcome = balancer.run("ready", token)

    assert outcome == HookOutcome(True, "web/s1 is ready")
    assert balancer.answering() == {"s1", "s2"}


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize(
    "state", [pytest.param("maint", id="maintenance"), pytest.param("drain", id="a drain")]
)
def test_what_a_human_took_out_stays_out(state: str, balancer: Balancer) -> None:
    balancer.tell(f"set server web/s1 state {state}")
    before = balancer.state()

    drained = balancer.run("drain")
    readied = balancer.run("ready", drained.token)

    assert drained == HookOutcome(True, "web/s1 was out of rotation already", FOUND)
    assert readied.ok
    assert balancer.state() == before != 0


@pytest.mark.needs("haproxy")
def test_maintenance_that_a_human_began_after_our_drain_goes_on(balancer: Balancer) -> None:
    token = balancer.run("drain").token
    balancer.tell("set server web/s1 state maint")
    before = balancer.state()

    again = balancer.run("drain", token)
    readied = balancer.run("ready", token)

    assert again.token == FOUND
    assert readied.message == "web/s1 is in maintenance by now; left as it is"
    assert balancer.state() == before


@pytest.mark.needs("haproxy")
def test_a_drain_that_was_begun_and_never_reported_is_undone(balancer: Balancer) -> None:
    balancer.run("drain")

    balancer.run("ready", UNREPORTED)

    assert balancer.state() == 0


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize(
    "remembered",
    [
        pytest.param(OURS, id="after it was noted"),
        pytest.param(UNREPORTED, id="after an agent that died before it could note it"),
    ],
)
def test_draining_again_is_still_our_drain(remembered: str, balancer: Balancer) -> None:
    balancer.run("drain")

    again = balancer.run("drain", remembered)
    balancer.run("ready", again.token)

    assert again.token == OURS
    assert balancer.state() == 0


@pytest.mark.needs("haproxy")
def test_a_drain_waits_for_the_sessions_of_the_server(balancer: Balancer) -> None:
    open_ones = [balancer.connect() for _ in range(2)]
    hook = balancer.hook("drain", wait="60s")

    with ThreadPoolExecutor() as pool:
        running = pool.submit(hook.run, prepare(), None, noon)
        while balancer.state() == 0:
            assert not running.done()
        for connection, _ in open_ones:
            connection.close()
        outcome = running.result(30)

    assert {name for _, name in open_ones} == {"s1", "s2"}
    assert outcome == HookOutcome(True, "web/s1 is drained", OURS)


@pytest.mark.needs("haproxy")
def test_sessions_that_outlast_the_wait_are_reported(balancer: Balancer) -> None:
    open_ones = [balancer.connect() for _ in range(2)]

    outcome = balancer.hook("drain", wait="1s").run(prepare(deadline=in_seconds(60)), None, noon)
    for connection, _ in open_ones:
        connection.close()

    assert outcome == HookOutcome(True, "web/s1 is drained; sessions left: 1", OURS)


@pytest.mark.needs("haproxy")
def test_the_socket_may_be_a_port_of_another_host(balancer: Balancer) -> None:
    hook = balancer.hook("drain", socket=f"127.0.0.1:{balancer.admin_port}")

    assert hook.run(prepare(), None, noon).ok
    assert balancer.state() != 0


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize(
    "server", [pytest.param("web/s9", id="unknown server"), pytest.param("nope/s1", id="unknown backend")]
)
def test_a_server_that_is_not_there_is_a_failure(server: str, balancer: Balancer) -> None:
    outcome = parse({"haproxy": {"drain": server, "socket": balancer.admin}}).run(prepare(), None, noon)

    assert not outcome.ok
    assert f"server {server} not found" in outcome.message


@pytest.mark.needs("haproxy")
def test_an_order_that_is_refused_is_a_failure_and_still_ours(balancer: Balancer) -> None:
    gone = parse({"haproxy": {"ready": "web/s9", "socket": balancer.admin}})

    outcome = gone.run(recover(), OURS, noon)

    assert not outcome.ok
    assert "server web/s9 not found" in outcome.message
    assert outcome.token == OURS


@pytest.mark.parametrize(
    "answer", [pytest.param("", id="nothing"), pytest.param("Unknown command", id="a complaint")]
)
def test_an_answer_without_a_table_is_refused(answer: str) -> None:
    with pytest.raises(HAProxyError):
        admin_state(answer, "web/s1")
    with pytest.raises(HAProxyError):
        sessions(answer, "web/s1")
