"""``python -m bench.build DIR SETS MACHINES`` makes a fleet that is kept in a directory, and ends.

In a process of its own, so that nothing of making it is in the memory of whoever measures.
"""

import asyncio
import sys
from pathlib import Path

from bench.server_under_test import opened, populate
from fairwarning.store.sqlite import SqliteStore


async def build(folder: Path, sets: int, machines: int) -> None:
    """Make a fleet of sets that are polled and have one event each."""
    store = await SqliteStore.open(folder)
    engine = await opened(store)
    await populate(engine, sets, machines)
    await engine.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(build(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
