"""A server in a process of its own, with its guests, its operator and its management clients."""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypedDict

import httpx2

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from tests.cli.server import Server, until, up

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
METADATA = {"Metadata": "true"}
#: The group of the machines that ``up`` made.
HOME = "fairwarning"
#: Seconds in which a tool must notice that its operation has ended.
SOON = 20


class Options(TypedDict):
    """The options that make a client of the SDK talk to this server alone."""

    base_url: str
    credential_scopes: list[str]
    connection_verify: str
    use_env_settings: bool


class Warned(TypedDict):
    """An event as guests see it."""

    EventId: str
    EventType: str
    EventStatus: str
    Resources: list[str]
    NotBefore: str


class Machine(TypedDict):
    """A machine as the operator sees it."""

    name: str
    scope: str
    power: str
    latest_model_applied: bool
    metadata: str


@dataclass(frozen=True)
class Guest:
    """The software inside a machine."""

    name: str
    url: str

    def sees(self) -> list[Warned]:
        """Return the events of the document; the scope is warned from then on."""
        events: list[Warned] = self._ask("GET").json()["Events"]
        return events

    def approve(self, *events: Warned) -> None:
        """Approve events."""
        self._ask("POST", {"StartRequests": [{"EventId": event["EventId"]} for event in events]})

    def _ask(self, method: str, body: Json = None) -> httpx2.Response:
        answers: list[httpx2.Response] = []

        def answered() -> bool:
            url = f"{self.url}{EVENTS}"
            answers.append(httpx2.request(method, url, headers=METADATA, json=body, trust_env=False))
            return answers[-1].status_code != 429

        until(answered, f"{self.name} is allowed to ask")
        assert answers[-1].status_code == 200, answers[-1].text
        return answers[-1]


@dataclass(frozen=True)
class Live:
    """A running server with a manual clock."""

    server: Server
    token: str

    @property
    def arm(self) -> str:
        """The URL of the management API."""
        return self.server.ready["arm"]

    @property
    def ca(self) -> str:
        """The certificate of the authority that clients trust."""
        return self.server.ready["ca"]

    # -- the operator

    def machines(self, scope: str = "") -> list[Machine]:
        """Return the machines, of all scopes or of the scopes with this prefix."""
        machines: list[Machine] = json.loads(self.server.tell("vms", "--json"))
        return [machine for machine in machines if machine["scope"].startswith(scope)]

    def guest(self, name: str) -> Guest:
        """Return a machine by its name."""
        (url,) = (machine["metadata"] for machine in self.machines() if machine["name"] == name)
        return Guest(name, url)

    def now(self) -> datetime:
        """Return the time of the server's clock."""
        return datetime.fromisoformat(json.loads(self.server.tell("clock", "show", "--json"))["now"])

    def advance(self, by: str = "1m") -> None:
        """Advance the clock."""
        self.server.tell("clock", "advance", by)

    def announced(self, kind: str) -> None:
        """Wait for an event of a type."""
        until(lambda: kind in self.server.tell("events"), f"{kind} is announced")

    def warned(self, guest: Guest, kind: str) -> Warned:
        """Wait for an event of a type and return it as a guest sees it."""
        self.announced(kind)
        (event,) = (e for e in guest.sees() if e["EventType"] == kind and guest.name in e["Resources"])
        return event

    def notice(self, event: Warned) -> float:
        """Return the minutes until an event may start without approval, to a tenth."""
        return round((parsedate_to_datetime(event["NotBefore"]) - self.now()).total_seconds() / 60, 1)

    # -- plain REST clients

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        version: str = "2024-07-01",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request below the subscription and return the response, success or error."""
        with self.client() as client:
            return client.request(
                method,
                f"/subscriptions/{SUBSCRIPTION}/{path}",
                params={"api-version": version},
                json=body,
                headers=headers,
            )

    def pages(self, path: str) -> tuple[list[int], list[float]]:
        """Read all pages of a list; return the length of each page, and the seconds it took."""
        sizes, seconds = [], []
        url = f"/subscriptions/{SUBSCRIPTION}/{path}?api-version=2024-07-01"
        with self.client() as client:
            while url:
                began = time.perf_counter()
                page = client.get(url).json()
                seconds.append(time.perf_counter() - began)
                sizes.append(len(page["value"]))
                url = page.get("nextLink")
        return sizes, seconds

    def client(self) -> httpx2.Client:
        """Return a client that sends a token."""
        return httpx2.Client(
            base_url=self.arm,
            verify=ssl.create_default_context(cafile=self.ca),
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,
        )


@contextmanager
def live(scratch: Path, *words: str) -> Iterator[Live]:
    """Run a server with a manual clock."""
    with up(scratch, "--clock", "manual", *words) as server:
        yield Live(server, token(server))


def token(server: Server) -> str:
    """Log in to a server and return the token."""
    form = {"grant_type": "client_credentials", "client_id": "dev", "client_secret": "dev"}
    context = ssl.create_default_context(cafile=server.ready["ca"])
    url = f"{server.ready['arm']}/adfs/oauth2/token"
    answer = httpx2.post(url, data=form, verify=context, trust_env=False)
    assert answer.status_code == 200, answer.text
    access_token: str = answer.json()["access_token"]
    return access_token


def options(cloud: Live) -> Options:
    """Return the options that point a client of the SDK at a server."""
    return Options(
        base_url=cloud.arm,
        credential_scopes=[f"{cloud.arm}/.default"],
        connection_verify=cloud.ca,
        use_env_settings=False,
    )
