"""What a whole server does across its own end and beginning."""

import asyncio
import gc
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2

from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.model import EventStatus, MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import PROFILES
from fairwarning.server import Service
from tests.guest import E1

DB = MachineRef(ScopeId("db"), VmName("db"))


def other_end(line: asyncio.StreamWriter) -> socket.socket:
    """Return this process's own socket at the other end of a line."""
    near = line.get_extra_info("sockname")
    transports = (
        one for one in gc.get_objects() if isinstance(one, asyncio.Transport) and not one.is_closing()
    )
    (found,) = (one for one in transports if one.get_extra_info("peername") == near)
    far: socket.socket = found.get_extra_info("socket")
    return far


def settings(data: Path) -> Settings:
    azure = PROFILES["azure"]
    return Settings(
        blueprints=(Blueprint(name="db", kind=ScopeKind.STANDALONE),),
        profile=replace(azure, policy=replace(azure.policy, start_enabled=True)),
        manual_clock=True,
        data=data,
        port_base=0,
    )


def test_manual_time_stands_still_while_the_server_is_away(tmp_path: Path) -> None:
    async def story() -> tuple[timedelta, EventStatus]:
        async with Service(settings(tmp_path)) as first:
            began = first.engine.clock.now()
            notice = timedelta(milliseconds=1)
            await first.engine.handle(Schedule(id=E1, cause="freeze", machines=(DB,), notice=notice))
        async with Service(settings(tmp_path)) as second:
            event = second.engine.scope(DB.scope).events[E1]
            return second.engine.clock.now() - began, event.status

    passed, status = asyncio.run(story())

    assert passed == timedelta(0)
    assert status is EventStatus.SCHEDULED


def test_monitoring_is_told_how_often_guests_were_answered() -> None:
    polled = "/metadata/scheduledevents?api-version=2020-07-01"

    async def story() -> str:
        wanted = Settings(blueprints=(Blueprint(name="web", count=1),), port_base=0)
        async with Service(wanted) as service, httpx2.AsyncClient() as client:
            (endpoint,) = service.endpoints().values()
            for headers in ({"Metadata": "true"}, {"Metadata": "true"}, {}):
                await client.get(f"{endpoint}{polled}", headers=headers)
            return (await client.get(f"{service.operator_url}/metrics")).text

    text = asyncio.run(story())

    assert 'fairwarning_metadata_answers_total{status="2xx"} 2\n' in text
    assert 'fairwarning_metadata_answers_total{status="4xx"} 1\n' in text
    assert "fairwarning_metadata_connections 1\n" in text


def test_guests_are_answered_before_libraries_of_other_faces_are_loaded() -> None:
    faces = {"cryptography", "httpx2", "jinja2", "jwt", "msgspec", "sqlite3", "starlette", "uvicorn"}
    script = "import sys, fairwarning.cli.up, fairwarning.server; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert faces.isdisjoint(done.stdout.split())


def test_what_the_operator_api_says_is_not_held_back_until_there_is_more() -> None:
    async def story() -> int:
        async with Service(Settings(port_base=0)) as service:
            host, port = service.operator_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readline()
            undelayed = other_end(writer).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            return undelayed

    assert asyncio.run(story())
