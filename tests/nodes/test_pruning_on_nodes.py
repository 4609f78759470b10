"""The journal is pruned by one node at a time, and the others go on."""

from datetime import timedelta

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventId
from fairwarning.core.policy import Retention
from fairwarning.engine.leases import LASTS
from fairwarning.engine.retention import Pruner
from tests.fleet_harness import run
from tests.nodes.node import Node, follow, two_nodes

WEB = Blueprint(name="web", count=2)


def prune(node: Node) -> int:
    """Let a node remove all lines that are not needed; return the last line of the pruned part."""

    async def needed() -> set[EventId]:
        return set()

    engine = node.engine
    run(
        Pruner(
            engine.store, engine.leases, engine.clock.now, Retention(age=timedelta(seconds=-1)), needed
        ).prune()
    )
    return run(engine.store.pruned())


def test_one_node_prunes_and_another_takes_over_when_it_is_gone() -> None:
    first, second = two_nodes(WEB)
    pruned = prune(first)
    first.fleet.make(Blueprint(name="app", count=1))

    while_first_has_the_lease = prune(second)
    first.fleet.clock.set(first.fleet.now + LASTS)
    afterwards = prune(second)

    assert 0 < pruned == while_first_has_the_lease < afterwards


def test_a_node_that_is_behind_the_pruned_part_reads_the_whole_state() -> None:
    first, second = two_nodes(WEB)
    first.fleet.make(Blueprint(name="app", count=1))
    (event,) = first.operator.cause("restart", "app_0").events
    prune(first)

    follow(second)

    assert second.engine.position == first.engine.position
    assert second.fleet.event(event.id) == first.fleet.event(event.id)
