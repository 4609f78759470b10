"""Guests, operators and management clients that use a server at the same time until it is killed."""

import asyncio
import json
import random
import ssl
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TypedDict

import httpx2

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from tests.chaos.ledger import Ledger, Line, Machine, full
from tests.cli.server import Server

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
GUEST = {"Metadata": "true"}
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers/Microsoft.Compute"
VERSION = {"api-version": "2024-07-01"}
CAUSES = ("restart", "redeploy", "freeze", "live-migrate", "host-reboot", "hardware-failure", "delete")
#: Those without a notice: the machines that are deleted here have no terminate notification.
UNANNOUNCED = ("hardware-failure", "delete")
PAGE = 1000
#: The errors of a request to a killed server.
DEAD = (httpx2.TransportError, OSError)


@dataclass
class Game:
    """One run of the server: its clients, and the ledger of its answers."""

    server: Server
    ledger: Ledger
    chance: random.Random
    token: str
    manual: bool
    names: "count[int]"
    machines: list[Machine] = field(default_factory=list)

    async def run(self, *, to_the_death: bool) -> None:
        """Check the promises of earlier runs, then send requests until the server is killed."""
        trusted = ssl.create_default_context(cafile=self.server.ready["ca"])
        async with httpx2.AsyncClient(verify=trusted, trust_env=False, limits=_MANY) as client:
            await self._look(client)
            if to_the_death and not self.ledger.violations:
                await self._play(client)

    async def _look(self, client: httpx2.AsyncClient) -> None:
        listed = (await _answer(client, self._operator("machines")))["machines"]
        # The last lines are read again: they must not have changed.
        seen = max(self.ledger.lines, default=0)
        self.ledger.append(await self._history(client, max(0, seen - 50)))
        for machine in listed:
            # A machine without its own port is identified by its source address, which its alternatives name.
            if machine["metadata"] in self.server.ready["shared"]:
                machine["metadata"] = None
        self.machines = listed
        self.ledger.learn(listed)
        self.ledger.audit()

    async def _play(self, client: httpx2.AsyncClient) -> None:
        players = [
            *(self._guest(client, full(one), one["metadata"]) for one in self.machines if one["metadata"]),
            self._ghosts(client),
            *(self._operate(client) for _ in range(3)),
            self._manage(client),
            self._roll_out(client),
            *([self._move_time(client)] if self.manual else []),
        ]
        asyncio.get_running_loop().call_later(self.chance.uniform(0.1, 1.5), self.server.process.kill)
        await asyncio.gather(*map(_until_dead, players))
        await asyncio.to_thread(self.server.process.wait)

    # -- guests

    async def _guest(self, client: httpx2.AsyncClient, machine: str, url: str) -> None:
        """Poll the document again and again, and approve some events."""
        await self._ask_name(client, machine, url)
        while True:
            answer = await client.get(f"{url}{EVENTS}", headers=GUEST)
            if answer.status_code == 200:
                await self._heed(client, machine, url, answer.content)
            await asyncio.sleep(self.chance.uniform(0.05, 0.3))

    async def _ask_name(self, client: httpx2.AsyncClient, machine: str, url: str) -> None:
        answer = await client.get(f"{url}{NAME}", headers=GUEST)
        if answer.status_code == 200:
            self.ledger.meets(machine, answer.text.strip())

    async def _heed(self, client: httpx2.AsyncClient, machine: str, url: str, body: bytes) -> None:
        document = json.loads(body)
        self.ledger.reads(machine, document["DocumentIncarnation"])
        for event in document["Events"]:
            if event["NotBefore"]:
                at = parsedate_to_datetime(event["NotBefore"])
                self.ledger.not_before.setdefault(event["EventId"], at)
            if event["EventStatus"] == "Scheduled" and self.chance.random() < 0.3:
                await self._approve(client, machine, url, event["EventId"])

    async def _approve(self, client: httpx2.AsyncClient, machine: str, url: str, event: str) -> None:
        self.ledger.askers.setdefault(event, set()).add(machine.rpartition("/")[2])
        wish = {"StartRequests": [{"EventId": event}]}
        answer = await client.post(f"{url}{EVENTS}", json=wish, headers=GUEST)
        if answer.status_code == 200:
            self.ledger.approved.add(event)

    async def _ghosts(self, client: httpx2.AsyncClient) -> None:
        """Poll at the addresses of removed machines: no other machine may answer there."""
        there = {full(one) for one in self.machines}
        for address, owner in sorted(self.ledger.owners.items()):
            if owner not in there and address.startswith("http"):
                with suppress(*DEAD):
                    await self._ask_name(client, owner, address)

    # -- operators

    async def _operate(self, client: httpx2.AsyncClient) -> None:
        """Trigger events, approve some and cancel some."""
        while True:
            await self._cause(client)
            await asyncio.sleep(self.chance.uniform(0, 0.05))

    async def _cause(self, client: httpx2.AsyncClient) -> None:
        machine = self.chance.choice(self.machines)
        cause = self.chance.choice((*CAUSES, "evict") if machine["spot"] else CAUSES)
        if cause == "delete":
            # The sets keep their machines, so that there are always machines to warn.
            if not machine["name"].startswith("vm"):
                return
            self.ledger.doomed.add(full(machine))
        notice = "0s" if cause in UNANNOUNCED else self.chance.choice(("0s", "10s", "15m", "2d"))
        wish: Json = {"cause": cause, "machines": [full(machine)], "notice": notice}
        answer = await client.post(self._operator("events"), json=wish)
        for event in answer.json()["events"] if answer.status_code == 201 else ():
            self.ledger.announced.add(event["id"])
            self.ledger.not_before[event["id"]] = datetime.fromisoformat(event["not_before"])
            if cause == "delete":
                self.ledger.deletions[event["id"]] = full(machine)
            if self.chance.random() < 0.3:
                await self._decide(client, event["id"])

    async def _decide(self, client: httpx2.AsyncClient, event: str) -> None:
        verb = self.chance.choice(("approve", "cancel"))
        answer = await client.post(self._operator(f"events/{event}/{verb}"), json={"by": "chaos"})
        if answer.status_code == 200:
            (self.ledger.approved if verb == "approve" else self.ledger.cancelled).add(event)

    async def _roll_out(self, client: httpx2.AsyncClient) -> None:
        """Start a rollout in the availability set."""
        while True:
            wish = {"scope": "app", "cause": "host-update", "notice": "20s"}
            answer = await client.post(self._operator("walks"), json=wish)
            if answer.status_code == 201:
                self.ledger.announced.update(answer.json()["events"])
            await asyncio.sleep(0.2)

    async def _move_time(self, client: httpx2.AsyncClient) -> None:
        while True:
            wish = {"by": self.chance.choice(("3s", "30s", "16m"))}
            await client.post(self._operator("clock/advance"), json=wish)
            await asyncio.sleep(self.chance.uniform(0, 0.1))

    # -- management clients

    async def _manage(self, client: httpx2.AsyncClient) -> None:
        """Create machines and delete them again, as az would."""
        while True:
            await self._create(client, f"vm{next(self.names)}")
            alone = [one["name"] for one in self.machines if one["name"].startswith("vm")]
            if len(alone) > 4:
                await self._delete(client, self.chance.choice(alone))
            await asyncio.sleep(self.chance.uniform(0.1, 0.4))

    async def _create(self, client: httpx2.AsyncClient, name: str) -> None:
        properties: Json = {"hardwareProfile": {"vmSize": "Standard_B1s"}}
        body: Json = {"location": "westeurope", "properties": properties}
        answer = await client.put(self._arm(name), json=body, params=VERSION, headers=self._bearer)
        if answer.status_code in {200, 201}:
            self.ledger.created.add(f"{name}/{name}")
        else:
            self.ledger.complain(f"PUT of {name} was answered {answer.status_code}: {answer.text}")

    async def _delete(self, client: httpx2.AsyncClient, name: str) -> None:
        self.ledger.doomed.add(f"{name}/{name}")
        answer = await client.delete(self._arm(name), params=VERSION, headers=self._bearer)
        if answer.status_code not in {200, 202, 204, 404, 409}:
            self.ledger.complain(f"DELETE of {name} was answered {answer.status_code}: {answer.text}")

    # -- addresses

    @property
    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _operator(self, path: str) -> str:
        return f"{self.server.ready['operator']}/fleet/v1/{path}"

    def _arm(self, name: str) -> str:
        return f"{self.server.ready['arm']}{GROUP}/virtualMachines/{name}"

    async def _history(self, client: httpx2.AsyncClient, after: int) -> Sequence[Line]:
        lines: list[Line] = []
        start: int | None = after
        while start is not None:
            page = await _answer(client, self._operator(f"history?after={start}&limit={PAGE}"))
            lines += page["history"]
            start = page["next"]
        return lines


#: A connection per client, so that no client waits for another.
_MANY = httpx2.Limits(max_connections=500, max_keepalive_connections=500)


class Page(TypedDict):
    """A list of the operator API; only the requested member is present."""

    machines: list[Machine]
    history: list[Line]
    next: int | None


async def _answer(client: httpx2.AsyncClient, url: str) -> Page:
    answer = await client.get(url)
    assert answer.status_code == 200, answer.text
    found: Page = answer.json()
    return found


async def _until_dead(player: Awaitable[None]) -> None:
    with suppress(*DEAD):
        await player
