"""``up`` in a process of its own: its fleet, its output and its end."""

import json
import shlex
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from fairwarning import config
from fairwarning.cli.up import introduce
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.model import ScopeKind
from tests.cli.server import FAIRWARNING, Server, call, free_port, fresh, run, until, up
from tests.running import running

MANUAL = ("--clock", "manual", "--start-enabled")


def fetch(url: str, transport: httpx2.HTTPTransport | None = None) -> str:
    """Return what a guest is answered."""
    with httpx2.Client(transport=transport, headers={"Metadata": "true"}, trust_env=False) as client:
        return client.get(url).raise_for_status().text


def curl(line: str) -> str:
    """Run a printed curl command and return what it prints."""
    words = ["curl", "--silent", "--fail-with-body", "--noproxy", "*", *shlex.split(line)[1:]]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout


def printed_curls(server: Server, containing: str) -> list[str]:
    """Return the commands that ``up`` has printed."""
    lines = server.printed().splitlines()
    return [line[line.index("curl ") :] for line in lines if "curl " in line and containing in line]


def test_the_default_fleet_has_four_kinds_of_machines(bare: Server) -> None:
    machines = json.loads(bare.tell("vms", "--json"))

    assert [(machine["name"], machine["scope"]) for machine in machines] == [
        *((f"web_{number}", "web") for number in range(3)),
        *((f"app-{number}", "app") for number in range(3)),
        ("db", "db"),
        ("batch", "batch"),
    ]
    assert {machine["name"]: machine["metadata"] for machine in machines} == bare.ready["metadata"]


def test_the_ready_file_has_all_addresses(bare: Server) -> None:
    assert bare.ready["operator"].startswith("http://127.0.0.1:")
    assert bare.ready["arm"].startswith("https://127.0.0.1:")
    assert Path(bare.ready["ca"]).read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert all(url.startswith("http://127.0.0.1:") for url in bare.ready["metadata"].values())


@pytest.mark.needs("curl")
def test_the_printed_command_of_each_machine_works(bare: Server) -> None:
    commands = printed_curls(bare, "2020-07-01")[:8]

    assert len(commands) == 8
    assert [json.loads(curl(command))["Events"] for command in commands] == [[]] * 8


def test_a_name_that_two_scopes_have_is_written_with_its_scope(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "web_0", "--scale-set", "web=1") as server:
        assert sorted(server.ready["metadata"]) == ["web/web_0", "web_0/web_0"]


def test_the_command_to_paste_names_a_machine_that_two_scopes_have_by_its_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blueprints = [Blueprint(name=name, kind=ScopeKind.STANDALONE) for name in ("web_0", "db")]
    with running(tmp_path, Blueprint(name="web", kind=ScopeKind.SCALE_SET, count=1), *blueprints) as server:
        monkeypatch.setattr(config, "DEFAULT_URL", server.service.operator_url)
        introduce(server.service, NEWEST)
        last = capsys.readouterr().err.splitlines()[-1]
        command = shlex.split(last.partition("fairwarning ")[2])
        done = server.command(*command)

    assert command in (["cause", "restart", "web/web_0"], ["cause", "restart", "web_0/web_0"])
    assert done.code == 0


