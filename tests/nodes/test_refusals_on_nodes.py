"""Refused requests of guests on several nodes: what the journal says about them."""

import msgspec

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.http1.messages import Request, Response
from tests.fleet_harness import run
from tests.guest import EVENTS, METADATA, NEWEST, start
from tests.nodes.node import Node, two_nodes

WEB = Blueprint(name="web", count=2)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def approve(node: Node, event: str) -> int:
    """Approve an event as the guest of web_0, and return the status."""
    body = msgspec.json.encode(start(event))

    async def answer() -> Response:
        reply = node.guests.answer(WEB_0, Request("POST", EVENTS, NEWEST, METADATA, body, True))
        return reply if isinstance(reply, Response) else await reply

    return run(answer()).status


def refusals(node: Node) -> int:
    """Return how many lines of the journal are about refusals."""
    return sum(isinstance(entry.change, CommandRefused) for entry in node.fleet.journal())


def test_a_guest_has_one_line_a_minute_on_each_node() -> None:
    first, second = two_nodes(WEB)

    statuses = {approve(node, UNKNOWN) for node in (first, second) * 5}

    assert statuses == {400}
    assert refusals(first) == 2


def test_an_approval_that_comes_before_its_event_is_no_refusal() -> None:
    first, second = two_nodes(WEB)
    (event,) = first.operator.cause("restart", "web_0").events

    accepted = approve(second, event.id)
    noted = refusals(first)
    refused = approve(second, UNKNOWN)

    assert (accepted, noted) == (200, 0)
    assert (refused, refusals(first)) == (400, 1)
