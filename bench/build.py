"""``python -m bench.build DIR SETS MACHINES`` builds a fleet in a directory.

A process of its own, so that building uses no memory of the measured process.
"""

import asyncio
import sys
from pathlib import Path

from bench.server_under_test import opened, populate
from fairwarning.store.sqlite import SqliteStore


async def build(folder: Path, sets: int, machines: int) -> None:
    """Build a fleet of sets that are enabled and have one event each."""
    store = await SqliteStore.open(folder)
    engine = await opened(store)
    await populate(engine, sets, machines)
    await engine.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(build(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
