"""Ten thousand malformed requests: each is answered or cut off, none with a 500.

Most of them are among the slow tests.
"""

import asyncio
import json
import random
from collections import Counter

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, Schedule
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.http1.limits import Limits
from fairwarning.http1.server import HttpServer
from fairwarning.metadata.app import MetadataApp
from fairwarning.store.memory import MemoryStore
from tests.guest import E1, NOON, UNHURRIED
from tests.http1.server_client import FREE, PORTABLE

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
REQUESTS, AT_ONCE = 1000, 50

METHODS = ["GET", "POST", "POST", "PUT", "HEAD", "OPTIONS", "get", "G\x00T", ""]
PATHS = [
    "/metadata/scheduledevents",
    "/metadata/ScheduledEvents/",
    "/metadata/instance",
    "/metadata/instance/compute/name",
    "/metadata/instance/network/interface/0/ipv4/ipAddress/0",
    "/metadata/instance/network/interface/-1",
    "/metadata/versions",
    "/metadata",
    "/metadata/latest/scheduledevents",
    "http://169.254.169.254/metadata/scheduledevents",
    "/metadata/../../etc/passwd",
    "/%00",
    "//",
    "*",
    "/metadata/\xff",
]
PARAMETERS = [
    "api-version=2020-07-01",
    "api-version=2017-03-01",
    "api-version=2021-02-01",
    "api-version=latest",
    "api-version=",
    "format=text",
    "wait=0.01",
    "wait=1e400",
    "wait=-5",
    "%zz=%",
    "&&&",
    "a=b=c",
    "x" * 3000,
]
HEADERS = [
    "Metadata: true",
    "Metadata: maybe",
    "X-Forwarded-For: 1.2.3.4",
    'If-None-Match: "1"',
    "If-None-Match: ,,,W/",
    "Expect: 100-continue",
    "Connection: close",
    "Connection: keep-alive, Upgrade",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: 99999999",
    "Host: other",
    " folded: yes",
    "no colon",
    "X: \x07",
    "X: " + "y" * 9000,
]
BODIES = [
    b"",
    b"{}",
    b'{"StartRequests":[]}',
    b'{"StartRequests":[{"EventId":"nope"}]}',
    b'{"StartRequests":[{"EventId":null}]}',
    b"\xef\xbb\xbf[",
    b"[" * 5000,
    b"5\r\nhello\r\n0\r\n\r\n",
    b"\x00\xff" * 100,
    b'{"a":' * 2000,
]


def pick(options: list[str], chance: random.Random) -> str:
    """Return the first, which is as it should be, more often than not."""
    return options[0] if chance.random() < 0.7 else chance.choice(options)


def request(chance: random.Random) -> bytes:
    """Return something like a request."""
    query = "&".join(pick(PARAMETERS, chance) for _ in range(chance.randrange(1, 3)))
    target = f"{pick(PATHS, chance)}?{query}"
    version = pick(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "FTP"], chance)
    headers = ["Host: 169.254.169.254", *(pick(HEADERS, chance) for _ in range(chance.randrange(4)))]
    body = chance.choice(BODIES)
    if chance.random() < 0.5:
        headers.append(f"Content-Length: {len(body)}")
    end = "\n" if chance.random() < 0.05 else "\r\n"
    head = end.join([f"{pick(METHODS, chance)} {target} {version}", *headers, "", ""])
    whole = head.encode("latin-1") + body
    if chance.random() < 0.1:
        at = chance.randrange(len(whole))
        whole = whole[:at] + chance.randbytes(3) + whole[at + 1 :]
    return whole


def pieces(whole: bytes, chance: random.Random) -> list[bytes]:
    """Return the bytes split at random."""
    cuts = sorted(chance.randrange(len(whole) + 1) for _ in range(chance.randrange(4)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


async def send_parts(address: tuple[str, int], parts: list[bytes]) -> list[int]:
    """Send all parts and the end of the stream, and return the statuses that came back."""
    reader, writer = await asyncio.open_connection(*address)
    answer = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        answer = await reader.read()
    except OSError:  # the server closed the connection
        pass
    finally:
        writer.close()
    return [int(line.split()[1]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


async def storm(seed: int) -> tuple[Counter[int], bytes]:
    """Return the statuses of the responses, and what a valid poll sees afterwards."""
    engine = Engine(MemoryStore(), ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
    await engine.handle(CreateSet(seed="s", blueprint=Blueprint(name="web")))
    await engine.handle(Schedule(id=E1, cause="restart", machines=(WEB_0,)))
    app = MetadataApp(Control(engine), UNHURRIED)
    limits = Limits(idle=5.0, head=5.0, steps=FREE)
    server = HttpServer[MachineRef](app.answer, engine.clock.now, limits, fast_path=app, portable=PORTABLE[0])
    listener = await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)
    chance = random.Random(seed)
    statuses: Counter[int] = Counter()
    for _ in range(REQUESTS // AT_ONCE):
        batch = [pieces(request(chance), chance) for _ in range(AT_ONCE)]
        async with asyncio.timeout(30):
            for answered in await asyncio.gather(*(send_parts(listener.address, parts) for parts in batch)):
                statuses.update(answered)
    reader, writer = await asyncio.open_connection(*listener.address)
    writer.write(
        b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
        b"Host: x\r\nMetadata: true\r\nConnection: close\r\n\r\n"
    )
    valid = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    await server.close()
    return statuses, valid


@pytest.mark.usefixtures("transports")
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]
)
def test_bad_input_gets_a_clear_error_and_loses_nothing(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    statuses, valid = asyncio.run(storm(seed))

    assert not [status for status in statuses if status >= 500 and status != 505]
    assert caplog.record_tuples == []
    assert {200, 400, 404, 405} <= set(statuses)
    (event,) = json.loads(valid)["Events"]
    assert (event["EventId"], event["EventStatus"]) == (E1, "Scheduled")
