"""Two ``serve`` processes on one database: clients go from one to the other, and one of them is killed."""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import httpx2
import pytest

from fairwarning.core.document.render import Json
from tests.arm.cloud import resource, template
from tests.cli.server import until
from tests.cli.test_serve import FLEET, Serving, serving
from tests.config.files import secret
from tests.nodes.node import TOKEN
from tests.nodes.test_reading_your_writes import DEPLOYMENT, LAB, VERSION
from tests.postgres import new_database

BEARER = {"Authorization": f"Bearer {TOKEN}"}
HTML = {"Accept": "text/html"}
NETWORKS = f"{LAB}/providers/Microsoft.Network/virtualNetworks"
SHARED = """
[store]
kind = "postgres"
dsn_file = "../dsn"
migrate = true
[management]
listen = "127.0.0.1:0"
token_file = "../token"
[tls]
directory = "tls"
"""


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[Serving, Serving]]:
    """Run two nodes on a new database during the block."""
    secret(folder, "dsn", new_database())
    secret(folder, "token", TOKEN)
    text = f'{SHARED}[operator]\ntoken_file = "../token"{FLEET.partition("[operator]")[2]}'
    for name in ("a", "b"):
        (folder / name).mkdir()
    with serving(folder / "a", text) as first, serving(folder / "b", text) as second:
        yield first, second


def client(node: Serving, api: str) -> httpx2.Client:
    """Return a client of an API of a node."""
    trusted = ssl.create_default_context(cafile=node.ready["ca"])
    return httpx2.Client(base_url=node.ready[api], verify=trusted, timeout=20)


def state(node: httpx2.Client) -> str:
    """Return the state of the deployment."""
    return str(node.get(f"{DEPLOYMENT}{VERSION}").json()["properties"]["provisioningState"])


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_clients_may_go_from_one_node_to_the_other(tmp_path: Path) -> None:
    with (
        two_nodes(tmp_path) as (one, other),
        client(one, "operator") as first,
        client(other, "operator") as second,
    ):
        form = {"csrf": csrf(second.get("/login", headers=HTML).text), "token": TOKEN}
        login = first.post("/login", data=form, headers=HTML)
        second.cookies.update(first.cookies)
        page = second.get("/", headers=HTML)
        caused = first.post("/fleet/v1/events", json={"cause": "freeze", "machines": ["w1"]}, headers=BEARER)
        (event,) = caused.json()["events"]
        found = second.get(f"/fleet/v1/events/{event['id']}", headers=BEARER)
        history = [
            node.get("/fleet/v1/history?limit=1000", headers=BEARER).json() for node in (first, second)
        ]
        second.post("/logout", data={"csrf": csrf(page.text)}, headers=HTML)
        until(
            lambda: first.get("/", headers=HTML).status_code == 303,
            "the session has ended on the first node",
        )

    assert (login.status_code, page.status_code, found.status_code) == (303, 200, 200)
    assert history[0] == history[1]


@pytest.mark.story
@pytest.mark.slow
def test_a_killed_node_leaves_its_deployment_to_the_other(tmp_path: Path) -> None:
    resources = [resource(f"n{number}") for number in range(200)]
    body: Json = {"properties": {"mode": "Incremental", "template": template(*resources)}}
    with (
        two_nodes(tmp_path) as (one, other),
        client(one, "arm") as first,
        client(other, "arm") as second,
    ):
        form = {"grant_type": "client_credentials", "client_id": "me", "client_secret": TOKEN}
        token = first.post("/adfs/oauth2/token", data=form).json()["access_token"]
        second.headers["Authorization"] = first.headers["Authorization"] = f"Bearer {token}"
        second.put(f"{LAB}{VERSION}", json={"location": "westeurope"}).raise_for_status()

        def networks() -> int:
            return len(second.get(f"{NETWORKS}{VERSION}").json()["value"])

        def deploy() -> None:
            with suppress(httpx2.TransportError):
                first.put(f"{DEPLOYMENT}{VERSION}", json=body)

        request = Thread(target=deploy)
        request.start()
        while networks() < 10:
            assert request.is_alive()
        one.process.kill()
        request.join()
        left = state(second)
        begun = networks()
        # The lease of the killed node lasts for twenty seconds.
        with suppress(AssertionError):
            until(lambda: networks() > begun, "the other node carries the deployment on")
        until(lambda: state(second) != "Running", "the deployment has ended")
        ended, deployed = state(second), networks()

    assert (left, ended) == ("Running", "Succeeded")
    assert begun < deployed == len(resources)
