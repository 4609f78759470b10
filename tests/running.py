"""A complete server in a thread of the test process: sockets on loopback, a manual clock."""

import ssl
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import httpx2

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.policy import PROFILES, Profile
from fairwarning.server import FleetServer
from fairwarning.testing.thread import THREAD
from tests.cli.server import Done, call

T = TypeVar("T")

#: Every optional feature enabled, and no throttling.
PROFILE: Profile = replace(
    PROFILES["azure"], preview_version=True, identity_tokens=True, requests_per_second=1e6, burst=1_000_000
)
EVENTS = "/metadata/scheduledevents"
NEWEST = "2020-07-01"


@dataclass(frozen=True)
class Running:
    """A running server, with a client for each of its APIs."""

    service: FleetServer
    operator: httpx2.Client
    arm: httpx2.Client
    guests: httpx2.Client

    def fleet(self, method: str, path: str, body: Json = None) -> httpx2.Response:
        """Send a request to the operator API; the path is written without ``/fleet/v1``."""
        return self.operator.request(method, f"/fleet/v1{path}", json=body)

    def manage(
        self, method: str, path: str, body: Json = None, version: str = "2024-07-01"
    ) -> httpx2.Response:
        """Send a request to the management API; the path is below the subscription unless it is a URL."""
        if path.startswith("https://"):
            return self.arm.request(method, path, json=body)
        url = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{path}"
        mark = "&" if "?" in path else "?"
        return self.arm.request(method, f"{url}{mark}api-version={version}", json=body)

    def ask(
        self,
        machine: str,
        path: str,
        *,
        method: str = "GET",
        body: Json = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request to the metadata API, as the machine ``scope/name``."""
        fields = {"Metadata": "true"} if headers is None else headers
        return self.guests.request(method, f"{self.endpoint(machine)}{path}", json=body, headers=fields)

    def poll(self, machine: str, version: str = NEWEST) -> httpx2.Response:
        """Poll the scheduled events, as a machine."""
        return self.ask(machine, f"{EVENTS}?api-version={version}")

    def approve(self, machine: str, event: str) -> httpx2.Response:
        """Approve an event, as a machine."""
        body: Json = {"StartRequests": [{"EventId": event}]}
        return self.ask(machine, f"{EVENTS}?api-version={NEWEST}", method="POST", body=body)

    def command(self, *words: str) -> Done:
        """Run a command of the command line against this server."""
        return call(*words, url=self.service.operator_url)

    def endpoint(self, machine: str) -> str:
        """Return the base URL of a machine's metadata API."""
        return next(url for ref, url in self.service.endpoints().items() if ref.full == machine)


@contextmanager
def running(data: Path, *blueprints: Blueprint) -> Iterator[Running]:
    """Run a server on a data directory during the block."""
    settings = Settings(
        blueprints=blueprints,
        profile=PROFILE,
        manual_clock=True,
        data=data,
        port_base=0,
        arm=("127.0.0.1", 0),
    )
    service = FleetServer(settings)
    in_thread(service.__aenter__())
    try:
        trust = ssl.create_default_context(cafile=service.ca)
        with (
            httpx2.Client(base_url=service.operator_url, trust_env=False) as operator,
            httpx2.Client(base_url=service.arm_url or "", verify=trust, trust_env=False) as arm,
            httpx2.Client(trust_env=False) as guests,
        ):
            arm.headers["Authorization"] = f"Bearer {arm_token(arm)}"
            yield Running(service, operator, arm, guests)
    finally:
        in_thread(service.__aexit__(None, None, None))


def in_thread(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine in the thread of the servers and return its result."""
    return THREAD.run(work)


def arm_token(arm: httpx2.Client) -> str:
    """Return a token of the management API."""
    form = {"grant_type": "client_credentials", "client_id": "dev", "client_secret": "dev"}
    answer = arm.post("/adfs/oauth2/token", data=form)
    token: str = answer.json()["access_token"]
    return token
