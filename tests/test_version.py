"""The version is written once, and everything that tells it tells the same."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from threading import Thread

import httpx2
import pytest

from fairwarning import __version__
from fairwarning.agent import main as agent
from fairwarning.agent.client import MetadataClient
from fairwarning.agent.clock import AgentSystemClock
from fairwarning.cli.client import OperatorClient
from fairwarning.cli.output import FailureError
from fairwarning.config import Settings
from fairwarning.server import FleetServer
from tests.cli.server import call


def test_commands_and_package_tell_the_same_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        agent.main(["--version"])

    assert call("--version").stdout == f"fairwarning {__version__}\n"
    assert capsys.readouterr().out == f"fairwarning-agent {__version__}\n"
    assert version("fairwarning") == __version__


def test_a_server_tells_the_version() -> None:
    async def ask(*paths: str) -> list[httpx2.Response]:
        async with (
            FleetServer(Settings(port_base=0)) as server,
            httpx2.AsyncClient(base_url=server.operator_url, trust_env=False) as client,
        ):
            return [await client.get(path) for path in paths]

    document, nodes = asyncio.run(ask("/fleet/v1/openapi.json", "/fleet/v1/nodes"))

    assert document.json()["info"]["version"] == __version__
    assert [node["release"] for node in nodes.json()["nodes"]] == [__version__]


@contextmanager
def listening(told: list[str]) -> Iterator[str]:
    """Answer every request with 404 during the block, and keep what the clients call themselves."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(self.headers["User-Agent"])
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_clients_tell_servers_the_version() -> None:
    told: list[str] = []

    with listening(told) as url:
        MetadataClient(url, AgentSystemClock()).get("/metadata/versions")
        with pytest.raises(FailureError):
            OperatorClient(url).get("/fleet/v1/nodes")

    assert told == [f"fairwarning-agent/{__version__}", f"fairwarning/{__version__}"]
