"""The story, told by the real parts: a server, guests that ask it over HTTP, and an operator."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import click

from fairwarning.cli.client import HistoryPart, MachineInfo, OperatorClient, decode
from fairwarning.cli.output import FailureError
from fairwarning.cli.watch import timed
from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.model import ScopeKind
from fairwarning.core.policy import PROFILES

if TYPE_CHECKING:
    from fairwarning.server import FleetServer

#: At this speed 15 minutes of notice are 3 seconds; an eviction's 30 seconds get a gentler one.
SPEED, EVICTION_SPEED = 300.0, 15.0

#: Guests may ask five times a second.
BETWEEN_POLLS = 0.3
#: What a real guest would need minutes for.
DRAINING = 0.8
#: No scene takes longer, or something is wrong.
PATIENCE = 20.0

_PATH = f"{EVENTS_PATH}?api-version={NEWEST}"


class DemoEvent(TypedDict):
    """One event as a guest reads it."""

    EventId: str
    EventType: str
    EventStatus: str
    Resources: list[str]
    NotBefore: str


class DemoDocument(TypedDict):
    """What a guest reads."""

    DocumentIncarnation: int
    Events: list[DemoEvent]


@click.command()
def demo() -> None:
    """Tell the story in half a minute: restart, warning, drain, approval, restarted, gone.

    Everything is real but the machines: the server listens on loopback, the guests poll it over HTTP.

    \b
    Example:
      fairwarning demo
    """
    try:
        asyncio.run(_tell())
    except TimeoutError as problem:
        raise FailureError("the story got stuck: what was announced did not happen in time") from problem


async def _tell() -> None:
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
        stage = Stage(service)
        stage.say(
            "server", f"runs; web_0, web_1 and the Spot machine batch live on it ({service.operator_url})"
        )
        stage.say("server", f"time runs {SPEED:g} times as fast: a notice of 15 minutes takes 3 seconds")
        for scene in (_approved, _unheeded, _evicted):
            await asyncio.wait_for(scene(stage), PATIENCE)
        click.echo("\nWhat the server wrote down (fairwarning history):\n")
        for page in await asyncio.to_thread(lambda: list(stage.client.history())):
            for line in decode(page, HistoryPart).history:
                click.echo(f"  {timed(line, stage.began)}")
        stage.client.close()
    click.echo("\nYour turn: fairwarning up")


async def _approved(stage: "Stage") -> None:
    click.echo("\n1. Somebody restarts web_0. Its guest is warned, gets ready and says: go ahead.\n")
    await stage.play("web_0", "restart", approves=True)


async def _unheeded(stage: "Stage") -> None:
    click.echo("\n2. Somebody restarts web_1. Its guest sees the warning and never answers.\n")
    await stage.play("web_1", "restart", approves=False)


async def _evicted(stage: "Stage") -> None:
    click.echo(
        f"\n3. The Spot machine batch is evicted, with 30 seconds of notice (at speed {EVICTION_SPEED:g}).\n"
    )
    await asyncio.to_thread(stage.client.call, "PUT", "/clock/speed", {"speed": EVICTION_SPEED})
    await stage.play("batch", "evict", approves=True)


class Stage:
    """Where the story is played: a server, its operator's client and a stop watch."""

    def __init__(self, service: "FleetServer") -> None:
        self.client = OperatorClient(service.operator_url)
        self._endpoints = {str(ref.name): url for ref, url in service.endpoints().items()}
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.began = service.engine.clock.now()

    def say(self, who: str, what: str) -> None:
        """Print who does what, and when."""
        click.echo(f"  {self._loop.time() - self._start:5.1f} s  {who:<9} {what}")

    async def play(self, machine: str, cause: str, *, approves: bool) -> None:
        """Let something happen to a machine, and its guest live through it."""
        guest = Guest(self, machine, self._endpoints[machine], approves=approves)
        await guest.polls()
        self.say("operator", f"fairwarning cause {cause} {machine}")
        await asyncio.to_thread(self.client.call, "POST", "/events", {"cause": cause, "machines": [machine]})
        await guest.lives()
        body = await asyncio.to_thread(self.client.get, f"/machines/{machine}")
        self.say("operator", f"fairwarning vms: {machine} is {decode(body, MachineInfo).state}")


@dataclass
class Guest:
    """What runs in a machine: asks its metadata service, drains, approves."""

    stage: Stage
    name: str
    base: str
    approves: bool
    status: str = ""
    told: bool = False

    async def polls(self) -> list[DemoEvent]:
        """Ask once for the events that name this machine."""
        document = await asyncio.to_thread(self._get)
        if not self.told:
            self.told = True
            self.say(f"asks its metadata service what is coming: {len(document['Events'])} events")
        return [event for event in document["Events"] if self.name in event["Resources"]]

    async def lives(self) -> None:
        """Ask again and again until the event has come and gone."""
        while True:
            events = await self.polls()
            if not events and self.status:
                self.say("asks again: the event is gone, it is over")
                return
            for event in events:
                await self._notice(event)
            await asyncio.sleep(BETWEEN_POLLS)

    async def _notice(self, event: DemoEvent) -> None:
        if event["EventStatus"] == self.status:
            return
        self.status = event["EventStatus"]
        if self.status == "Started":
            why = "it is happening now" if self.approves else "the notice is over, so it happens unapproved"
            self.say(f"sees {event['EventType']} Started: {why}")
            return
        self.say(f"sees {event['EventType']} {self.status}, not before {event['NotBefore']}")
        if not self.approves:
            self.say("does nothing")
            return
        self.say("drains: takes no new work and finishes what it has")
        await asyncio.sleep(DRAINING)
        self.say("is ready and approves")
        await asyncio.to_thread(self._approve, event["EventId"])

    def say(self, what: str) -> None:
        """Print what the guest does."""
        self.stage.say(self.name, what)

    def _get(self) -> DemoDocument:
        return _talk(self.base, None)

    def _approve(self, event: str) -> None:
        _talk(self.base, {"StartRequests": [{"EventId": event}]})


def _talk(base: str, body: dict[str, list[dict[str, str]]] | None) -> DemoDocument:
    import httpx2

    with httpx2.Client(base_url=base, headers={"Metadata": "true"}, trust_env=False) as http:
        response = http.get(_PATH) if body is None else http.post(_PATH, json=body)
    if response.is_error:
        raise FailureError(f"{base} answers {response.status_code}: {response.text}")
    document: DemoDocument = json.loads(response.text or "{}")
    return document
