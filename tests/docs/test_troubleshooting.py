"""Every text on the page about troubleshooting is what people see; other tests provoke the rest of them."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from fairwarning.store.sqlite import DATABASE
from tests.check.sandboxed import skip_without_sandbox
from tests.cli.server import FAIRWARNING, NOWHERE, Done, Server, call, run, until, up
from tests.config.files import secret, write
from tests.docs.troubleshooting import PAGE, assert_quoted, sections

ROOT = Path(__file__).parents[2]
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
MACHINES = ("--scale-set", "web=2", "--vm", "db", "--vm", "busy", "--vm", "ill")
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a manual clock, and a listener that knows one machine by its address."""
    words = (*MACHINES, "--clock", "manual", "--listen", "127.0.0.1:0", "--address", "web_0=127.0.0.9")
    with up(tmp_path_factory.mktemp("fleet"), *words) as server:
        yield server


def output(done: Done, code: int = 1) -> str:
    """Return the output of a command that must end with an exit code."""
    assert done.code == code, done
    return done.stdout + done.stderr


def ask(server: Server, path: str = EVENTS, machine: str = "web_1", **headers: str) -> str:
    """Return the answer to a guest."""
    return httpx2.get(server.ready["metadata"][machine] + path, headers=headers).text


def test_the_page_and_the_tests_name_the_same_sections() -> None:
    tests = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py")))
    provoked = re.findall(r"\bassert_quoted\(\s*\"([^\"]+)\"", tests)

    assert sorted(provoked) == sorted(sections())
    assert len(sections()) == len(PAGE.code("text"))


@pytest.mark.slow
@pytest.mark.runs("docs/troubleshooting.md")
def test_doctor_finds_the_usual_causes(fleet: Server) -> None:
    (command,) = PAGE.commands()
    with command.running() as text:
        found = fleet.tell(*text.split()[1:])

    assert re.findall(r"^(\w+) +note", found, re.MULTILINE)


@pytest.mark.slow
def test_the_server_and_its_commands(fleet: Server, tmp_path: Path) -> None:
    operator, machine = fleet.ready["operator"], fleet.ready["metadata"]["web_0"]
    port = operator.rpartition(":")[2]

    assert_quoted("A port is in use", output(run("up", "--operator", f"127.0.0.1:{port}", "--no-arm")))
    assert_quoted("No server answers", output(call("vms", url=NOWHERE), 3).replace(":1:", ":8080:"))
    assert_quoted("Another program answers", output(call("vms", url=machine)))
    assert_quoted("The certificate is not trusted", output(call("vms", url=fleet.ready["arm"])))
    assert_quoted("There is no such machine", output(fleet.command("cause", "restart", "web_9")))

    token, data = secret(tmp_path), tmp_path / "state"
    with up(tmp_path, "--vm", "db", "--no-arm", "--token-file", str(token), "--data", str(data)) as other:
        assert_quoted("The token is wrong or missing", output(other.command("vms")))
        second = output(run("up", "--port-base", "0", "--data", str(data)))
        assert_quoted("The data directory is in use", second.replace(f"{tmp_path}/", ""))
    with closing(sqlite3.connect(data / DATABASE)) as database:
        database.execute("INSERT INTO migration (number) VALUES (99)")
        database.execute("PRAGMA user_version = 99")
        database.commit()
    assert_quoted("The data is too new", output(run("up", "--port-base", "0", "--data", str(data))))


@pytest.mark.slow
def test_no_warning_comes(fleet: Server, tmp_path: Path) -> None:
    assert_quoted("The machine restarts at once", output(fleet.command("cause", "restart", "db"), 0))
    assert_quoted("Nothing happens, and no time passes", output(fleet.command("doctor"), 0))

    ask(fleet, Metadata="true")
    fleet.cause("restart", "web_0")
    assert_quoted("The machine already has an event", output(fleet.command("cause", "restart", "web_0")))

    with up(tmp_path, "--vm", "db", "--no-arm") as real:
        assert_quoted("The clock cannot be moved", output(real.command("clock", "advance", "15m")))


