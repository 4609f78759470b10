"""A whole server: its restart, its metrics, its imports, its sockets."""

import asyncio
import base64
import gc
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization.pkcs7 import load_der_pkcs7_certificates

from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventStatus, MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import PROFILES
from fairwarning.server import FleetServer
from tests.guest import E1
from tests.running import running

DB = MachineRef(ScopeId("db"), VmName("db"))


def server_socket(writer: asyncio.StreamWriter) -> socket.socket:
    """Return the server's socket of a connection within this process."""
    address = writer.get_extra_info("sockname")
    (transport,) = (
        candidate
        for candidate in gc.get_objects()
        if isinstance(candidate, asyncio.Transport)
        and not candidate.is_closing()
        and candidate.get_extra_info("peername") == address
    )
    found: socket.socket = transport.get_extra_info("socket")
    return found


def settings(data: Path) -> Settings:
    azure = PROFILES["azure"]
    return Settings(
        blueprints=(Blueprint(name="db", kind=ScopeKind.STANDALONE),),
        profile=replace(azure, policy=replace(azure.policy, start_enabled=True)),
        manual_clock=True,
        data=data,
        port_base=0,
    )


def test_manual_time_stands_still_while_the_server_is_stopped(tmp_path: Path) -> None:
    async def story() -> tuple[timedelta, EventStatus]:
        async with FleetServer(settings(tmp_path)) as first:
            began = first.engine.clock.now()
            notice = timedelta(milliseconds=1)
            await first.engine.handle(Schedule(id=E1, cause="freeze", machines=(DB,), notice=notice))
        async with FleetServer(settings(tmp_path)) as second:
            event = second.engine.scope(DB.scope).events[E1]
            return second.engine.clock.now() - began, event.status

    passed, status = asyncio.run(story())

    assert passed == timedelta(0)
    assert status is EventStatus.SCHEDULED


@pytest.mark.rule("I-15")
@pytest.mark.rule("I-16")
@pytest.mark.rule("I-20")
def test_a_guest_reads_what_a_management_client_gave_its_machine(tmp_path: Path) -> None:
    vm: Json = {"identity": {"type": "SystemAssigned"}, "properties": {"userData": "aGVsbG8="}}
    with running(tmp_path / "data") as server:
        server.manage("PUT", "lab", {"location": "westeurope"})
        path = "lab/providers/Microsoft.Compute/virtualMachines/box"
        assert server.manage("PUT", path, vm).status_code < 300
        principal = server.manage("GET", path).json()["identity"]["principalId"]
        query = "api-version=2021-02-01"
        user_data = server.ask("lab/box/box", f"/metadata/instance/compute/userData?{query}&format=text").text
        token = server.ask("lab/box/box", "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=x")
        attested = server.ask("lab/box/box", f"/metadata/attested/document?{query}").json()
        ca = x509.load_pem_x509_certificate(Path(str(server.service.ca)).read_bytes())

    assert user_data == "aGVsbG8="
    assert jwt.decode(token.json()["access_token"], options={"verify_signature": False})["oid"] == principal
    (certificate,) = load_der_pkcs7_certificates(base64.b64decode(attested["signature"]))
    certificate.verify_directly_issued_by(ca)


def test_a_defect_that_a_reload_meets_is_logged_and_the_server_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def load() -> Settings:
        raise RuntimeError

    async def story() -> None:
        async with FleetServer(Settings(port_base=0)) as server:
            await server.reload(load)

    asyncio.run(story())

    assert caplog.messages == ["reload_failed problem=RuntimeError"]


def test_the_metrics_count_responses_to_guests() -> None:
    path = "/metadata/scheduledevents?api-version=2020-07-01"

    async def story() -> str:
        web = Settings(blueprints=(Blueprint(name="web", count=1),), port_base=0)
        async with FleetServer(web) as server, httpx2.AsyncClient() as client:
            (endpoint,) = server.endpoints().values()
            for headers in ({"Metadata": "true"}, {"Metadata": "true"}, {}):
                await client.get(f"{endpoint}{path}", headers=headers)
            return (await client.get(f"{server.operator_url}/metrics")).text

    text = asyncio.run(story())

    assert 'fairwarning_metadata_answers_total{status="2xx"} 2\n' in text
    assert 'fairwarning_metadata_answers_total{status="4xx"} 1\n' in text
    assert "fairwarning_metadata_connections 1\n" in text


def test_guests_are_answered_before_libraries_of_the_other_apis_are_loaded() -> None:
    libraries = {"cryptography", "httpx2", "jinja2", "jwt", "msgspec", "sqlite3", "starlette", "uvicorn"}
    script = "import sys, fairwarning.cli.up, fairwarning.server; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert libraries.isdisjoint(done.stdout.split())


def test_responses_of_the_operator_api_are_sent_without_delay() -> None:
    async def story() -> int:
        async with FleetServer(Settings(port_base=0)) as server:
            host, port = server.operator_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readline()
            nodelay = server_socket(writer).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            return nodelay

    assert asyncio.run(story())


def test_the_internal_address_of_a_worker_tells_about_the_process_and_nothing_of_the_fleet(
    tmp_path: Path,
) -> None:
    path = tmp_path / "worker.sock"

    async def ask() -> list[int]:
        protected = replace(settings(tmp_path / "data"), token="a-token-that-is-long-enough")
        async with FleetServer(protected, internal=path) as server:
            transport = httpx2.AsyncHTTPTransport(uds=str(path))
            async with (
                httpx2.AsyncClient(transport=transport, base_url="http://localhost") as supervisor,
                httpx2.AsyncClient(base_url=server.operator_url) as operator,
            ):
                answers = [await supervisor.get(url) for url in ("/metrics", "/healthz", "/fleet/v1/events")]
                answers.append(await operator.get("/metrics"))
        return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [200, 200, 404, 401]
    assert not path.exists()


def test_the_service_manager_hears_of_the_start_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with FleetServer(Settings(port_base=0)) as server, httpx2.AsyncClient() as client:
            assert (await client.get(f"{server.operator_url}/readyz")).json() == {"status": "ready"}
            (node,) = (await client.get(f"{server.operator_url}/fleet/v1/nodes")).json()["nodes"]
            assert node["address"] == server.operator_url

    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path)
        channel.settimeout(5)

        asyncio.run(story())

        messages = [channel.recv(1000) for _ in range(3)]
    assert messages == [b"READY=1\nSTATUS=ready", b"WATCHDOG=1\nSTATUS=ready", b"STOPPING=1"]
