"""The response to a wrong token is delayed, the response to a right token is not."""

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
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import InvalidError
from fairwarning.operator import app as operator
from fairwarning.server import FleetServer
from fairwarning.throttle import DELAYS, MAX_CALLERS, MAX_WAITING, MEMORY, Throttle, TooManyGuessesError
from tests.arm.arm_client import KEY, WallClock
from tests.console.console_client import csrf_token
from tests.fleet_harness import FleetHarness, run

TOKEN = "correct horse battery"
SUBSCRIBED = f"/subscriptions/{SUBSCRIPTION}?api-version=2022-12-01"
WRONG = {"Authorization": "Bearer wrong"}


class Delays:
    """A throttle with a clock of its own, and the delays of its callers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds: list[float] = []
        self.held: asyncio.Event | None = None
        self.throttle = Throttle(lambda: self.now, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.held is not None:
            await self.held.wait()

    def wrong(self, *addresses: str) -> None:
        """Try one wrong token after the other."""

        async def story() -> None:
            for address in addresses:
                await self.throttle.wrong_token(address)

        run(story())


class Apis:
    """All APIs that ask for a token, behind one throttle."""

    def __init__(self) -> None:
        self.stage, self.wall, self.delays = FleetHarness(Blueprint(name="web")), WallClock(), Delays()
        self.tokens = Tokens(KEY, self.wall, TOKEN)
        context = ArmContext(self.stage.engine, open_endpoints=_no_endpoints)
        throttle, control = self.delays.throttle, Control(self.stage.engine)
        self.arm = arm.create_app(context, base_url="https://here", tokens=self.tokens, throttle=throttle)
        self.operator = operator.create_app(control, endpoints=_nowhere, token=TOKEN, throttle=throttle)
        self.console = console.create_app(control, endpoints=_nowhere, token=TOKEN, throttle=throttle)

    @cached_property
    def ours(self) -> str:
        return self.tokens.make("https://here")

    def send(
        self, app: ASGIApp, path: str, headers: dict[str, str], form: dict[str, str] | None = None
    ) -> httpx2.Response:
        async def request() -> httpx2.Response:
            transport = httpx2.ASGITransport(app, client=("192.0.2.7", 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                method = "GET" if form is None else "POST"
                return await client.request(method, path, headers=headers, data=form)

        return run(request())


async def _no_endpoints(machines: object) -> None:
    """Nothing has to be opened here."""


def _nowhere(machine: object) -> None:
    """No machine has an address here."""


def test_every_wrong_token_in_a_row_takes_longer() -> None:
    delays = Delays()

    delays.wrong(*["192.0.2.7"] * 7)

    assert delays.seconds == [*DELAYS, DELAYS[-1], DELAYS[-1]]


def test_one_caller_does_not_slow_another() -> None:
    delays = Delays()

    delays.wrong(*["192.0.2.7"] * 7, "192.0.2.8")

    assert delays.seconds[-1] == DELAYS[0]


def test_a_whole_network_of_ipv6_is_one_caller() -> None:
    delays = Delays()

    delays.wrong("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")

    assert delays.seconds == [DELAYS[0], DELAYS[1], DELAYS[0]]


def test_callers_with_ipv4_are_told_apart_on_a_socket_for_both_families() -> None:
    delays = Delays()

    delays.wrong("::ffff:192.0.2.7", "::ffff:192.0.2.8", "192.0.2.7")

    assert delays.seconds == [DELAYS[0], DELAYS[0], DELAYS[1]]


def test_wrong_tokens_are_forgotten_after_a_while() -> None:
    delays = Delays()

    delays.wrong(*["192.0.2.7"] * 7)
    delays.now += MEMORY + 1
    delays.wrong("192.0.2.7")

    assert delays.seconds[-1] == DELAYS[0]


def test_who_calls_from_everywhere_fills_no_memory() -> None:
    delays = Delays()

    delays.wrong(*(f"10.0.{number // 256}.{number % 256}" for number in range(MAX_CALLERS + 100)))

    assert delays.throttle.remembered == MAX_CALLERS


def test_wrong_tokens_are_answered_one_at_a_time_and_only_so_many_may_wait() -> None:
    delays = Delays()

    async def story() -> tuple[int, list[BaseException | None]]:
        delays.held = asyncio.Event()
        asking = [
            asyncio.create_task(delays.throttle.wrong_token("192.0.2.7")) for _ in range(MAX_WAITING + 5)
        ]
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        early = len(delays.seconds)
        delays.held.set()
        return early, list(await asyncio.gather(*asking, return_exceptions=True))

    early, answers = run(story())

    assert early == 1
    assert answers[:MAX_WAITING] == [None] * MAX_WAITING
    assert all(isinstance(answer, TooManyGuessesError) for answer in answers[MAX_WAITING:])


def test_all_apis_that_ask_for_a_token_share_one_throttle() -> None:
    apis = Apis()
    login = {"grant_type": "client_credentials", "client_secret": "wrong"}

    responses = [
        apis.send(apis.operator, "/fleet/v1/machines", WRONG),
        apis.send(apis.console, "/", WRONG),
        apis.send(apis.console, "/login", {}, {"token": "wrong", "csrf": _csrf(apis)}),
        apis.send(apis.arm, SUBSCRIBED, WRONG),
        apis.send(apis.arm, "/adfs/oauth2/token", {}, login),
    ]

    assert [response.status_code for response in responses] == [401, 401, 403, 401, 401]
    assert apis.delays.seconds == list(DELAYS)


def test_a_right_token_is_never_slowed_whatever_others_try_from_the_same_address() -> None:
    apis = Apis()
    right = {"Authorization": f"Bearer {TOKEN}"}
    apis.delays.wrong(*["192.0.2.7"] * 20)
    before = len(apis.delays.seconds)

    responses = [
        apis.send(apis.operator, "/fleet/v1/machines", right),
        apis.send(apis.console, "/", right),
        apis.send(apis.console, "/login", {}, {"token": TOKEN, "csrf": _csrf(apis)}),
        apis.send(apis.arm, SUBSCRIBED, {"Authorization": f"Bearer {apis.ours}"}),
    ]

    assert [response.status_code for response in responses] == [200, 200, 303, 200]
    assert len(apis.delays.seconds) == before


def test_who_shows_no_token_or_one_that_has_run_out_has_guessed_nothing() -> None:
    apis = Apis()
    old = {"Authorization": f"Bearer {apis.ours}"}
    apis.wall.advance(timedelta(days=2))

    responses = [
        apis.send(apis.operator, "/fleet/v1/machines", {}),
        apis.send(apis.console, "/", {}),
        apis.send(apis.arm, SUBSCRIBED, {}),
        apis.send(apis.arm, SUBSCRIBED, old),
    ]

    assert [response.status_code for response in responses] == [401, 401, 401, 401]
    assert apis.delays.seconds == []


@pytest.mark.parametrize("api", ["operator", "console", "arm"])
def test_who_tries_too_many_at_once_is_told_to_come_back(api: str) -> None:
    apis = Apis()
    targets: dict[str, tuple[ASGIApp, str]] = {
        "operator": (apis.operator, "/fleet/v1/machines"),
        "console": (apis.console, "/"),
        "arm": (apis.arm, SUBSCRIBED),
    }
    app, path = targets[api]

    async def story() -> httpx2.Response:
        apis.delays.held = asyncio.Event()
        waiting = [
            asyncio.create_task(apis.delays.throttle.wrong_token("192.0.2.7")) for _ in range(MAX_WAITING)
        ]
        await asyncio.sleep(0)
        transport = httpx2.ASGITransport(app, client=("192.0.2.7", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.get(path, headers=WRONG)
        apis.delays.held.set()
        await asyncio.gather(*waiting)
        return response

    response = run(story())

    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("length", "message"),
    [
        pytest.param(SHORTEST_TOKEN - 1, "token: has 15 characters; it needs at least 16", id="too short"),
        pytest.param(1, "token: has 1 character; it needs at least 16", id="one character"),
    ],
)
def test_a_server_does_not_start_with_a_token_that_could_be_guessed(length: int, message: str) -> None:
    async def start() -> None:
        async with FleetServer(Settings(port_base=0, token="x" * length)):
            pass

    with pytest.raises(InvalidError, match=message):
        run(start())


def _csrf(apis: Apis) -> str:
    return csrf_token(apis.send(apis.console, "/login", {}).text)
