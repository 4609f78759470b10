"""A store that keeps nothing while something is wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import StorageError
from fairwarning.engine.ports import Batch, Entry
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import FleetHarness

WEB = Blueprint(name="web", count=2)


@dataclass
class Disk(MemoryStore):
    """A store that keeps nothing while something is wrong with it."""

    wrong: Exception | None = field(default=None)
    tried: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        self.tried += 1
        if self.wrong is not None:
            raise self.wrong
        return await super().commit(batch)


FULL = StorageError("database /srv/fairwarning.db failed: disk full", "disk full")


def broken(problem: Exception = FULL, store: Disk | None = None) -> tuple[FleetHarness, Disk]:
    """Return a fleet whose last change could not be stored, and the store that has to be repaired."""
    disk = store or Disk()
    stage = FleetHarness(WEB, store=disk)
    disk.wrong = problem
    with pytest.raises(type(problem)):
        stage.cause("restart", "web_0")
    return stage, disk
