"""The console of a complete server."""

import asyncio
import html
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx2

from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.server import FleetServer

T = TypeVar("T")

WEB = Blueprint(name="web", count=2)
TOKEN = "correct horse battery"


def served(scenario: Callable[[httpx2.AsyncClient], Awaitable[T]], settings: Settings) -> T:
    """Return the result of a scenario against a server."""

    async def run() -> T:
        async with (
            FleetServer(settings) as service,
            httpx2.AsyncClient(base_url=service.operator_url) as client,
        ):
            return await scenario(client)

    return asyncio.run(run())


def test_the_console_and_the_operator_api_share_an_address() -> None:
    async def scenario(client: httpx2.AsyncClient) -> tuple[httpx2.Response, httpx2.Response]:
        return await client.get("/"), await client.get("/fleet/v1/machines")

    page, answer = served(scenario, Settings(blueprints=(WEB,), port_base=0))

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "web_1" in page.text
    assert answer.headers["content-type"] == "application/json"


def test_the_document_on_a_page_is_what_the_guest_is_shown_even_under_a_fault() -> None:
    async def scenario(client: httpx2.AsyncClient) -> tuple[str, str]:
        await client.post("/fleet/v1/events", json={"cause": "restart", "machines": ["web_0"]})
        await client.put("/fleet/v1/machines/web_0/fault", json={"fault": "restart"})
        machine = (await client.get("/fleet/v1/machines/web_0")).json()
        url = f"{machine['metadata']}/metadata/scheduledevents?api-version=2020-07-01"
        guest = await client.get(url, headers={"Metadata": "true"})
        return guest.text, (await client.get("/machines/web_0")).text

    shown, page = served(scenario, Settings(blueprints=(WEB,), port_base=0))

    assert shown.startswith('{"DocumentIncarnation":1,')
    assert shown in html.unescape(page)


def test_the_token_of_the_server_is_the_token_of_the_console() -> None:
    async def scenario(client: httpx2.AsyncClient) -> list[int]:
        known = {"Authorization": f"Bearer {TOKEN}"}
        return [
            (await client.get("/")).status_code,
            (await client.get("/", headers={"Accept": "text/html"})).status_code,
            (await client.get("/", headers=known)).status_code,
        ]

    assert served(scenario, Settings(blueprints=(WEB,), port_base=0, token=TOKEN)) == [401, 303, 200]


def test_a_live_page_does_not_keep_a_server_from_ending() -> None:
    async def scenario() -> int:
        async with httpx2.AsyncClient() as client:
            async with FleetServer(Settings(blueprints=(WEB,), port_base=0)) as service:
                request = client.build_request("GET", f"{service.operator_url}/live?page=/")
                stream = await client.send(request, stream=True)
                lines = stream.aiter_lines()
                await anext(lines)
            left = [line async for line in lines]
            await stream.aclose()
        return len(left)

    assert asyncio.run(scenario()) > 0
