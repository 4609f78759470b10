"""Wrong tokens are answered slowly, right ones at once."""

import asyncio
from datetime import timedelta
from functools import cached_property

import httpx2
import pytest
from starlette.types import ASGIApp

from fairwarning.arm import app as arm
from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.tokens import Tokens
from fairwarning.config import SHORTEST_TOKEN, Settings
from fairwarning.console import app as console
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import InvalidError
from fairwarning.operator import app as operator
from fairwarning.server import Service
from fairwarning.throttle import MEMORY, MOST_CALLERS, MOST_WAITING, PAUSES, Throttle, TooManyGuessesError
from tests.arm.arm_client import KEY, Wall
from tests.console.console_client import proof
from tests.fleet_harness import FleetHarness, run

TOKEN = "correct horse battery"
SUBSCRIBED = f"/subscriptions/{SUBSCRIPTION}?api-version=2022-12-01"
WRONG = {"Authorization": "Bearer wrong"}


class Rests:
    """A throttle whose time passes only when told to, and what it made callers wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds: list[float] = []
        self.held: asyncio.Event | None = None
        self.throttle = Throttle(lambda: self.now, self._rest)

    async def _rest(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.held is not None:
            await self.held.wait()

    def wrong(self, *addresses: str) -> None:
        """Try one wrong token after the other."""

        async def story() -> None:
            for address in addresses:
                await self.throttle.wrong(address)

        run(story())


class Faces:
    """All that ask for a token, behind one throttle."""

    def __init__(self) -> None:
        self.stage, self.wall, self.rests = FleetHarness(Blueprint(name="web")), Wall(), Rests()
        self.tokens = Tokens(KEY, self.wall, TOKEN)
        room = ArmContext(self.stage.engine, welcome=_no_doors)
        run(room.open())
        throttle, engine = self.rests.throttle, self.stage.engine
        self.arm = arm.create_app(room, base_url="https://here", tokens=self.tokens, throttle=throttle)
        self.operator = operator.create_app(engine, endpoints=_nowhere, token=TOKEN, throttle=throttle)
        self.console = console.create_app(engine, endpoints=_nowhere, token=TOKEN, throttle=throttle)

    @cached_property
    def ours(self) -> str:
        return self.tokens.make("https://here")

    def send(
        self, app: ASGIApp, path: str, headers: dict[str, str], form: dict[str, str] | None = None
    ) -> httpx2.Response:
        async def talk() -> httpx2.Response:
            transport = httpx2.ASGITransport(app, client=("192.0.2.7", 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                method = "GET" if form is None else "POST"
                return await client.request(method, path, headers=headers, data=form)

        return run(talk())


async def _no_doors(machines: object) -> None:
    """Nothing has to be opened here."""


def _nowhere(machine: object) -> None:
    """No machine has an address here."""


def test_every_wrong_token_in_a_row_takes_longer() -> None:
    rests = Rests()

    rests.wrong(*["192.0.2.7"] * 7)

    assert rests.seconds == [*PAUSES, PAUSES[-1], PAUSES[-1]]


def test_one_caller_does_not_slow_another() -> None:
    rests = Rests()

    rests.wrong(*["192.0.2.7"] * 7, "192.0.2.8")

    assert rests.seconds[-1] == PAUSES[0]


def test_a_whole_network_of_ipv6_is_one_caller() -> None:
    rests = Rests()

    rests.wrong("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")

    assert rests.seconds == [PAUSES[0], PAUSES[1], PAUSES[0]]


def test_wrong_tokens_are_forgotten_after_a_while() -> None:
    rests = Rests()

    rests.wrong(*["192.0.2.7"] * 7)
    rests.now += MEMORY + 1
    rests.wrong("192.0.2.7")

    assert rests.seconds[-1] == PAUSES[0]


def test_who_calls_from_everywhere_fills_no_memory() -> None:
    rests = Rests()

    rests.wrong(*(f"10.0.{number // 256}.{number % 256}" for number in range(MOST_CALLERS + 100)))

    assert rests.throttle.remembered == MOST_CALLERS


def test_wrong_tokens_are_answered_one_at_a_time_and_only_so_many_may_wait() -> None:
    rests = Rests()

    async def story() -> tuple[int, list[BaseException | None]]:
        rests.held = asyncio.Event()
        asking = [asyncio.create_task(rests.throttle.wrong("192.0.2.7")) for _ in range(MOST_WAITING + 5)]
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        early = len(rests.seconds)
        rests.held.set()
        return early, list(await asyncio.gather(*asking, return_exceptions=True))

    early, answers = run(story())

    assert early == 1
    assert answers[:MOST_WAITING] == [None] * MOST_WAITING
    assert all(isinstance(one, TooManyGuessesError) for one in answers[MOST_WAITING:])


def test_all_faces_that_ask_for_a_token_share_one_throttle() -> None:
    faces = Faces()
    login = {"grant_type": "client_credentials", "client_secret": "wrong"}

    told = [
        faces.send(faces.operator, "/fleet/v1/machines", WRONG),
        faces.send(faces.console, "/", WRONG),
        faces.send(faces.console, "/login", {}, {"token": "wrong", "csrf": _csrf(faces)}),
        faces.send(faces.arm, SUBSCRIBED, WRONG),
        faces.send(faces.arm, "/adfs/oauth2/token", {}, login),
    ]

    assert [one.status_code for one in told] == [401, 401, 403, 401, 401]
    assert faces.rests.seconds == list(PAUSES)


def test_a_right_token_is_never_slowed_whatever_others_try_from_the_same_address() -> None:
    faces = Faces()
    right = {"Authorization": f"Bearer {TOKEN}"}
    faces.rests.wrong(*["192.0.2.7"] * 20)
    before = len(faces.rests.seconds)

    told = [
        faces.send(faces.operator, "/fleet/v1/machines", right),
        faces.send(faces.console, "/", right),
        faces.send(faces.console, "/login", {}, {"token": TOKEN, "csrf": _csrf(faces)}),
        faces.send(faces.arm, SUBSCRIBED, {"Authorization": f"Bearer {faces.ours}"}),
    ]

    assert [one.status_code for one in told] == [200, 200, 303, 200]
    assert len(faces.rests.seconds) == before


def test_who_shows_no_token_or_one_that_has_run_out_has_guessed_nothing() -> None:
    faces = Faces()
    old = {"Authorization": f"Bearer {faces.ours}"}
    faces.wall.advance(timedelta(days=2))

    told = [
        faces.send(faces.operator, "/fleet/v1/machines", {}),
        faces.send(faces.console, "/", {}),
        faces.send(faces.arm, SUBSCRIBED, {}),
        faces.send(faces.arm, SUBSCRIBED, old),
    ]

    assert [one.status_code for one in told] == [401, 401, 401, 401]
    assert faces.rests.seconds == []


@pytest.mark.parametrize("face", ["operator", "console", "arm"])
def test_who_tries_too_many_at_once_is_told_to_come_back(face: str) -> None:
    faces = Faces()
    app, path = {
        "operator": (faces.operator, "/fleet/v1/machines"),
        "console": (faces.console, "/"),
        "arm": (faces.arm, SUBSCRIBED),
    }[face]

    async def story() -> httpx2.Response:
        faces.rests.held = asyncio.Event()
        waiting = [asyncio.create_task(faces.rests.throttle.wrong("192.0.2.7")) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        transport = httpx2.ASGITransport(app, client=("192.0.2.7", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.get(path, headers=WRONG)
        faces.rests.held.set()
        await asyncio.gather(*waiting)
        return response

    response = run(story())

    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"


def test_a_server_does_not_start_with_a_token_that_could_be_guessed() -> None:
    async def start() -> None:
        async with Service(Settings(port_base=0, token="x" * (SHORTEST_TOKEN - 1))):
            pass

    with pytest.raises(InvalidError, match="token: has 15 characters; it needs at least 16"):
        run(start())


def _csrf(faces: Faces) -> str:
    return proof(faces.send(faces.console, "/login", {}).text)
