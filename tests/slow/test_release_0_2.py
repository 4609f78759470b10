"""Release 0.2.0 and this one on the same data: what is new waits, and nothing is lost or dropped."""

import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.arm.azure import HOME
from tests.cli.server import FAIRWARNING, call, until
from tests.cli.test_serve import FLEET, Serving, serving
from tests.config.files import secret
from tests.postgres import execute, new_database
from tests.slow.history import RELEASE_0_2, code_of, environment, started_from
from tests.slow.test_release_before import live_through, schema

pytestmark = [pytest.mark.slow, pytest.mark.needs("git")]

TOKEN = "a token of the management API"
API = "?api-version=2024-07-01"
MACHINES = f"{HOME}/Microsoft.Compute/virtualMachines"
POSTGRES = """
[store]
kind = "postgres"
dsn_file = "../dsn"
migrate = {migrate}
"""
MANAGEMENT = """
[management]
listen = "127.0.0.1:0"
token_file = "../token"
[tls]
directory = "../tls"
[operator]
"""
NEWER = "the database has schema {found}, this version (0.2.0) knows schemas up to {known}; install version"

NEWER_BACKUP = "it has format 2, this version (0.2.0) reads formats up to 1; install version"


@pytest.fixture(scope="module")
def release_0_2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package as it was in release 0.2.0."""
    return code_of(RELEASE_0_2, tmp_path_factory.mktemp("0.2.0"))


@contextmanager
def management(node: Serving) -> Iterator[httpx2.Client]:
    """Yield a client of the management API of a node."""
    trusted = ssl.create_default_context(cafile=node.ready["ca"])
    with httpx2.Client(base_url=node.ready["arm"], verify=trusted, timeout=20) as client:
        form = {"grant_type": "client_credentials", "client_id": "me", "client_secret": TOKEN}
        token = client.post("/adfs/oauth2/token", data=form).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def power(node: Serving, name: str) -> str:
    """Return the power state of a machine, as clients of Azure see it."""
    with management(node) as client:
        view = client.get(f"{MACHINES}/{name}/instanceView{API}").raise_for_status().text
    return view.partition("PowerState/")[2].partition('"')[0]


def switch_off(node: Serving, name: str) -> httpx2.Response:
    """Switch a machine off without deallocating it."""
    with management(node) as client:
        return client.post(f"{MACHINES}/{name}/powerOff{API}")


def old_command(code: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the earlier release."""
    return subprocess.run([*FAIRWARNING, *words], env=environment(code), capture_output=True, text=True)


def restored_by(code: Path, backup: Path) -> subprocess.CompletedProcess[str]:
    """Restore a backup into a new directory with the earlier release."""
    return old_command(code, "db", "restore", str(backup), "--data", f"{backup}-restored")