@pytest.mark.slow
def test_the_endpoint_refuses_a_request(fleet: Server) -> None:
    base = fleet.ready["metadata"]["web_1"]
    approval = {"StartRequests": [{"EventId": NOBODY}]}

    assert_quoted("400: the Metadata header", ask(fleet))
    assert_quoted("400: X-Forwarded-For", ask(fleet, **{"Metadata": "true", "X-Forwarded-For": "10.0.0.1"}))
    assert_quoted("400: no api-version", ask(fleet, EVENTS.partition("?")[0], Metadata="true"))
    assert_quoted(
        "404: another api-version", ask(fleet, EVENTS.replace("2020-07", "2021-02"), Metadata="true")
    )
    unknown = httpx2.post(base + EVENTS, json=approval, headers={"Metadata": "true"})
    assert_quoted("400: the event is unknown", unknown.text)
    with httpx2.Client(base_url=fleet.ready["metadata"]["busy"], headers={"Metadata": "true"}) as guest:
        assert_quoted("429: too many requests", "".join(guest.get(EVENTS).text for _ in range(60)))
    fleet.tell("fault", "ill", "410")
    assert_quoted("410: the service is being updated", ask(fleet, machine="ill", Metadata="true"))
    stranger = httpx2.get(fleet.ready["shared"][0] + EVENTS, headers={"Metadata": "true"})
    assert_quoted("403: the address belongs to no machine", stranger.text)


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_a_request_goes_to_a_proxy() -> None:
    variables = {**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
    command = ["curl", "-sS", "-H", "Metadata:true", f"http://169.254.169.254{EVENTS}"]
    refused = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=30)

    assert_quoted("The request goes to a proxy", refused.stderr.replace("port 1 ", "port 3128 "))


@pytest.mark.slow
def test_a_handler_does_not_start() -> None:
    done = run("check", "plain-reboot", "--", "false")
    skip_without_sandbox(done.stdout)

    assert_quoted("The handler did not start", output(done, 4))


@contextmanager
def agent(settings: Path, log: Path) -> Iterator[None]:
    """Run the agent during the block."""
    with log.open("wb") as lines:
        words = [*FAIRWARNING, "agent", "run", "--config", str(settings)]
        process = subprocess.Popen(words, stdout=lines, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.mark.slow
def test_the_agent_does_not_approve(tmp_path: Path) -> None:
    rule = '[[rule]]\nprepare = [{ exec = ["false"] }]\n'
    log = tmp_path / "log"
    with up(tmp_path, "--vm", "db", "--no-arm", "--start-enabled") as server:
        endpoint = server.ready["metadata"]["db"]
        place = f'[agent]\nendpoint = "{endpoint}"\nstate = "{tmp_path}/state"\n'
        settings = write(tmp_path, place + rule, "agent.toml")
        server.cause("restart", "db")
        with agent(settings, log):
            until(lambda: "prepare_failed" in log.read_text(), "the hook fails")
        explained = run("agent", "explain", "--config", str(settings))

    assert_quoted("The agent does not approve", output(explained, 0))


@pytest.mark.slow
def test_no_endpoint_answers_the_agent(tmp_path: Path) -> None:
    place = f'[agent]\nendpoint = "{NOWHERE}"\nstate = "{tmp_path}/state"\n'
    log = tmp_path / "log"
    with agent(write(tmp_path, place, "agent.toml"), log):
        until(lambda: "poll_failed" in log.read_text(), "the agent polls")

    assert_quoted("No endpoint answers the agent", log.read_text())


@pytest.mark.slow
def test_other_users_can_read_a_secret(tmp_path: Path) -> None:
    secret(tmp_path, mode=0o644)
    table = (
        '[operator]\nlisten = "127.0.0.1:0"\ntoken_file = "token"\n[store]\nkind = "sqlite"\npath = "data"\n'
    )
    settings = write(tmp_path, table)

    refused = output(call("serve", "--check", str(settings)), 2)
    assert_quoted("Other users can read a secret", refused.replace(f"{tmp_path}/", ""))