def test_there_is_an_option_for_every_kind_of_set(tmp_path: Path) -> None:
    words = ["--scale-set", "z=2", "--flexible-set", "f=1", "--cloud-service", "FrontEnd=2", "--zones", "1,2"]
    with up(tmp_path, *words, "--terminate-notice", "5m") as server:
        machines = json.loads(server.tell("vms", "--json"))

    found = {(machine["scope"], machine["name"].partition("_")[0]) for machine in machines}
    assert found == {
        ("z.zone1", "z"), ("z.zone2", "z"), ("f.zone1", "f"), ("cloud-service", "FrontEnd")
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_a_scheduled_event_is_printed_with_a_command_that_approves_it(tmp_path: Path) -> None:
    with up(tmp_path, "--start-enabled") as server:
        (event,) = server.cause("restart", "web_0")
        until(lambda: bool(printed_curls(server, event["id"])), "up prints the command to approve")
        (command,) = printed_curls(server, event["id"])

        curl(command)

        assert server.ready["metadata"]["web_0"] in command
        until(lambda: "Reboot of web_0 is over" in server.printed(), "the restart is over")
        sentences = [line.partition("  ")[2] for line in server.printed().splitlines() if "Z  Reboot" in line]
        assert sentences == [
            "Reboot of web_0 is scheduled by operator",
            "Reboot of web_0 is approved by web_0",
            "Reboot of web_0 has started",
            "Reboot of web_0 is over",
        ]


def test_a_server_that_is_stopped_at_once_prints_its_history_first(tmp_path: Path) -> None:
    with up(tmp_path, *MANUAL, "--scale-set", "web=1", "--no-arm") as server:
        server.cause("restart", "web_0")
        code = server.stop()

    assert code == 0
    assert "Reboot of web_0 is scheduled by operator" in server.printed()


def test_a_server_is_ready_before_libraries_for_later_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")

    with up(tmp_path, "--scale-set", "web=1", start=fresh) as server:
        server.stop()

    before, ready, _ = server.complained().partition("console and operator API: ")
    loaded = {line.rpartition("|")[2].strip() for line in before.splitlines()}
    assert ready
    assert loaded >= {"fairwarning.arm.app", "fairwarning.operator.app", "fairwarning.metadata.app"}
    assert loaded.isdisjoint({"httpx2", "jinja2", "jwt", "sqlite3"})


def test_up_prints_json_lines(tmp_path: Path) -> None:
    with up(tmp_path, *MANUAL, "--json") as server:
        (event,) = server.cause("freeze", "db")
        until(lambda: event["id"] in server.printed(), "the event is printed")

        first, line = map(json.loads, server.printed().splitlines())

    assert first == server.ready
    assert (line["kind"], line["event"], line["resources"]) == ("scheduled", event["id"], ["db"])


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, id="Ctrl-C"), pytest.param(signal.SIGTERM, id="SIGTERM")]
)
def test_a_stopped_server_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    with up(tmp_path, "--vm", "db", start=fresh) as server:
        code = server.stop(how)

    assert code == 0
    assert "Traceback" not in server.complained()
    assert "stopping" in server.complained().splitlines()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stderr", "stdout"]


def test_a_second_up_continues_where_the_first_stopped(tmp_path: Path) -> None:
    words = [*MANUAL, "--data", str(tmp_path / "data"), "--scale-set", "web=2"]
    with up(tmp_path, *words) as first:
        (event,) = first.cause("restart", "web_0")
        before = first.history()
        first.stop()

    with up(tmp_path, *words, "--vm", "db") as second:
        (pending,) = json.loads(second.tell("events", "--json"))
        assert (pending["id"], pending["status"]) == (event["id"], "Scheduled")
        assert second.history() == before
        assert set(second.ready["metadata"]) == {"web_0", "web_1", "db"}
        until(lambda: event["id"] in second.printed(), "the pending event is printed again")
        second.tell("clock", "advance", "16m")
        assert [row["kind"] for row in second.history()] == [
            "scheduled",
            "advanced",
            "started",
            "finished",
        ]


