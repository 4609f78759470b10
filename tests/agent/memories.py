"""Memories of the agent, for tests of its plan."""

from fairwarning.agent.plan import AgentPolicy, EventStep, Memory, Record, Work
from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.model import EventId
from tests.agent.events import DRAIN, record, seen

E1, E2 = seen(), seen("E2")
POLICY = AgentPolicy(rules=(DRAIN,))
K1 = E1.key


def remembering(*records: Record, busy: frozenset[tuple[EventId, Work]] = frozenset()) -> Memory:
    return Memory(records={known.event.key: known for known in records}, busy=busy)


def ready(event: ObservedEvent, **more: object) -> Memory:
    return remembering(record(event, EventStep.READY, **more))


FAILED = remembering(record(E1, EventStep.FAILED, attempts=1, problem="the drain exits 1"))
READY_1 = record(E1, EventStep.READY)
