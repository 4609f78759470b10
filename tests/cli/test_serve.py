"""``serve`` in a process of its own: a real clock, machines from the inventory, guests by source address."""

import json
import os
import signal
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from fairwarning.arm.tls import certificates
from tests.cli.server import Done, Process, call, free_port, until
from tests.config.files import secret
from tests.forked import Forked
from tests.postgres import new_database

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"

FLEET = """
[store]
kind = "sqlite"
path = "data"
[operator]
listen = "127.0.0.1:0"
[metadata]
listen = ["127.0.0.1:0"]
requests_per_second = 1000
burst = 1000
[[set]]
name = "web"
[[machine]]
name = "w1"
set = "web"
address = "127.77.0.1"
host = "rack1"
size = "large"
location = "north"
[[machine]]
name = "w2"
set = "web"
address = "127.77.0.2"
"""


#: Starts the program with arguments and files for its output.
Start = Callable[[list[str], Path, Path], Process]


class Serving:
    """A running ``serve``, from outside."""

    def __init__(self, process: Process, ready: Mapping[str, str], folder: Path) -> None:
        self.process = process
        self.url = ready["operator"]
        self.ready = ready
        #: The file that describes it.
        self.path = folder / "fleet.toml"
        self._folder = folder

    def command(self, *words: str) -> Done:
        """Run a command against this server."""
        return call(*words, url=self.url)

    def tell(self, *words: str) -> list[dict[str, str]]:
        """Return what a command answers; it must succeed."""
        done = self.command(*words, "--json")
        assert done.code == 0, done.stderr
        answer: list[dict[str, str]] = json.loads(done.stdout)
        return answer

    def guest(self, source: str) -> httpx2.Client:
        """Return a client that calls the metadata API from an address."""
        transport = httpx2.HTTPTransport(local_address=source)
        shared = json.loads((self._folder / "ready.json").read_text())["shared"][0]
        return httpx2.Client(transport=transport, base_url=shared, headers={"Metadata": "true"})

    def logged(self) -> list[str]:
        """Return the names of the log lines."""
        lines = (self._folder / "stderr").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if line.startswith("{")]


@contextmanager
def serving(folder: Path, text: str = FLEET, start: Start = Forked) -> Iterator[Serving]:
    """Run ``serve`` with a file during the block."""
    path, ready = folder / "fleet.toml", folder / "ready.json"
    path.write_text(text)
    words = ["serve", "--config", str(path), "--ready-file", str(ready)]
    process = start(words, folder / "stdout", folder / "stderr")
    try:
        until(lambda: ready.exists() or process.poll() is not None, "serve is ready")
        assert process.poll() is None, (folder / "stderr").read_text()
        yield Serving(process, json.loads(ready.read_text()), folder)
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Give one server to all tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("serve")) as running:
        yield running


def test_a_guest_is_known_by_its_source_address(server: Serving) -> None:
    with server.guest("127.77.0.1") as guest:
        compute = guest.get("/metadata/instance/compute?api-version=2021-02-01").json()

    assert (compute["name"], compute["vmSize"], compute["location"]) == ("w1", "large", "north")


def test_an_address_that_no_machine_has_is_refused(server: Serving) -> None:
    with server.guest("127.77.0.9") as stranger:
        answer = stranger.get(EVENTS)

    assert answer.status_code == 403


def test_a_balancer_may_ask_at_the_metadata_address_whether_the_node_is_ready(server: Serving) -> None:
    with server.guest("127.77.0.9") as balancer:
        answer = balancer.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


def test_an_event_goes_from_the_warning_to_the_report_of_your_own_tools(server: Serving) -> None:
    with server.guest("127.77.0.2") as guest:
        guest.get(EVENTS)
        (event,) = server.tell("cause", "restart", "w2")
        document = guest.get(EVENTS).json()
        approval = guest.post(EVENTS, json={"StartRequests": [{"EventId": event["id"]}]})
        (started,) = server.tell("events")
        done = server.command("complete", event["id"])

    assert document["Events"][0]["Resources"] == ["w2"]
    assert approval.status_code == 200
    assert started["status"] == "Started"
    assert done.code == 0
    assert server.tell("events") == []


