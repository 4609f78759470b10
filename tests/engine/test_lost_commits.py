"""A decision that could not be kept is no decision: time goes on from what is kept."""

from collections.abc import Sequence

import pytest

from fairwarning.core.model import ScopeId
from fairwarning.core.scope import Blueprint
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.memory import MemoryStore
from tests.stage import Stage, run

WEB = ScopeId("web")


class FullDisk(MemoryStore):
    """A store that fails as often as it is told to."""

    failures = 0

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        return await super().commit(commits)


def test_the_end_of_a_scope_that_could_not_be_kept_is_tried_again_by_the_next_tick() -> None:
    disk = FullDisk()
    stage = Stage(Blueprint(name="web", count=1), store=disk)
    stage.remove("web", force=True)
    deadline = stage.engine.next_deadline()
    assert deadline is not None
    stage.clock.set(deadline)
    disk.failures = 1
    with pytest.raises(OSError, match="disk full"):
        run(stage.engine.tick())

    run(stage.engine.tick())

    assert WEB not in stage.engine.scopes()
    assert stage.engine.next_deadline() is None
