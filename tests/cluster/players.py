"""Guests, operators and a management client that use a cluster while its nodes fail.

A guest stays with its node until a request fails there; then it moves on. Operators and management clients
take any node. What has not been answered is tried again where that means the same: approvals, cancellations
and the PUT of a document.
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypedDict

import httpx2

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from fairwarning.core.inputs import parse_duration
from tests.cluster.answers import Answers, Outcome, Reply

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
GUEST = {"Metadata": "true"}
GROUPS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
COMPUTE = f"{GROUPS}/fairwarning/providers/Microsoft.Compute"
VERSION = {"api-version": "2024-07-01"}
CAUSES = "restart", "redeploy", "freeze", "live-migrate", "platform-redeploy"
#: The causes that leave a machine where it is.
STAYING = "restart", "freeze"
#: The cause of events on all machines of the host that machines of several scopes share.
HOST_CAUSE, HOST = "host-reboot", "shared"
NOTICES = "0s", "1s", "2s", "15m"
#: How long clients wait for an answer, in seconds.
PATIENCE = httpx2.Timeout(2.0)
#: How many times a write without an answer is tried.
TRIES = 5


class ClusterNode(Protocol):
    """The addresses of a node, as its clients know them."""

    @property
    def process(self) -> str:
        """The name of the node and the number of its start."""
        ...

    @property
    def cut_off(self) -> bool:
        """Whether the node cannot read what other nodes write, or could not a moment ago."""
        ...

    @property
    def metadata(self) -> str:
        """The URL at which guests are known by their source address."""
        ...

    @property
    def operator(self) -> str:
        """The URL of the operator API."""
        ...

    @property
    def management(self) -> str:
        """The URL of the management API."""
        ...


class _ShownEvent(TypedDict):
    EventId: str
    EventStatus: str


class _Announced(TypedDict):
    id: str


@dataclass(frozen=True)
class Players:
    """All clients of a cluster."""

    nodes: Sequence[ClusterNode]
    #: The source address of each machine, by its full name.
    addresses: Mapping[str, str]
    #: The machines of the host that machines of several scopes share.
    neighbours: Sequence[str]
    #: The machines that only management clients restart.
    managed: Sequence[str]
    answers: Answers
    chance: random.Random
    over: asyncio.Event
    token: str

    async def play(self) -> None:
        """Send requests until the game is over."""
        async with asyncio.TaskGroup() as players, client_from() as client:
            for number, machine in enumerate(self.addresses):
                players.create_task(self._guest(machine, number))
            clients = [
                *(players.create_task(self._operate(client)) for _ in range(6)),
                players.create_task(self._write_groups(client)),
                players.create_task(self._restart(client)),
                players.create_task(self._roll_out(client)),
            ]
            await asyncio.wait(clients)

    # -- guests

    async def _guest(self, machine: str, number: int) -> None:
        """Poll again and again, sometimes with patience, and approve some of the events."""
        node, tag = self.nodes[number % len(self.nodes)], ""
        async with client_from(self.addresses[machine]) as client:
            while not self.over.is_set():
                process, wait = node.process, self.chance.random() < 0.3 and bool(tag)
                url = f"{node.metadata}{EVENTS}" + ("&wait=1" if wait else "")
                headers = GUEST | ({"If-None-Match": tag} if wait else {})
                try:
                    answer = await client.get(url, headers=headers)
                except httpx2.TransportError:
                    node, tag = self._another(node), ""
                    await asyncio.sleep(0.05)
                    continue
                self.answers.polls[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    tag = answer.headers["etag"]
                    document = json.loads(answer.content)
                    incarnation = document["DocumentIncarnation"]
                    self.answers.saw(machine, process, incarnation, cut_off=node.cut_off)
                    await self._heed(client, node, machine, document["Events"])
                await asyncio.sleep(self.chance.uniform(0.05, 0.3))

    async def _heed(
        self, client: httpx2.AsyncClient, node: ClusterNode, machine: str, events: Sequence[_ShownEvent]
    ) -> None:
        for event in events:
            if event["EventStatus"] == "Scheduled" and self.chance.random() < 0.3:
                body: Json = {"StartRequests": [{"EventId": event["EventId"]}]}
                reply = await _send(client, "POST", f"{node.metadata}{EVENTS}", body, GUEST)
                self.answers.wrote("approve", event["EventId"], reply)

    def _another(self, node: ClusterNode) -> ClusterNode:
        return self.chance.choice([other for other in self.nodes if other is not node] or self.nodes)

    # -- operators

    async def _operate(self, client: httpx2.AsyncClient) -> None:
        """Trigger events, approve some and cancel some."""
        while not self.over.is_set():
            for event in await self._cause(client):
                if self.chance.random() < 0.5:
                    await self._decide(client, event, self.chance.choice(("approve", "cancel")))
            await asyncio.sleep(self.chance.uniform(0.0, 0.1))

    async def _cause(self, client: httpx2.AsyncClient) -> list[str]:
        notice = self.chance.choice(NOTICES)
        if self.chance.random() < 0.1:
            cause, machines = HOST_CAUSE, self.neighbours
            body: Json = {"cause": cause, "host": HOST, "notice": notice}
        else:
            machines = [self.chance.choice(self._operated)]
            cause = self.chance.choice(STAYING if machines[0] in self.neighbours else CAUSES)
            body = {"cause": cause, "machines": [*machines], "notice": notice}
        url = f"{self._any().operator}/fleet/v1/events"
        reply = await _send(client, "POST", url, body)
        for machine in machines:
            self.answers.wrote("cause", f"{cause} {machine}", reply)
        if reply.outcome is not Outcome.DONE:
            return []
        announced: list[_Announced] = json.loads(reply.body)["events"]
        for event in announced:
            self.answers.wrote("event", event["id"], reply)
            self.answers.notices[event["id"]] = parse_duration(notice, "notice")
        return [event["id"] for event in announced]

    async def _decide(self, client: httpx2.AsyncClient, event: str, verb: str) -> None:
        for _ in range(TRIES):
            url = f"{self._any().operator}/fleet/v1/events/{event}/{verb}"
            reply = await _send(client, "POST", url, {})
            self.answers.wrote(verb, event, reply)
            if reply.outcome is not Outcome.UNKNOWN:
                return

    async def _roll_out(self, client: httpx2.AsyncClient) -> None:
        """Start a rollout in the availability set, again and again."""
        while not self.over.is_set():
            body: Json = {"scope": "app", "cause": "live-migrate", "notice": "1s"}
            reply = await _send(client, "POST", f"{self._any().operator}/fleet/v1/rollouts", body)
            self.answers.wrote("rollout", "app", reply)
            await asyncio.sleep(self.chance.uniform(0.5, 1.0))

    # -- management clients

    async def _write_groups(self, client: httpx2.AsyncClient) -> None:
        """Change the tags of a resource group, each time to a value that was never used."""
        for number in count():
            if self.over.is_set():
                return
            value = f"value-{number}"
            body: Json = {"location": "westeurope", "tags": {"number": value}}
            for _ in range(TRIES):
                reply = await self._manage(client, "PUT", f"{GROUPS}/chaos", body)
                self.answers.wrote("tag", value, reply)
                if reply.outcome is not Outcome.UNKNOWN:
                    break
            await asyncio.sleep(self.chance.uniform(0.0, 0.2))

    async def _restart(self, client: httpx2.AsyncClient) -> None:
        """Restart machines, as az would."""
        while not self.over.is_set():
            machine = self.chance.choice(self.managed)
            url = f"{COMPUTE}/virtualMachines/{machine.partition('/')[2]}/restart"
            reply = await self._manage(client, "POST", url, None)
            self.answers.wrote("restart", machine, reply)
            if reply.operation:
                self.answers.operations.append(httpx2.URL(reply.operation).raw_path.decode())
            await asyncio.sleep(self.chance.uniform(0.1, 0.4))

    async def _manage(self, client: httpx2.AsyncClient, method: str, path: str, body: Json) -> Reply:
        bearer = {"Authorization": f"Bearer {self.token}"}
        return await _send(client, method, f"{self._any().management}{path}", body, bearer, VERSION)

    @property
    def _operated(self) -> list[str]:
        return [machine for machine in self.addresses if machine not in self.managed]

    def _any(self) -> ClusterNode:
        return self.chance.choice(self.nodes)


def client_from(source: str | None = None, patience: httpx2.Timeout = PATIENCE) -> httpx2.AsyncClient:
    """Return a client that trusts any certificate and sends from one address."""
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=100)
    transport = httpx2.AsyncHTTPTransport(verify=False, local_address=source, trust_env=False, limits=limits)
    return httpx2.AsyncClient(transport=transport, timeout=patience, trust_env=False)


async def _send(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    body: Json,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> Reply:
    """Send a write and return what its answer says."""
    try:
        answer = await client.request(method, url, json=body, headers=headers, params=query)
    except httpx2.ConnectError:
        return Reply(Outcome.REFUSED)  # nothing was sent
    except httpx2.TransportError:
        return Reply(Outcome.UNKNOWN)
    if answer.is_success:
        operation = answer.headers.get("azure-asyncoperation", "")
        return Reply(Outcome.DONE, answer.status_code, answer.content, operation)
    unknown = answer.status_code == 503 and "unknown" in answer.text
    return Reply(Outcome.UNKNOWN if unknown else Outcome.REFUSED, answer.status_code, answer.content)