def test_an_impact_is_overdue_after_the_limit_that_the_file_gives_its_cause(tmp_path: Path) -> None:
    with serving(tmp_path, f'{FLEET}[overdue]\nrestart = "1s"\n') as server:
        server.tell("cause", "freeze", "w1", "--notice", "0s")
        server.tell("cause", "restart", "w1", "--notice", "0s")
        until(lambda: any(event["overdue"] for event in server.tell("events")), "an impact is overdue")
        events = server.tell("events")

    assert [event["cause"] for event in events if event["overdue"]] == ["restart"]
    assert len(events) == 2


def test_the_next_start_follows_a_changed_inventory(tmp_path: Path) -> None:
    changed = FLEET.replace('name = "w1"', 'name = "w3"')
    with serving(tmp_path):
        pass

    with serving(tmp_path, changed) as server:
        names = [machine["name"] for machine in server.tell("vms")]

    assert names == ["w2", "w3"]
    assert "inventory_applied" in server.logged()


def test_a_start_after_sigterm_writes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.tell("history")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0

    with serving(tmp_path) as server:
        assert server.tell("history") == first
    assert server.logged() == ["server_started", "server_stopping"]
    with closing(sqlite3.connect(tmp_path / "data" / "fairwarning.db")) as data:
        keys = {key for (key,) in data.execute("SELECT key FROM note")}
    assert keys == {"arm-key", "console-secret", "user-data-key"}


def test_an_operator_api_off_loopback_has_tls_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret(tmp_path)
    text = FLEET.replace(
        'listen = "127.0.0.1:0"\n', f'listen = "0.0.0.0:{free_port()}"\ntoken_file = "token"\n', 1
    )

    with serving(tmp_path, f'{text}[tls]\ndirectory = "tls"\n') as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        trusted = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        with httpx2.Client(base_url=url, verify=trusted, trust_env=False) as client:
            without = client.get("/fleet/v1/machines")
            bearer = {"Authorization": "Bearer 0123456789abcdef"}
            allowed = client.get("/fleet/v1/machines", headers=bearer)
        monkeypatch.setenv("FAIRWARNING_TOKEN", "0123456789abcdef")
        stranger = call("vms", url=url)
        monkeypatch.setenv("FAIRWARNING_CA", str(tmp_path / "tls" / "ca.pem"))
        commanded = call("vms", url=url)

    assert (url.partition(":")[0], without.status_code, allowed.status_code) == ("https", 401, 200)
    assert (stranger.code, commanded.code) == (1, 0)
    assert f"the certificate of {url} is not trusted" in stranger.stderr


@pytest.mark.parametrize("option", ["--config", "--check"])
def test_a_file_with_problems_is_a_usage_error(tmp_path: Path, option: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[store]\nkind = "sqlite"\npath = "data"\n[operator]\nlisten = "x"\n[tls]\n')

    done = call("serve", option, str(path))

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error: {path}: [operator] listen: invalid address 'x' (expected e.g. 127.0.0.1:8080)",
        f"error: {path}: [tls]: needs either certificate and key, or directory",
    ]
    assert os.listdir(tmp_path) == ["fleet.toml"]


@pytest.mark.parametrize("words", [[], ["--schema", "--check", __file__]], ids=["nothing", "two things"])
def test_exactly_one_thing_is_asked_of_serve(words: list[str]) -> None:
    done = call("serve", *words)

    assert done.code == 2
    assert "exactly one of --config, --check and --schema is needed" in done.stderr


def test_the_schema_is_printed() -> None:
    printed = json.loads(call("serve", "--schema").stdout)

    assert printed == json.loads((Path(__file__).parents[2] / "docs" / "serve.schema.json").read_text())


