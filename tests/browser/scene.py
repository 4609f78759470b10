"""A fleet with fixed names at a fixed time, with content for every page of the console."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypedDict

import httpx2

from fairwarning.store.sqlite import SqliteStore
from tests.cli.server import Server
from tests.guest import EVENTS, NEWEST, NOON

#: The arguments of ``up`` for this fleet.
FLEET = (
    "--clock", "manual", "--terminate-notice", "10m", "--scale-set", "web=5", "--availability-set", "app=5",
    "--cloud-service", "FrontEnd=2", "--vm", "db", "--spot-vm", "batch", "--scale-set", "edge=64",
)  # fmt: skip


class Machine(TypedDict):
    """A machine in the output of ``vms --json``."""

    name: str
    metadata: str


#: The path of every page, by the name of its screenshot; ``{event}`` is the event of the scene.
PAGE_PATHS: Mapping[str, str] = {
    "fleet": "/",
    "scope": "/scopes/web",
    "machine": "/machines/web_2",
    "delete": "/machines/web_3/delete",
    "hosts": "/hosts",
    "host": "/hosts/host-web-1-1",
    "events": "/events",
    "event": "/events/{event}",
    "timeline": "/scopes/web/timeline?hours=1",
    "create": "/create",
    "basics": "/create/scale-set?name=shop",
    "management": "/create/scale-set?tab=management&name=shop&notification=on&delay=7",
    "review": "/create/scale-set?tab=review&name=shop&notification=on&delay=7",
    "maintenance": "/maintenance",
    "history": "/history",
    "clock": "/clock",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A server after the events of the scene."""

    server: Server
    event: str

    def address(self, path: str) -> str:
        """Return the URL of a page."""
        return self.server.ready["operator"] + path.format(event=self.event)


async def set_clock(folder: Path) -> None:
    """Set the manual clock of the server with this data directory to noon."""
    store = await SqliteStore.open(folder)
    await store.put_value("clock", NOON.isoformat())
    await store.close()


def prepare_scene(server: Server) -> Scene:
    """Cause the events of the scene on a new server."""
    guests = {machine["name"]: machine["metadata"] for machine in machines(server)}
    for name in ("web_0", "app-0", "db", "batch"):
        poll(guests[name])

    (restart,) = server.cause("restart", "web_1")
    server.tell("clock", "advance", "4m")
    approve(guests["web_1"], restart["id"])
    server.tell("clock", "advance", "5m")
    (cancelled,) = server.cause("freeze", "web_3")
    server.tell("clock", "advance", "2m")
    server.tell("cancel", cancelled["id"])
    server.tell("rollout", "host-update", "--scope", "app", "--notice", "5m")
    server.tell("clock", "advance", "7m")
    server.cause("hardware-failure", "db")
    server.cause("redeploy", "web_4")
    server.tell("clock", "advance", "6m")
    (terminate,) = server.cause("delete", "web_2")
    (approved,) = server.cause("restart", "web_0")
    server.tell("clock", "advance", "2m10s")
    server.tell("approve", approved["id"])
    server.tell("fault", "batch", "429")
    announce(server, "host-web-1-1")
    for name in ("web_0", "app-0", "db"):
        poll(guests[name])
    return Scene(server, terminate["id"])


def announce(server: Server, host: str) -> None:
    """Announce a maintenance of a host, as its page does."""
    with httpx2.Client(base_url=server.ready["operator"]) as console:
        token = re.search('name="csrf" value="([^"]+)"', console.get(f"/hosts/{host}").text)
        assert token is not None
        day = datetime.fromisoformat(console.get("/fleet/v1/clock").json()["now"]) + timedelta(days=1)
        window = {"at": f"{day:%Y-%m-%d} 02:00", "until": f"{day:%Y-%m-%d} 06:00"}
        form = {"csrf": token[1], "cause": "host-reboot", "silence": "ask", **window}
        assert console.post(f"/hosts/{host}/announce", data=form).status_code == 303


def machines(server: Server) -> list[Machine]:
    """Return the machines of a server."""
    listed: list[Machine] = json.loads(server.tell("vms", "--json"))
    return listed


def poll(guest: str) -> None:
    """Poll as a guest does."""
    httpx2.get(f"{guest}{EVENTS}?{NEWEST}", headers={"Metadata": "true"}).raise_for_status()


def approve(guest: str, event: str) -> None:
    """Approve an event as a guest does."""
    body = {"StartRequests": [{"EventId": event}]}
    httpx2.post(f"{guest}{EVENTS}?{NEWEST}", headers={"Metadata": "true"}, json=body).raise_for_status()
