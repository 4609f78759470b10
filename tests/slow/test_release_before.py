"""A node of the release before a migration and a node of this one, on one database."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.server import FAIRWARNING, Process, call, until
from tests.cli.test_serve import EVENTS, FLEET, Serving, serving
from tests.config.files import secret
from tests.needs import lack
from tests.postgres import execute, new_database

ROOT = Path(__file__).parent.parent.parent

#: The last migration, and the code that does not know it is the one before the commit that added it.
MIGRATION = "src/fairwarning/store/migrations/postgres/0002-drop-old-partitions.sql"

STORE = '[store]\nkind = "postgres"\ndsn_file = "../dsn"\nmigrate = {migrate}\n[operator]'


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def code_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package as it was before the migration."""
    added = git("log", "--diff-filter=A", "--format=%H", "--", MIGRATION).decode().split()
    if not added:
        lack("needs the history of the repository")
    folder = tmp_path_factory.mktemp("before")
    archive = git("archive", f"{added[-1]}^", "src")
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder / "src"


def started_from(code: Path) -> Callable[[list[str], Path, Path], Process]:
    """Return what starts the program from another source tree."""

    def start(words: list[str], stdout: Path, stderr: Path) -> Process:
        with stdout.open("wb") as output, stderr.open("wb") as errors:
            environment = {**os.environ, "PYTHONPATH": str(code)}
            return subprocess.Popen([*FAIRWARNING, *words], stdout=output, stderr=errors, env=environment)

    return start


def live_through(announces: Serving, approves: Serving) -> None:
    """Let an event be announced and completed on one node, and seen and approved on the other."""
    with approves.guest("127.77.0.1") as guest:
        guest.get(EVENTS)
        (event,) = announces.tell("cause", "restart", "w1")
        until(lambda: event["id"] in guest.get(EVENTS).text, "the guest of the other node sees the event")
        approval = guest.post(EVENTS, json={"StartRequests": [{"EventId": event["id"]}]})
        assert approval.status_code == 200
        until(lambda: announces.tell("events")[0]["status"] == "Started", "the first node sees the approval")
        assert announces.command("complete", event["id"]).code == 0
        until(lambda: event["id"] not in guest.get(EVENTS).text, "the event is over for the guest")


def schema(dsn: str) -> tuple[object, ...]:
    ((found, readable_from),) = execute(dsn, "SELECT schema, readable_from FROM meta")
    return found, readable_from


@pytest.mark.slow
@pytest.mark.needs("git")
def test_nodes_of_two_releases_serve_one_database(code_before: Path, tmp_path: Path) -> None:
    dsn = new_database()
    secret(tmp_path, "dsn", dsn)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    before, after = (
        STORE.format(migrate=migrate) + FLEET.partition("[operator]")[2] for migrate in ("true", "false")
    )

    with serving(tmp_path / "old", before, started_from(code_before)) as old:
        assert schema(dsn) == (1, 1)
        assert call("db", "migrate", "--dsn-file", str(tmp_path / "dsn")).code == 0
        assert schema(dsn) == (2, 1)
        with serving(tmp_path / "new", after) as new:
            live_through(old, new)
            live_through(new, old)
            histories = [node.tell("history") for node in (old, new)]
            finished = call("db", "migrate", "--dsn-file", str(tmp_path / "dsn"), "--finish")
            until(lambda: old.process.poll() is not None, "the node that is too old has stopped")
            assert new.tell("events") == []

    assert histories[0] == histories[1]
    assert finished.code == 0, finished.stderr
    assert schema(dsn) == (2, 2)
    assert (
        "the database has schema 2, this version knows schemas up to 1"
        in (tmp_path / "old" / "stderr").read_text()
    )