def test_an_address_in_use_is_named(tmp_path: Path, server: Serving) -> None:
    address = server.url.removeprefix("http://")
    path = tmp_path / "fleet.toml"
    path.write_text(f'[store]\nkind = "sqlite"\npath = "data"\n[operator]\nlisten = "{address}"\n')
    process = Forked(["serve", "--config", str(path)], tmp_path / "stdout", tmp_path / "stderr")

    code = process.wait(timeout=20)

    assert code == 1
    assert f"error: cannot listen on {address}: address already in use" in (tmp_path / "stderr").read_text()


def test_sighup_follows_a_changed_inventory(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        (tmp_path / "fleet.toml").write_text(FLEET.replace('name = "w1"', 'name = "w3"'))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "reloaded" in server.logged(), "serve has read the file again")
        with server.guest("127.77.0.1") as guest:
            name = guest.get("/metadata/instance/compute/name?api-version=2021-02-01&format=text").text

    assert name == "w3"


def test_sighup_follows_a_changed_token_and_changed_certificates(tmp_path: Path) -> None:
    token = secret(tmp_path)
    text = FLEET.replace('listen = "127.0.0.1:0"\n', 'listen = "127.0.0.1:0"\ntoken_file = "token"\n', 1)
    own = '[tls]\ncertificate = "server.pem"\nkey = "key.pem"\n'
    issue(tmp_path, "one")

    with serving(tmp_path, f"{text}{own}") as server:
        before = status(server, tmp_path / "one" / "ca.pem", "0123456789abcdef")
        token.write_text("a second token of enough length")
        issue(tmp_path, "two")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "reloaded" in server.logged(), "serve has read the file again")
        old = status(server, tmp_path / "two" / "ca.pem", "0123456789abcdef")
        new = status(server, tmp_path / "two" / "ca.pem", "a second token of enough length")

    assert (before, old, new) == (200, 401, 200)


def issue(folder: Path, authority: str) -> None:
    """Put a certificate of an authority into the folder, as an operator would."""
    files = certificates(folder / authority, (), datetime.now(UTC))
    (folder / "server.pem").write_bytes(files.chain.read_bytes())
    secret(folder, "key.pem", files.key.read_text())


def status(server: Serving, ca: Path, token: str) -> int:
    """Return the status of a request with a token, from a client that trusts an authority."""
    trust = ssl.create_default_context(cafile=ca)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=server.url, verify=trust, headers=headers, trust_env=False) as client:
        return client.get("/fleet/v1/machines").status_code


def test_sighup_with_a_wrong_file_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        (tmp_path / "fleet.toml").write_text("drivr = 1")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "reload_failed" in server.logged(), "serve has refused the file")
        names = [machine["name"] for machine in server.tell("vms")]

    assert names == ["w1", "w2"]


def test_sighup_takes_no_token_away_from_an_api_that_listens_off_loopback(tmp_path: Path) -> None:
    secret(tmp_path)
    tls = '[tls]\ndirectory = "tls"\n'
    port = free_port()
    open_address = f'[management]\nlisten = "0.0.0.0:{port}"\ntoken_file = "token"\n'
    loopback = f'[management]\nlisten = "127.0.0.1:{port}"\n'
    form = {"grant_type": "client_credentials", "client_id": "dev", "client_secret": "a guess"}

    with serving(tmp_path, f"{FLEET}{tls}{open_address}") as server:
        (tmp_path / "fleet.toml").write_text(f"{FLEET}{tls}{loopback}")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "reload" in str(server.logged()), "serve has read the file again")
        trust = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        with httpx2.Client(verify=trust, trust_env=False) as client:
            answer = client.post(f"https://127.0.0.1:{port}/common/oauth2/token", data=form)
        logged = server.logged()

    assert answer.status_code == 401
    assert "reload_failed" in logged


