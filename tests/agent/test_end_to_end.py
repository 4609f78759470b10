"""The agent and the server as processes, through kills, reboots and shared events."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.agent.processes import Guest, guest
from tests.cli.server import Server, free_port, until, up

#: Machines that each belong to one test, so that all share one server.
MACHINES = ("killed", "held", "double", "cancelled", "failing", "hangup", "freezing")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    machines = [word for machine in MACHINES for word in ("--vm", machine)]
    # The eleventh machine of an availability set shares update domain and host with the first.
    others = ("--availability-set", "app=11", "--scale-set", "web=3", "--spot-vm", "batch")
    with up(tmp_path_factory.mktemp("server"), *machines, *others, "--speed", "20", "--no-arm") as running:
        yield running


@pytest.mark.slow
def test_an_agent_that_is_killed_in_a_hook_prepares_again(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    go = tmp_path / "go"
    killed = guest(
        server,
        tmp_path,
        "killed",
        stack,
        after=f"; for i in $(seq 1200); do [ -e {go} ] && break; sleep 0.05; done",
    )
    killed.run()
    (event,) = server.cause("restart", "killed")
    until(lambda: killed.did(event) == ["prepare"], "the hook runs")

    killed.kill()
    approved_while_dead = killed.approvals(event)
    go.touch()
    killed.run()
    killed.recovered(event)

    assert approved_while_dead == []
    assert killed.did(event) == ["prepare", "prepare", "recover"]
    assert killed.approvals(event) == ["killed"]


@pytest.mark.story
@pytest.mark.slow
def test_an_agent_that_is_killed_between_preparing_and_approving_only_approves(
    server: Server, tmp_path: Path, stack: ExitStack
) -> None:
    go = tmp_path / "go"
    held = guest(server, tmp_path, "held", stack, extra=f"check = ['test', '-e', '{go}']")
    held.run()
    (event,) = server.cause("restart", "held")
    until(lambda: "approval_held" in held.log_text(), "the approval is held")
    explained = held.ask("explain")

    held.kill()
    go.touch()
    held.run()
    held.recovered(event)

    assert "Reboot Scheduled: wait: the check says hold: test exits 1" in explained
    assert held.did(event) == ["prepare", "recover"]
    assert held.approvals(event) == ["held"]


@pytest.mark.rule("C-11")
def test_after_the_reboot_the_machine_goes_back_to_work(tmp_path: Path, stack: ExitStack) -> None:
    # The reboot is over when the test says so: not before the agent is killed.
    server = stack.enter_context(up(tmp_path, "--vm", "rebooted", "--driver", "external", "--no-arm"))
    rebooted = guest(server, tmp_path, "rebooted", stack)
    rebooted.run()
    (event,) = server.cause("restart", "rebooted")
    until(lambda: "approval_accepted" in rebooted.log_text(), "the approval is accepted")

    rebooted.kill()
    remembered = rebooted.ask("status")
    server.tell("complete", event["id"])
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
    until(lambda: "approval_held" in cancelled.log_text(), "the approval is held")

    server.tell("cancel", event["id"])
    cancelled.recovered(event)

    assert cancelled.did(event) == ["prepare", "recover"]
    assert cancelled.approvals(event) == []


@pytest.mark.slow
@pytest.mark.rule("C-06")
def test_a_drain_that_fails_is_left_to_its_time(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    failing = guest(server, tmp_path, "failing", stack, after="; exit 1")
    failing.run()
    (event,) = server.cause("restart", "failing", "--notice", "240s")  # twelve seconds at this speed

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


@pytest.mark.story
@pytest.mark.slow
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
        wait = (
            f"; for i in $(seq 1200); do [ -e {go} ] && break; sleep 0.05; done" if name == "app-10" else ""
        )
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


def test_sighup_reads_the_file_again(server: Server, tmp_path: Path, stack: ExitStack) -> None:
    hangup = guest(server, tmp_path, "hangup", stack)
    hangup.run()
    hangup.config.write_text("[agnet]")
    hangup.processes[0].send_signal(signal.SIGHUP)
    until(lambda: "reload_refused" in hangup.log_text(), "an invalid file is refused")

    hangup.write()
    hangup.processes[0].send_signal(signal.SIGHUP)
    until(lambda: '"reloaded"' in hangup.log_text(), "the file is read again")

    assert hangup.processes[0].poll() is None


def ready_for(port: int) -> list[str]:
    line = HTTPConnection("127.0.0.1", port, timeout=5)
    line.request("GET", "/peer")
    report: dict[str, list[str]] = json.loads(line.getresponse().read())
    line.close()
    return report["ready"]
