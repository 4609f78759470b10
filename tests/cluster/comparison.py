"""What nodes say about the fleet, asked from outside: all say the same, and all of them can change it."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

import httpx2

from fairwarning.core.document.render import Json
from tests.cluster.answers import Answers, Outcome, Reply
from tests.cluster.nodes import ADDRESSES, Node
from tests.cluster.players import COMPUTE, EVENTS, GROUPS, GUEST, VERSION, client_from

#: How long nodes may take until they say the same, in seconds.
CATCH_UP = 60.0

#: How long one answer may take on a busy machine.
PATIENCE = httpx2.Timeout(30.0)

#: Lists that each API returns.
_OPERATOR = "machines", "scopes", "events", "rollouts", "history?limit=1000"
_MANAGEMENT = GROUPS, f"{COMPUTE}/virtualMachines", f"{COMPUTE}/virtualMachineScaleSets"

#: Members that each node has for itself: its addresses, and the polls that it has not written yet.
_OWN = {"metadata", "alternatives", "polled_at"}

#: What a node says, by the path of each field.
Facts = Mapping[str, str]


async def differences(nodes: Sequence[Node], token: str, operations: Sequence[str]) -> list[str]:
    """Return in what the nodes still differ after all of them had time to catch up."""
    until = time.monotonic() + CATCH_UP
    while True:
        told = await asyncio.gather(*(_ask(node, token, operations) for node in nodes))
        found = [
            f"{field} is {told[0].get(field)} for {nodes[0].name} and {facts.get(field)} for {node.name}"
            for node, facts in zip(nodes[1:], told[1:], strict=True)
            for field in sorted(facts.keys() | told[0].keys())
            if facts.get(field) != told[0].get(field)
        ]
        if not found or time.monotonic() > until:
            return found
        await asyncio.sleep(0.2)


async def _ask(node: Node, token: str, operations: Sequence[str]) -> Facts:
    """Return everything that a node says about the fleet, field by field."""
    bearer = {"Authorization": f"Bearer {token}"}
    facts: dict[str, str] = {}
    async with client_from(patience=PATIENCE) as client:
        for path in _OPERATOR:
            facts |= _read(path, await client.get(f"{node.operator}/fleet/v1/{path}"))
        for path in _MANAGEMENT:
            answer = await client.get(f"{node.management}{path}", params=VERSION, headers=bearer)
            facts |= _read(path, answer)
        for path in operations:
            facts |= _read(path, await client.get(f"{node.management}{path}", headers=bearer))
    for machine, address in ADDRESSES.items():
        async with client_from(address, PATIENCE) as guest:
            answer = await guest.get(f"{node.metadata}{EVENTS}", headers=GUEST)
            facts |= _read(f"the document of {machine}", answer)
    return facts


def _read(what: str, answer: httpx2.Response) -> Facts:
    assert answer.status_code == 200, f"{answer.url} was answered with {answer.status_code}: {answer.text}"
    return dict(_fields(what, answer.json()))


def _fields(path: str, value: Json) -> Iterator[tuple[str, str]]:
    """Yield every field of a JSON value with its path, without what is a node's own."""
    if isinstance(value, dict):
        for name in value.keys() - _OWN:
            yield from _fields(f"{path}.{name}", value[name])
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _fields(f"{path}.{number}", item)
    else:
        yield path, repr(value)


async def check_writable(nodes: Sequence[Node], answers: Answers) -> None:
    """Let every node change every scope: a replica with a wrong stamp would conflict for ever."""
    async with client_from(patience=PATIENCE) as client:
        for node in nodes:
            for machine in ADDRESSES:
                body = {"cause": "predicted-failure", "machines": [machine]}
                answer = await client.post(f"{node.operator}/fleet/v1/events", json=body)
                if answer.status_code not in {201, 409}:
                    answers.complain(
                        f"{node.name} cannot change {machine}: {answer.status_code} {answer.text}"
                    )
                for event in answer.json()["events"] if answer.status_code == 201 else ():
                    answers.wrote("event", event["id"], Reply(Outcome.DONE))
