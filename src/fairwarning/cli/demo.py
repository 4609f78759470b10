"""The demo: a real server, guests that poll it over HTTP, and an operator."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import click

from fairwarning.cli.client import HistoryPart, MachineInfo, OperatorClient, decode
from fairwarning.cli.output import FailureError
from fairwarning.cli.watch import timed_sentence
from fairwarning.config import PROGRAM, Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.model import ScopeKind
from fairwarning.core.policy import PROFILES
from fairwarning.formats.counts import format_count

if TYPE_CHECKING:
    from fairwarning.server import FleetServer

#: At the first speed 15 minutes of notice take 3 seconds; an eviction with its 30 seconds needs a lower one.
SPEED, EVICTION_SPEED = 300.0, 15.0

#: Seconds between two polls; a guest may poll five times a second.
POLL_INTERVAL = 0.3
#: How many seconds a guest drains; a real guest needs minutes.
DRAIN_TIME = 0.8
#: How many seconds a scene may take.
SCENE_TIMEOUT = 20.0

_PATH = f"{EVENTS_PATH}?api-version={NEWEST}"


class DemoEvent(TypedDict):
    """An event as a guest reads it."""

    EventId: str
    EventType: str
    EventStatus: str
    Resources: list[str]
    NotBefore: str


class DemoDocument(TypedDict):
    """A document as a guest reads it."""

    DocumentIncarnation: int
    Events: list[DemoEvent]


@click.command()
def demo() -> None:
    """Show restarts and an eviction, with guests, in 30 seconds.

    Only the machines are simulated: the server listens on loopback, and the guests poll it over HTTP.

    \b
    Example:
      fairwarning demo
    """
    try:
        asyncio.run(_run())
    except TimeoutError as problem:
        raise FailureError("the demo is stuck: an announced event did not happen in time") from problem


async def _run() -> None:
    from fairwarning.server import FleetServer

    azure = PROFILES["azure"]
    fleet = (
        Blueprint(name="web", count=2),
        Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True),
    )
    profile = replace(azure, policy=replace(azure.policy, speed=SPEED))
    async with FleetServer(
        Settings(blueprints=fleet, profile=profile, azure_timings=True, port_base=0)
    ) as service:
        demo = DemoFleet(service)
        demo.log("server", f"runs web_0, web_1 and the Spot machine batch ({service.operator_url})")
        demo.log("server", f"time runs {SPEED:g} times as fast: a notice of 15 minutes takes 3 seconds")
        for scene in (_approved, _ignored, _evicted):
            await asyncio.wait_for(scene(demo), SCENE_TIMEOUT)
        click.echo(f"\nThe history of the server ({PROGRAM} history):\n")
        for page in await asyncio.to_thread(lambda: list(demo.client.history())):
            for line in decode(page, HistoryPart).history:
                click.echo(f"  {timed_sentence(line, demo.began)}")
        demo.client.close()
    click.echo(f"\nTo try it yourself: {PROGRAM} up")


async def _approved(demo: "DemoFleet") -> None:
    click.echo("\n1. An operator restarts web_0. Its guest is warned, drains and approves.\n")
    await demo.cause("restart", "web_0", approves=True)


async def _ignored(demo: "DemoFleet") -> None:
    click.echo("\n2. An operator restarts web_1. Its guest sees the warning and does nothing.\n")
    await demo.cause("restart", "web_1", approves=False)


async def _evicted(demo: "DemoFleet") -> None:
    click.echo(
        f"\n3. The Spot machine batch is evicted, with 30 seconds of notice (at speed {EVICTION_SPEED:g}).\n"
    )
    await asyncio.to_thread(demo.client.call, "PUT", "/clock/speed", {"speed": EVICTION_SPEED})
    await demo.cause("evict", "batch", approves=True)


class DemoFleet:
    """The server of the demo, with a client of its operator API and a log with times."""

    def __init__(self, service: "FleetServer") -> None:
        self.client = OperatorClient(service.operator_url)
        self._endpoints = {str(ref.name): url for ref, url in service.endpoints().items()}
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.began = service.engine.clock.now()

    def log(self, subject: str, text: str) -> None:
        """Print who does what, and when."""
        click.echo(f"  {self._loop.time() - self._start:5.1f} s  {subject:<9} {text}")

    async def cause(self, cause: str, machine: str, *, approves: bool) -> None:
        """Trigger an event on a machine, and run its guest until the event is over."""
        guest = Guest(self, machine, self._endpoints[machine], approves=approves)
        await guest.poll()
        self.log("operator", f"{PROGRAM} cause {cause} {machine}")
        await asyncio.to_thread(self.client.call, "POST", "/events", {"cause": cause, "machines": [machine]})
        await guest.run()
        body = await asyncio.to_thread(self.client.get, f"/machines/{machine}")
        self.log("operator", f"{PROGRAM} vms: {machine} is {decode(body, MachineInfo).state}")


@dataclass
class Guest:
    """The handler on a machine: polls its endpoint, drains, approves."""

    fleet: DemoFleet
    name: str
    base: str
    approves: bool
    status: str = ""
    polled: bool = False

    async def poll(self) -> list[DemoEvent]:
        """Return the events that name this machine."""
        document = await asyncio.to_thread(self._get)
        if not self.polled:
            self.polled = True
            self._log(f"polls its metadata service: {format_count(len(document['Events']), 'event')}")
        return [event for event in document["Events"] if self.name in event["Resources"]]

    async def run(self) -> None:
        """Poll until the event has come and gone."""
        while True:
            events = await self.poll()
            if not events and self.status:
                self._log("polls again: the event is gone, so it is over")
                return
            for event in events:
                await self._handle(event)
            await asyncio.sleep(POLL_INTERVAL)

    async def _handle(self, event: DemoEvent) -> None:
        if event["EventStatus"] == self.status:
            return
        self.status = event["EventStatus"]
        if self.status == "Started":
            reason = "it was approved" if self.approves else "the notice is over"
            self._log(f"sees {event['EventType']} Started: {reason}")
            return
        self._log(f"sees {event['EventType']} {self.status}, not before {event['NotBefore']}")
        if not self.approves:
            self._log("does nothing")
            return
        self._log("drains: takes no new work and finishes its current work")
        await asyncio.sleep(DRAIN_TIME)
        self._log("approves")
        await asyncio.to_thread(self._approve, event["EventId"])

    def _log(self, text: str) -> None:
        self.fleet.log(self.name, text)

    def _get(self) -> DemoDocument:
        return _request(self.base, None)

    def _approve(self, event: str) -> None:
        _request(self.base, {"StartRequests": [{"EventId": event}]})


def _request(base: str, body: dict[str, list[dict[str, str]]] | None) -> DemoDocument:
    import httpx2

    with httpx2.Client(base_url=base, headers={"Metadata": "true"}, trust_env=False) as http:
        response = http.get(_PATH) if body is None else http.post(_PATH, json=body)
    if response.is_error:
        raise FailureError(f"{base} answers {response.status_code}: {response.text}")
    document: DemoDocument = json.loads(response.text or "{}")
    return document
