"""Release 0.1.0 meets this release: its agent and its commands work, and its server refuses new data."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairwarning.store.migrate import migrations
from tests.agent.processes import Guest
from tests.cli.server import FAIRWARNING, Server, Shown, until, up
from tests.slow.history import FIRST_RELEASE, code_of, environment, started_from

pytestmark = [pytest.mark.slow, pytest.mark.needs("git")]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return code_of(FIRST_RELEASE, tmp_path_factory.mktemp("0.1.0"))


def old(code: Path, *words: str, url: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command of release 0.1.0."""
    variables = {**environment(code), "FAIRWARNING_URL": url}
    return subprocess.run([*FAIRWARNING, *words], env=variables, capture_output=True, text=True, timeout=60)


def ids(server: Server) -> set[str]:
    """Return the ids of the pending events."""
    return {event["id"] for event in json.loads(server.tell("events", "--json"))}


class OldGuest(Guest):
    """A machine with the agent of release 0.1.0, in its one file."""

    def words(self, *words: str) -> list[str]:
        return [sys.executable, str(self.folder / "agent.pyz"), *words, "--config", str(self.config)]


def test_its_agent_prepares_and_approves_and_the_agent_of_this_release_recovers(
    code: Path, tmp_path: Path
) -> None:
    with up(tmp_path, "--vm", "db", "--no-arm", "--speed", "20") as server, ExitStack() as stack:
        before, after = (kind(server, tmp_path / "guest", "db") for kind in (OldGuest, Guest))
        before.write()
        stack.callback(after.stop)
        build = [sys.executable, str(code / "packaging" / "build_agent.py"), str(before.folder / "agent.pyz")]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        before.run()
        (event,) = server.cause("restart", "db")
        until(lambda: bool(before.approvals(event)), "the agent of 0.1.0 approves")
        before.kill()
        (before.folder / "stderr").unlink()

        after.run()
        after.recovered(event)

        assert after.did(event) == ["prepare", "recover"]
        assert after.approvals(event) == ["db"]


def test_its_commands_control_the_server_of_this_release(code: Path, tmp_path: Path) -> None:
    def tell(server: Server, *words: str) -> list[Shown]:
        done = old(code, *words, "--json", url=server.ready["operator"])
        assert done.returncode == 0, done.stderr
        told: list[Shown] = json.loads(done.stdout)
        return told

    with up(tmp_path, "--scale-set", "web=2", "--no-arm", "--start-enabled") as server:
        machines = tell(server, "vms")
        (event,) = tell(server, "cause", "restart", "web_0")
        pending = tell(server, "events")
        approved = old(code, "approve", event["id"], url=server.ready["operator"])
        until(lambda: tell(server, "events") == [], "the restart is over")
        rolled = old(code, "walk", "host-update", "--scope", "web", url=server.ready["operator"])
        history = server.history()

    assert len(machines) == 2
    assert [shown["id"] for shown in pending] == [event["id"]]
    assert (approved.returncode, rolled.returncode) == (0, 0), approved.stderr + rolled.stderr
    assert {"scheduled", "approved", "started", "finished"} <= {row["kind"] for row in history}


def test_what_its_server_left_behind_when_it_was_killed_goes_on_here(code: Path, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"), "--no-arm")
    fleet = ("--vm", "db", "--scale-set", "web=2", "--start-enabled")
    with up(tmp_path, *data, *fleet, start=started_from(code)) as before:
        (restart,) = before.cause("restart", "db")
        (freeze,) = before.cause("freeze", "web_1")
        before.process.kill()

    with up(tmp_path, *data) as after:
        pending = ids(after)
        after.tell("approve", restart["id"])
        until(lambda: ids(after) == {freeze["id"]}, "the restart is over")
        kinds = [row["kind"] for row in after.history() if row["event"] == restart["id"]]

    assert pending == {restart["id"], freeze["id"]}
    assert kinds == ["scheduled", "approved", "started", "finished"]


def test_its_server_refuses_the_data_directory_of_this_release(code: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--vm", "db", "--no-arm", "--data", str(data)):
        pass

    refused = old(code, "up", "--data", str(data), "--port-base", "0", "--no-arm")

    assert refused.returncode == 1
    assert (
        f"the database has schema {len(migrations())}, this version knows schemas up to 2" in refused.stderr
    )