def test_two_servers_do_not_share_a_data_directory(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with up(tmp_path, "--data", data):
        done = run("up", "--port-base", "0", "--data", data)

    assert done.code == 1
    assert done.stdout == ""
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert data in error
    assert hint == "hint: stop the other server, or choose another --data directory"


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("up", "--port-base", "0", "--operator", address)

    assert done.code == 1
    error, hint, _ = done.stderr.splitlines()
    assert error.startswith(f"error: cannot listen on {address}")
    assert "fairwarning server" not in error
    assert hint.startswith("hint: --port-base")


def test_a_second_up_on_the_same_ports_names_the_first(tmp_path: Path) -> None:
    base = free_port(10)
    with up(tmp_path, "--vm", "db", "--no-arm", "--port-base", str(base)):
        done = run("up", "--vm", "db", "--no-arm", "--port-base", str(base))

    assert done.code == 1
    error, hint, _ = done.stderr.splitlines()
    assert error.startswith("error: cannot listen on 127.0.0.1:")
    assert error.endswith(f"; a fairwarning server is already running at http://127.0.0.1:{base}")
    assert hint.startswith("hint: --port-base")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        pytest.param(["--vm", "-"], "--vm", id="a name"),
        pytest.param(["--scale-set", "web=9999"], "--scale-set", id="a count"),
        pytest.param(["--scale-set", "web=2", "--zones", "1,1"], "--zones", id="zones"),
    ],
)
def test_a_value_that_the_fleet_refuses_is_a_usage_error_of_its_option(words: list[str], option: str) -> None:
    done = call("up", "--port-base", "0", "--no-arm", *words)

    assert done.code == 2
    assert f"Error: Invalid value for '{option}': " in done.stderr


def test_shared_listeners_and_sockets_can_be_found(tmp_path: Path) -> None:
    sockets = tmp_path / "run"
    words = ["--vm", "db", "--scale-set", "web=1", "--listen", "127.0.0.1:0", "--sockets", str(sockets)]
    with up(tmp_path, *words, "--address", "db=127.7.0.1", "--address", "web/web_0=127.7.0.2") as server:
        (shared,) = server.ready["shared"]
        machines = json.loads(server.tell("vms", "--json"))
        path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        known = fetch(f"{shared}{path}", httpx2.HTTPTransport(local_address="127.7.0.2"))
        through = fetch(f"http://h{path}", httpx2.HTTPTransport(uds=f"{sockets}/db+db.sock"))

    assert server.ready["alternatives"] == {
        "db": [f"unix:{sockets}/db+db.sock"], "web_0": [f"unix:{sockets}/web+web_0.sock"]
    }  # fmt: skip
    assert {one["name"]: one["alternatives"] for one in machines} == server.ready["alternatives"]
    assert (known, through) == ("web_0", "db")
    assert f"shared by all machines, each known by its address: {shared}\n" in server.complained()


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        pytest.param(["nobody=10.0.0.4"], "no machine named nobody", id="nobody's address"),
        pytest.param(["a=10.0.0.4", "b=::ffff:10.0.0.4"], "10.0.0.4 belongs to a already", id="one for two"),
        pytest.param(["a=10.0.0.4", "a/a=10.0.0.5"], "a/a has more than one", id="two for one"),
    ],
)
def test_an_invalid_address_is_a_usage_error(address: list[str], complaint: str) -> None:
    given = [word for one in address for word in ("--address", one)]
    done = call(
        "up", "--port-base", "0", "--no-arm", "--vm", "a", "--vm", "b", "--listen", "127.0.0.1:0", *given
    )

    assert done.code == 2
    assert f"Error: Invalid value for '--address': {complaint}\n" in done.stderr


