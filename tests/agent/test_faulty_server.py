"""The agent as a process, against a server that is slow, faulty or down for a while."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.agent.processes import AGENT, Guest, guest
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import Shown, free_port, until, up

FAULTS = ("429", "410", "500", "empty", "plain-text", "no-events", "partial", "reset", "timeout", "slow")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Guest, Shown]]]:
    """Machines with a fault each, all at the same time, and the restart that is ahead of each."""
    folder, machines = tmp_path_factory.mktemp("faulty"), {fault: f"faulty-{fault}" for fault in FAULTS}
    words = [word for machine in machines.values() for word in ("--vm", machine)]
    with ExitStack() as stack:
        server = stack.enter_context(up(folder, *words, "--speed", "20", "--no-arm"))
        guests = {fault: guest(server, folder, machine, stack) for fault, machine in machines.items()}
        for faulty_guest in guests.values():
            faulty_guest.run()
        restarts = {}
        for fault, machine in machines.items():
            server.tell("fault", machine, fault, "--for", "2s", "--delay", "1s")
            (restarts[fault],) = server.cause("restart", machine, "--notice", "10m")
        yield {fault: (guests[fault], restarts[fault]) for fault in FAULTS}


@pytest.mark.slow
@pytest.mark.rule("C-02")
def test_a_server_that_dies_and_comes_back_changes_nothing(tmp_path: Path, stack: ExitStack) -> None:
    go, base = tmp_path / "go", str(free_port(span=2))
    words = ("--vm", "alone", "--no-arm", "--data", str(tmp_path / "data"), "--port-base", base)
    with up(tmp_path, *words) as server:
        alone = guest(server, tmp_path, "alone", stack, extra=f"check = ['test', '-e', '{go}']")
        alone.run()
        (event,) = server.cause("restart", "alone")
        until(lambda: "approval_held" in alone.log_text(), "the approval is held")
        server.stop(signal.SIGKILL)
    until(lambda: "poll_failed" in alone.log_text(), "the server is missed")
    while_away = alone.did(event)

    with up(tmp_path, *words) as server:
        alone.server = server
        go.touch()
        alone.recovered(event)
        approvals = alone.approvals(event)

    assert while_away == ["prepare"]
    assert alone.did(event) == ["prepare", "recover"]
    assert approvals == ["alone"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_an_endpoint_that_misbehaves_for_a_while_changes_nothing(
    faulty: dict[str, tuple[Guest, Shown]], fault: str
) -> None:
    machine, event = faulty[fault]

    machine.recovered(event)

    assert machine.did(event) == ["prepare", "recover"]
    assert machine.approvals(event) == [machine.machine]


@pytest.mark.slow
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


SHOWN = (
    b'{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled","EventType":"Reboot",'
    b'"Resources":["alone"],"NotBefore":"Mon, 16 Nov 2099 12:15:00 GMT"}]}'
)


@pytest.mark.slow
@pytest.mark.rule("C-02")
@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(
            [Answer(429, b""), Answer(410, b""), Answer(0), Answer(200, SHOWN)], id="a server in trouble"
        ),
        pytest.param(
            [Answer(200, SHOWN, after=timedelta(seconds=7))], id="a first answer that takes its time"
        ),
        pytest.param([Answer(200, b""), Answer(200, b""), Answer(200, SHOWN)], id="no information at first"),
    ],
)
def test_a_server_that_is_slow_to_come_is_waited_for(
    tmp_path: Path, stack: ExitStack, answers: list[Answer]
) -> None:
    script = stack.enter_context(endpoint(*answers))
    config, log = tmp_path / "agent.toml", tmp_path / "log"
    config.write_text(
        f"[agent]\nmachine = 'alone'\n[[rule]]\nprepare = [{{ exec = ['sh', '-c', 'echo done >> {log}'] }}]"
    )
    words = ["run", "--config", str(config), "--endpoint", script.url, "--state", str(tmp_path)]
    agent = subprocess.Popen([*AGENT, *words], stderr=subprocess.DEVNULL)
    stack.callback(agent.wait, 20)
    stack.callback(agent.terminate)

    until(lambda: any(request.method == "POST" for request in script.asked), "the event is approved")

    assert log.read_text() == "done\n"
