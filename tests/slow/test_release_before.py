"""A node of the release before a migration and a node of this one, on one database."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.server import call, until
from tests.cli.test_serve import EVENTS, FLEET, Serving, serving
from tests.config.files import secret
from tests.needs import lack
from tests.postgres import execute, new_database
from tests.slow.history import code_of, git, started_from

#: The first migration since an earlier release: the code before the commit that added it knows none after it.
MIGRATION = "src/fairwarning/store/migrations/postgres/0002-drop-old-partitions.sql"

STORE = '[store]\nkind = "postgres"\ndsn_file = "../dsn"\nmigrate = {migrate}\n[operator]'


@pytest.fixture(scope="module")
def code_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package as it was before the migration."""
    added = git("log", "--diff-filter=A", "--format=%H", "--", MIGRATION).decode().split()
    if not added:
        lack("needs the whole history of the repository")
    return code_of(f"{added[-1]}^", tmp_path_factory.mktemp("before"))


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

    migrate = ("db", "migrate", "--dsn-file", str(tmp_path / "dsn"))

    with ExitStack() as old_node, ExitStack() as new_node:
        old = old_node.enter_context(serving(tmp_path / "old", before, started_from(code_before)))
        assert schema(dsn) == (1, 1)
        assert call(*migrate).code == 0
        assert schema(dsn) == (4, 1)
        new = new_node.enter_context(serving(tmp_path / "new", after))
        live_through(old, new)
        live_through(new, old)
        histories = [node.tell("history") for node in (old, new)]
        too_early = call(*migrate, "--finish")
        old_node.close()
        finished = call(*migrate, "--finish")
        with pytest.raises(
            AssertionError, match="the database has schema 4, this version knows schemas up to 1"
        ):
            old_node.enter_context(serving(tmp_path / "old", before, started_from(code_before)))
        assert new.tell("events") == []

    # Who reported an impact is a line that the release before keeps to itself.
    assert histories[0] == [line for line in histories[1] if line["kind"] != "progressed"]
    assert (too_early.code, finished.code) == (1, 0), finished.stderr
    assert "(release 0.1.0)" in too_early.stderr
    assert schema(dsn) == (4, 4)
