"""Moving through time on purpose."""

from datetime import datetime

from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine


async def travel(engine: Engine, clock: ManualClock, to: datetime) -> None:
    """Move manual time forward, stopping at every deadline on the way.

    What happens is the same, in the same order, as if we had waited.
    """
    while (deadline := engine.next_deadline()) is not None and deadline <= to:
        clock.set(deadline)
        await engine.tick()
    clock.set(to)