@pytest.mark.parametrize("option", ["--config", "--check"])
def test_a_link_in_place_of_the_keys_is_a_usage_error(tmp_path: Path, option: str) -> None:
    path, link, elsewhere = tmp_path / "fleet.toml", tmp_path / "data" / "arm", tmp_path / "elsewhere"
    path.write_text(f"{FLEET}\n[management]\nlisten = '127.0.0.1:0'\n")
    elsewhere.mkdir()
    link.parent.mkdir()
    link.symlink_to(elsewhere)

    done = call("serve", option, str(path))

    problem = f"[store] path: {link} cannot hold keys: it is a symbolic link"
    assert (done.code, done.stderr) == (2, f"error: {path}: {problem}\n")
    assert os.listdir(elsewhere) == []


def test_a_database_without_tables_is_refused_with_both_ways_to_create_them(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", new_database())
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET.replace('kind = "sqlite"\npath = "data"', 'kind = "postgres"\ndsn_file = "dsn"'))

    refused = call("serve", "--config", str(path))

    assert refused.code == 1
    assert "hint: fairwarning db migrate --config FILE, or migrate = true in [store]" in refused.stderr


@pytest.mark.parametrize("option", ["--config", "--check"])
@pytest.mark.parametrize("key", ["dsn", "dsn_file"])
def test_an_address_that_no_node_can_use_is_a_usage_error(tmp_path: Path, option: str, key: str) -> None:
    dsn = "host=db1,db2 target_session_attrs=standby"
    secret(tmp_path, "address", dsn)
    path = tmp_path / "fleet.toml"
    path.write_text(f'[store]\nkind = "postgres"\n{key} = "{dsn if key == "dsn" else "address"}"\n')

    refused = call("serve", option, str(path))

    needed = "target_session_attrs must be read-write, or left out: nodes need a server that accepts writes"
    assert (refused.code, refused.stderr) == (
        2,
        f"error: {path}: [store] {key}: the address of the database cannot be used: {needed}\n",
    )


#: The command line where psycopg is not installed.
WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
from fairwarning.cli import cli
cli()
"""


def test_a_database_that_the_server_cannot_use_for_lack_of_psycopg_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[store]\nkind = "postgres"\ndsn = "host=db1"\n')

    command = [sys.executable, "-c", WITHOUT_PSYCOPG, "serve", "--check", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)

    problem = "PostgreSQL needs psycopg: install fairwarning[postgres]"
    assert (done.returncode, done.stderr) == (2, f"error: {path}: [store] dsn: {problem}\n")


def test_a_node_starts_with_an_address_that_asks_for_the_primary(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", f"{new_database()} target_session_attrs=read-write connect_timeout=2")
    store = 'kind = "postgres"\ndsn_file = "dsn"\nmigrate = true'
    text = FLEET.replace('kind = "sqlite"\npath = "data"', store)

    with serving(tmp_path, text) as server:
        checked = call("serve", "--check", str(tmp_path / "fleet.toml"))
        (node,) = server.tell("nodes")

    assert (checked.code, node["address"]) == (0, server.url)


def test_two_nodes_share_a_database_and_one_goes_on_alone(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", new_database())
    text = FLEET.replace(
        'kind = "sqlite"\npath = "data"', 'kind = "postgres"\ndsn_file = "../dsn"\nmigrate = true'
    )
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    with serving(tmp_path / "a", text) as first, serving(tmp_path / "b", text) as second:
        with first.guest("127.77.0.2") as guest:
            guest.get(EVENTS)
            (event,) = second.tell("cause", "restart", "w2", "--notice", "2s")
            until(lambda: event["id"] in guest.get(EVENTS).text, "a guest of the first node sees the event")
        first.process.kill()
        first.process.wait(timeout=20)
        until(lambda: second.tell("events")[0]["status"] == "Started", "the second node starts the event")
        done = second.command("complete", event["id"])

    assert done.code == 0
