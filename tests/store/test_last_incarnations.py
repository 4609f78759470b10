"""The last incarnation of every removed set is stored, even after its journal lines are pruned."""

from contextlib import closing
from pathlib import Path

import pytest

from fairwarning.core.changes import ScopeRemoved
from fairwarning.core.model import ScopeId
from fairwarning.engine.ports import SetName, Store
from fairwarning.store.checks import select_rows
from fairwarning.store.connection import connect
from fairwarning.store.migrate import migrate, migrations
from fairwarning.store.rows import read_sets
from tests.store.stores import Node, made
from tests.store.stories import Stage

WEB = ScopeId("web")


def removed(incarnation: int) -> ScopeRemoved:
    return ScopeRemoved(scope=WEB, set_id="web", incarnation=incarnation)


@pytest.mark.rule("L-11")
@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in four batches"])
def test_the_highest_incarnation_of_a_removed_set_is_kept(play: Stage, together: bool) -> None:
    async def story(store: Store) -> None:
        node = Node()
        requests = [made("web", "a"), [removed(9)], made("web", "a"), [removed(8)]]
        for batch in [requests] if together else [[one] for one in requests]:
            await store.commit(node.decide(*batch))

        assert (await store.snapshot()).sets["web"].incarnation == 9

    play(story)


#: Lines of a journal of schema 3 about sets: scope, kind and body.
LINES = (
    ("web", "ScopeMade", '{"scope":"web","facts":{"set_name":"web","group":""},"incarnation":1}'),
    ("web", "Published", '{"scope":"web","incarnation":6}'),
    ("web", "ScopeRemoved", '{"scope":"web"}'),
    ("lab/db.zone1", "ScopeMade", '{"facts":{"set_name":"db","group":"lab"},"incarnation":1}'),
    ("lab/db.zone2", "ScopeMade", '{"facts":{"set_name":"db","group":"lab"},"incarnation":1}'),
    ("lab/db.zone2", "Published", '{"scope":"lab/db.zone2","incarnation":4}'),
    ("web", "Published", '{"scope":"web","incar'),
    ("old", "ScopeMade", '{"scope":"old","facts":{"set_name":"old"},"incarnation":3}'),
)


@pytest.mark.rule("L-11")
def test_a_database_from_before_learns_the_last_incarnations_from_its_journal(tmp_path: Path) -> None:
    add = "INSERT INTO journal (at, scope, version, kind, body) VALUES ('2026-11-16', ?, 1, ?, ?)"
    with closing(connect(tmp_path / "fairwarning.db", ())) as database:
        migrate(database, [step for step in migrations() if step.number <= 3])
        database.executemany(add, LINES)

        migrate(database, migrations())

        kept = read_sets(database.execute(select_rows("fleet_set")))
    assert kept == {"web": SetName(1, 6), "lab/db": SetName(1, 4), "old": SetName(1, 3)}