def test_one_guest_cannot_use_up_all_connections(tmp_path: Path) -> None:
    ready, err = tmp_path / "ready.json", tmp_path / "stderr"
    words = [
        *FAIRWARNING,
        "up",
        "--port-base",
        "0",
        "--no-arm",
        "--scale-set",
        "web=2",
        "--ready-file",
        str(ready),
    ]
    with err.open("wb") as stderr, ExitStack() as crowd:
        limited = ["bash", "-c", f"ulimit -n 256 && exec {shlex.join(words)}"]
        server = subprocess.Popen(limited, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            until(lambda: ready.exists() or server.poll() is not None, "up is ready")
            metadata = json.loads(ready.read_text())["metadata"]
            port = int(metadata["web_0"].rpartition(":")[2])
            for _ in range(400):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

            name = fetch(f"{metadata['web_1']}{path}")
        finally:
            server.terminate()
            server.wait(timeout=20)

    assert name == "web_1"
    assert "Traceback" not in err.read_text()
    assert "out of system resource" not in err.read_text()


def test_a_stored_set_that_differs_from_the_options_is_noted(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data"), "--no-arm"]
    with up(tmp_path, *data, "--clock", "manual", "--scale-set", "web=1", "--scale-set", "api=1") as first:
        first.tell("clock", "advance", "2d")
        first.stop()

    with up(tmp_path, *data, "--scale-set", "web=5", "--availability-set", "api=1") as second:
        notes = second.complained().splitlines()

    assert "web already exists, with 1 machine" in notes
    assert "api already exists, as scale-set with 1 machine" in notes
    assert [line for line in notes if line.startswith("the manual clock of this data directory is at ")]


def test_a_stored_set_that_equals_the_options_is_not_noted(tmp_path: Path) -> None:
    words = [
        "--data",
        str(tmp_path / "data"),
        "--no-arm",
        "--scale-set",
        "web=1",
        "--cloud-service",
        "Front=2",
    ]
    with up(tmp_path, *words) as first:
        first.stop()

    with up(tmp_path, *words) as second:
        notes = second.complained()

    assert "already exists" not in notes
    assert "manual clock" not in notes


def test_a_ready_file_that_cannot_be_written_is_refused_before_anything_listens(tmp_path: Path) -> None:
    done = call("up", "--port-base", "0", "--ready-file", str(tmp_path / "nowhere" / "ready.json"))

    assert done.code == 2
    assert done.stdout == ""
    assert "Error: Invalid value for '--ready-file': " in done.stderr
    assert done.stderr.endswith(f"{tmp_path / 'nowhere'} is not a directory\n")


def test_off_loopback_a_token_is_required() -> None:
    done = call("up", "--port-base", "0", "--operator", "0.0.0.0:0")

    assert done.code == 2
    assert "Invalid value for '--token-file': a token is required" in done.stderr


def test_a_token_is_required_if_the_server_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("open-sesame-open\n")
    with up(tmp_path, "--token-file", str(tmp_path / "token")) as server:
        stranger = server.command("vms")
        monkeypatch.setenv("FAIRWARNING_TOKEN", "open-sesame-wrong")
        mistaken = server.command("vms")
        monkeypatch.setenv("FAIRWARNING_TOKEN", "open-sesame-open")
        friend = server.command("vms")

    assert stranger.code == 1
    assert stranger.stderr.startswith("error: the token is wrong or missing")
    assert mistaken.stderr == stranger.stderr
    assert "hint: set FAIRWARNING_TOKEN to the token in the server's --token-file\n" in stranger.stderr
    assert friend.code == 0


def test_commands_read_the_token_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("open-sesame-open\n")
    token.chmod(0o600)
    monkeypatch.setenv("FAIRWARNING_TOKEN_FILE", str(token))
    with up(tmp_path, "--token-file", str(token)) as server:
        friend = server.command("vms")
        token.chmod(0o644)
        careless = server.command("vms")

    assert friend.code == 0
    assert careless.code == 2
    assert f"FAIRWARNING_TOKEN_FILE: other users can read {token}" in careless.stderr
    assert "open-sesame" not in careless.stderr


def test_the_environment_sets_the_address_of_the_machines_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWARNING_MACHINE_HOST", "127.0.0.3")
    with up(tmp_path, "--vm", "db") as server:
        assert server.ready["metadata"]["db"].startswith("http://127.0.0.3:")

    done = call("up", "--port-base", "0", "--machine-host", "everywhere")

    assert done.code == 2
    assert "invalid address 'everywhere' (expected e.g. 127.0.0.1, 0.0.0.0)" in done.stderr


def test_a_terminate_notice_beyond_the_limits_is_refused() -> None:
    done = call("up", "--port-base", "0", "--terminate-notice", "20m")

    assert done.code == 2
    assert "Invalid value for '--terminate-notice': must be between 5 and 15 minutes" in done.stderr
