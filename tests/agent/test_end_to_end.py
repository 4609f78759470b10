"""The agent as a process of its own against a server as another, through kills, reboots and neighbours."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.agent.scripted import Line, endpoint
from tests.cli.server import Server, Shown, until, up

#: Machines that each belong to one test, so that all share one server.
MACHINES = ("killed", "held", "rebooted", "double", "cancelled", "failing", "hangup", "freezing", "ailing")

AGENT = (sys.executable, "-W", "error", "-m", "fairwarning", "agent")

NOTE = 'echo {phase} "$FAIRWARNING_EVENT_ID" >> {log}'


@dataclass
class Guest:
    """One machine with an agent that notes what its hooks are asked."""

    server: Server
    folder: Path
    machine: str
    extra: str = ""
    after: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "hooks.log"

    @property
    def config(self) -> Path:
        return self.folder / "agent.toml"

    def write(self) -> None:
        self.folder.mkdir(exist_ok=True)
        prepare = f"{NOTE.format(phase='prepare', log=self.log)}{self.after}"
        recover = NOTE.format(phase="recover", log=self.log)
        self.config.write_text(
            f"[agent]\n"
            f'state = "{self.folder / "state"}"\n'
            f'endpoint = "{self.server.ready["metadata"][self.machine]}"\n'
            f"{self.extra}\n"
            f"[[rule]]\n"
            f"prepare = [{{ exec = ['sh', '-c', '{prepare}'] }}]\n"
            f"recover = [{{ exec = ['sh', '-c', '{recover}'] }}]\n"
        )

    def words(self, *words: str) -> list[str]:
        return [*AGENT, *words, "--config", str(self.config)]

    def run(self) -> None:
        """Start the agent and return once it has asked for events."""
        with (self.folder / "stderr").open("ab") as err:
            self.processes.append(subprocess.Popen(self.words("run"), stderr=err))
        until(lambda: self.said().count("machine_named") >= len(self.processes), "the agent knows its name")

    def ask(self, word: str) -> str:
        return subprocess.run(self.words(word), capture_output=True, text=True, check=True, timeout=30).stdout

    def kill(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].wait()

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                assert process.wait(20) == 0

    def said(self) -> str:
        path = self.folder / "stderr"
        return path.read_text() if path.exists() else ""

    def did(self, event: Shown) -> list[str]:
        """Return what the hooks were asked for an event, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split()[0] for line in lines if line.split()[1] == event["id"]]

    def approvals(self, event: Shown) -> list[str]:
        """Return who approved an event."""
        rows = self.server.history()
        return [row["by"] for row in rows if row["kind"] == "approved" and row["event"] == event["id"]]

    def recovered(self, event: Shown) -> None:
        until(lambda: "recover" in self.did(event), f"{self.machine} recovers: {self.said()}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    machines = [word for machine in MACHINES for word in ("--vm", machine)]
    # The eleventh machine of an availability set shares update domain and host with the first.
    others = ("--availability-set", "app=11", "--scale-set", "web=3", "--spot-vm", "batch")
    with up(tmp_path_factory.mktemp("server"), *machines, *others, "--speed", "20", "--no-arm") as running:
        yield running


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def guest(
    server: Server, folder: Path, machine: str, stack: ExitStack, *, extra: str = "", after: str = ""
) -> Guest:
    one = Guest(server, folder / machine, machine, extra, after)
    one.write()
    stack.callback(one.stop)
    return one


def test_an_agent_that_is_killed_in_a_hook_prepares_again(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    go = tmp_path / "go"
    killed = guest(server, tmp_path, "killed", stack, after=f"; while [ ! -e {go} ]; do sleep 0.05; done")
    killed.run()
    (event,) = server.cause("restart", "killed")
    until(lambda: killed.did(event) == ["prepare"], "the hook runs")

    killed.kill()
    nobody = killed.approvals(event)
    go.touch()
    killed.run()
    killed.recovered(event)

    assert nobody == []
    assert killed.did(event) == ["prepare", "prepare", "recover"]
    assert killed.approvals(event) == ["killed"]


def test_an_agent_that_is_killed_between_preparing_and_approving_only_approves(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    go = tmp_path / "go"
    held = guest(server, tmp_path, "held", stack, extra=f"check = ['test', '-e', '{go}']")
    held.run()
    (event,) = server.cause("restart", "held")
    until(lambda: "approval_held" in held.said(), "the approval is held")
    explained = held.ask("explain")

    held.kill()
    go.touch()
    held.run()
    held.recovered(event)

    assert "Reboot Scheduled: wait: the check says hold: test exits 1" in explained
    assert held.did(event) == ["prepare", "recover"]
    assert held.approvals(event) == ["held"]


@pytest.mark.rule("C-11")
def test_after_the_reboot_the_machine_goes_back_to_work(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    rebooted = guest(server, tmp_path, "rebooted", stack)
    rebooted.run()
    (event,) = server.cause("restart", "rebooted")
    until(lambda: "approval_accepted" in rebooted.said(), "the approval is accepted")

    rebooted.kill()
    remembered = rebooted.ask("status")
    until(lambda: event["id"] not in server.tell("events", "--json"), "the reboot is over")
    rebooted.run()
    rebooted.recovered(event)

    assert "no agent is running" in remembered
    assert event["id"] in remembered
    assert rebooted.did(event) == ["prepare", "recover"]
    assert len(rebooted.approvals(event)) == 1


@pytest.mark.rule("C-04")
def test_two_events_at_once(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    double = guest(server, tmp_path, "double", stack)
    double.run()

    events = [*server.cause("restart", "double"), *server.cause("redeploy", "double")]
    for event in events:
        double.recovered(event)

    assert [double.did(event) for event in events] == [["prepare", "recover"]] * 2
    assert [double.approvals(event) for event in events] == [["double"]] * 2


@pytest.mark.rule("C-04")
def test_maintenance_that_is_cancelled(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    cancelled = guest(server, tmp_path, "cancelled", stack, extra="check = ['false']")
    cancelled.run()
    (event,) = server.cause("host-update", "cancelled")
    until(lambda: "approval_held" in cancelled.said(), "the approval is held")

    server.tell("cancel", event["id"])
    cancelled.recovered(event)

    assert cancelled.did(event) == ["prepare", "recover"]
    assert cancelled.approvals(event) == []


@pytest.mark.rule("C-06")
def test_a_drain_that_fails_is_left_to_its_time(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    failing = guest(server, tmp_path, "failing", stack, after="; exit 1")
    failing.run()
    (event,) = server.cause("restart", "failing", "--notice", "60s")  # three seconds at this speed

    failing.recovered(event)

    assert failing.did(event) == ["prepare", "recover"]
    assert failing.approvals(event) == []


@pytest.mark.rule("C-06")
def test_a_short_freeze_is_approved_at_once_and_nothing_is_drained(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    freezing = guest(server, tmp_path, "freezing", stack)
    freezing.run()

    (event,) = server.cause("live-migrate", "freezing")
    until(lambda: bool(freezing.approvals(event)), "the freeze is approved")

    assert freezing.did(event) == []


def test_three_instances_of_a_scale_set_each_speak_for_themselves(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    names = ("web_0", "web_1", "web_2")
    guests = [guest(server, tmp_path, name, stack) for name in names]
    for one in guests:
        one.run()

    events = server.cause("restart", *names)
    for one, event in zip(guests, events, strict=True):
        one.recovered(event)

    assert [event["resources"] for event in events] == [[name] for name in names]
    assert [one.did(event) for one, event in zip(guests, events, strict=True)] == [["prepare", "recover"]] * 3
    assert [one.approvals(event) for one, event in zip(guests, events, strict=True)] == [[n] for n in names]


def test_an_eviction_is_answered_within_its_seconds(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    batch = guest(server, tmp_path, "batch", stack)
    batch.run()

    (event,) = server.cause("evict", "batch", "--notice", "600s")  # 30 seconds at this speed
    until(lambda: bool(batch.approvals(event)), "the eviction is approved")

    assert batch.did(event)[:1] == ["prepare"]


@pytest.mark.rule("C-07")
def test_neighbours_agree_before_one_of_them_speaks_for_all(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    go, names = tmp_path / "go", ("app-0", "app-10")
    ports = {name: free_port() for name in names}
    peers = "\n".join(f'{name} = "http://127.0.0.1:{port}"' for name, port in ports.items())
    both: list[Guest] = []
    for name in names:
        extra = f'listen = "127.0.0.1:{ports[name]}"\ncoordination = "peers"\n[agent.peers]\n{peers}'
        wait = f"; while [ ! -e {go} ]; do sleep 0.05; done" if name == "app-10" else ""
        both.append(guest(server, tmp_path, name, stack, extra=extra, after=wait))
        both[-1].run()

    (event,) = server.cause("host-update", *names)
    until(lambda: event["id"] in ready_for(ports["app-0"]), "app-0 is ready")
    early = both[0].approvals(event)
    go.touch()
    for one in both:
        one.recovered(event)

    assert sorted(event["resources"]) == list(names)
    assert early == []
    assert both[0].approvals(event) == ["app-0"]


@pytest.mark.slow
@pytest.mark.rule("C-02")
def test_a_server_that_dies_and_comes_back_changes_nothing(tmp_path: Path, stack: ExitStack) -> None:
    go, base = tmp_path / "go", str(free_port())
    words = ("--vm", "alone", "--no-arm", "--data", str(tmp_path / "data"), "--port-base", base)
    with up(tmp_path, *words) as server:
        alone = guest(server, tmp_path, "alone", stack, extra=f"check = ['test', '-e', '{go}']")
        alone.run()
        (event,) = server.cause("restart", "alone")
        until(lambda: "approval_held" in alone.said(), "the approval is held")
        server.stop(signal.SIGKILL)
    until(lambda: "poll_failed" in alone.said(), "the server is missed")
    while_away = alone.did(event)

    with up(tmp_path, *words) as server:
        alone.server = server
        go.touch()
        alone.recovered(event)
        approvals = alone.approvals(event)

    assert while_away == ["prepare"]
    assert alone.did(event) == ["prepare", "recover"]
    assert approvals == ["alone"]


@pytest.mark.parametrize("fault", ["429", "410", "500", "empty", "reset", "timeout", "slow"])
def test_an_endpoint_that_misbehaves_for_a_while_changes_nothing(
    server: Server, tmp_path: Path, stack: ExitStack, fault: str
) -> None:
    ailing = guest(server, tmp_path, "ailing", stack)
    ailing.run()
    server.tell("fault", "ailing", fault, "--for", "2s", "--delay", "1s")

    (event,) = server.cause("restart", "ailing", "--notice", "10m")
    ailing.recovered(event)

    assert ailing.did(event) == ["prepare", "recover"]
    assert ailing.approvals(event) == ["ailing"]


def test_a_first_call_that_takes_its_time_is_waited_for(tmp_path: Path, stack: ExitStack) -> None:
    words = ("--vm", "late", "--speed", "20", "--no-arm", "--first-call", "delay", "--first-call-delay", "3s")
    scratch = tmp_path / "server"
    scratch.mkdir()
    slow = stack.enter_context(up(scratch, *words))
    late = guest(slow, tmp_path, "late", stack)
    late.run()
    until(lambda: json.loads(slow.tell("vms", "--json"))[0]["enabled"], "the agent has asked")

    (event,) = slow.cause("restart", "late")
    late.recovered(event)

    assert late.approvals(event) == ["late"]


def test_sighup_reads_the_file_again(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    hangup = guest(server, tmp_path, "hangup", stack)
    hangup.run()
    hangup.config.write_text("[agnet]")
    hangup.processes[0].send_signal(signal.SIGHUP)
    until(lambda: "reload_refused" in hangup.said(), "a file that makes no sense is refused")

    hangup.write()
    hangup.processes[0].send_signal(signal.SIGHUP)
    until(lambda: '"reloaded"' in hangup.said(), "the file is read again")

    assert hangup.processes[0].poll() is None


SHOWN = (
    b'{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled","EventType":"Reboot",'
    b'"Resources":["alone"],"NotBefore":"Mon, 16 Nov 2099 12:15:00 GMT"}]}'
)


@pytest.mark.slow
@pytest.mark.rule("C-02")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([Line(429, b""), Line(410, b""), Line(0), Line(200, SHOWN)], id="a server in trouble"),
        pytest.param([Line(200, SHOWN, after=timedelta(seconds=7))], id="a first answer that takes its time"),
        pytest.param([Line(200, b""), Line(200, b""), Line(200, SHOWN)], id="no information at first"),
    ],
)
def test_a_server_that_is_slow_to_come_is_waited_for(
    tmp_path: Path, stack: ExitStack, lines: list[Line]
) -> None:
    script = stack.enter_context(endpoint(*lines))
    config, log = tmp_path / "agent.toml", tmp_path / "log"
    config.write_text(
        f"[agent]\nmachine = 'alone'\n[[rule]]\nprepare = [{{ exec = ['sh', '-c', 'echo done >> {log}'] }}]"
    )
    words = ["run", "--config", str(config), "--endpoint", script.url, "--state", str(tmp_path)]
    agent = subprocess.Popen([*AGENT, *words], stderr=subprocess.DEVNULL)
    stack.callback(agent.wait, 20)
    stack.callback(agent.terminate)

    until(lambda: any(one.method == "POST" for one in script.asked), "the event is approved")

    assert log.read_text() == "done\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ready_for(port: int) -> list[str]:
    line = HTTPConnection("127.0.0.1", port, timeout=5)
    line.request("GET", "/peer")
    said: dict[str, list[str]] = json.loads(line.getresponse().read())
    line.close()
    return said["ready"]