@pytest.mark.story
@pytest.mark.rule("U-01", "U-02", "U-04")
def test_what_is_new_waits_until_the_upgrade_of_two_nodes_is_finished(
    release_0_2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWARNING_CA", str(tmp_path / "tls" / "ca.pem"))
    dsn, known = new_database(), 4
    secret(tmp_path, "dsn", dsn)
    secret(tmp_path, "token", TOKEN)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    texts = [
        POSTGRES.format(migrate=migrate) + MANAGEMENT + FLEET.partition("[operator]")[2]
        for migrate in ("true", "false")
    ]
    at = ("--dsn-file", str(tmp_path / "dsn"))

    with ExitStack() as nodes:
        old = nodes.enter_context(serving(tmp_path / "old", texts[0], started_from(release_0_2)))
        assert switch_off(old, "w2").status_code == 202
        assert schema(dsn) == (known - 1, 1)
        assert call("db", "migrate", *at).code == 0
        new = nodes.enter_context(serving(tmp_path / "new", texts[1]))
        live_through(old, new)
        live_through(new, old)
        waiting = switch_off(new, "w1")
        before = schema(dsn), [power(new, name) for name in ("w1", "w2")], new.command("nodes").stderr
        call("db", "backup", str(tmp_path / "before"), *at)
        too_early = call("db", "migrate", *at, "--finish")
        # A node that stands still for long enough counts as gone.
        old.process.send_signal(signal.SIGSTOP)
        until(lambda: call("db", "migrate", *at, "--finish").code == 0, "the migration is finished")
        until(lambda: switch_off(new, "w1").status_code == 202, "the new node knows that it is finished")
        until(lambda: power(new, "w2") == "stopped" and not markers(dsn), "the marker is converted")
        old.process.send_signal(signal.SIGCONT)
        until(lambda: old.process.poll() is not None, "the old node has ended")
        after = [power(new, name) for name in ("w1", "w2")]
        stored = [json.loads(str(body))["allocated"] for (body,) in execute(dsn, "SELECT body FROM machine")]
        call("db", "backup", str(tmp_path / "after"), *at)
        with pytest.raises(AssertionError) as refused:
            nodes.enter_context(serving(tmp_path / "old", texts[0], started_from(release_0_2)))
        checked = call("db", "check", *at)

    assert waiting.status_code == 409
    assert "run fairwarning db migrate --finish first" in waiting.text
    assert before[:2] == ((known, 1), ["running", "stopped"])
    assert "db migrate --finish" not in before[2]  # a node of 0.2.0 is alive
    assert (too_early.code, "(release 0.2.0)" in too_early.stderr) == (1, True)
    newer = NEWER.format(found=known, known=known - 1)
    assert newer in (tmp_path / "old" / "stderr").read_text()
    assert newer in str(refused.value)
    assert (after, stored, checked.code) == (["stopped", "stopped"], [True, True], 0), checked.stdout
    restored = [
        old_command(
            release_0_2, "db", "restore", str(tmp_path / name), "--data", str(tmp_path / f"{name}-data")
        )
        for name in ("before", "after")
    ]
    assert [done.returncode for done in restored] == [0, 1]
    assert (
        "it has format 2, this version (0.2.0) reads formats up to 1; install version" in restored[1].stderr
    )


def markers(dsn: str) -> list[tuple[object, ...]]:
    return list(execute(dsn, "SELECT key FROM document WHERE key LIKE 'switched-off:%'"))


@pytest.mark.rule("U-01", "U-04")
def test_a_data_directory_is_finished_once_this_release_has_opened_it(
    release_0_2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWARNING_CA", str(tmp_path / "tls" / "ca.pem"))
    secret(tmp_path, "token", TOKEN)
    folder = tmp_path / "node"
    folder.mkdir()
    text = FLEET.partition("[operator]")[0] + MANAGEMENT + FLEET.partition("[operator]")[2]
    data = folder / "data"

    with serving(folder, text, started_from(release_0_2)) as old:
        assert switch_off(old, "w2").status_code == 202
        with old.guest("127.77.0.1") as guest:
            guest.get("/metadata/scheduledevents?api-version=2020-07-01")
            (event,) = old.tell("cause", "restart", "w1")
    with serving(folder, text) as new:
        (pending,) = new.tell("events")
        assert switch_off(new, "w1").status_code == 202
        states = [power(new, name) for name in ("w1", "w2")]
    assert call("db", "backup", str(tmp_path / "backup"), "--data", str(data)).code == 0
    checked = call("db", "check", "--data", str(data))
    refused = old_command(release_0_2, "db", "check", "--data", str(data))
    restored = old_command(
        release_0_2, "db", "restore", str(tmp_path / "backup"), "--data", str(tmp_path / "x")
    )

    assert pending["id"] == event["id"]
    assert (states, checked.code) == (["stopped", "stopped"], 0)
    assert refused.returncode == restored.returncode == 1
    assert NEWER.format(found=7, known=6) in refused.stderr
    assert NEWER_BACKUP in restored.stderr
