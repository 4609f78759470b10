"""A server that is killed without warning has lost nothing that it answered."""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

import pytest

from tests.cli.server import Server, up

ROUNDS = 50
SETS, SIZE = 10, 10
#: The number of events that each of the hundred clients approves in a round; the throttle allows five.
EACH = 3
FLEET = tuple(word for number in range(SETS) for word in ("--scale-set", f"s{number}={SIZE}"))
APPROVALS = "/metadata/scheduledevents?api-version=2020-07-01"
PAGE = 1000


class Line(TypedDict):
    """A line of the history."""

    seq: int
    kind: str
    event: str | None
    by: str


class Page(TypedDict):
    """A page of the history."""

    history: list[Line]
    next: int | None


class Made(TypedDict):
    """An event that the request caused."""

    id: str


class Caused(TypedDict):
    """The answer to a request that triggers events."""

    events: list[Made]


@dataclass
class Approved:
    """The answers to the clients of one round, and when to kill the server."""

    last_words: int
    answered: dict[str, str] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    time_is_up: asyncio.Event = field(default_factory=asyncio.Event)

    def record_answer(self, event: str, by: str, status: int) -> None:
        if status != 200:
            self.refused.append(status)
        else:
            self.answered[event] = by
        if len(self.answered) >= self.last_words:
            self.time_is_up.set()


class Connection:
    """A kept-alive HTTP connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nMetadata: true\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status, *fields = answer.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in fields)}
        return int(status.split()[1]), await reader.readexactly(int(headers.get("content-length", "0")))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()


async def announce(server: Server) -> dict[str, list[str]]:
    """Trigger some events on every machine; return their ids by machine."""

    async def one_set(names: list[str]) -> list[tuple[str, str]]:
        operator = Connection(server.ready["operator"])
        made = []
        for name in names * EACH:
            wish = {"cause": "freeze", "machines": [name], "notice": "2d"}
            status, body = await operator.ask("POST", "/fleet/v1/events", json.dumps(wish).encode())
            assert status == 201, body
            caused: Caused = json.loads(body)
            made += [(name, event["id"]) for event in caused["events"]]
        operator.close()
        return made

    names = sorted(server.ready["metadata"])
    sets = [names[start : start + SIZE] for start in range(0, len(names), SIZE)]
    events: dict[str, list[str]] = {name: [] for name in names}
    for made in await asyncio.gather(*map(one_set, sets)):
        for name, event in made:
            events[name].append(event)
    return events


async def approve(server: Server, name: str, events: Sequence[str], round_: Approved) -> None:
    """Approve one event after another until all are approved or the server is killed."""
    guest = Connection(server.ready["metadata"][name])
    try:
        for event in events:
            body = json.dumps({"StartRequests": [{"EventId": event}]}).encode()
            status, _ = await guest.ask("POST", APPROVALS, body)
            round_.record_answer(event, name, status)
    except (OSError, asyncio.IncompleteReadError):
        pass  # the connection died with the server: nothing was answered
    finally:
        guest.close()


async def approve_until_killed(server: Server, chance: random.Random) -> Approved:
    """Let every machine approve at the same time, and kill the server meanwhile."""
    events = await announce(server)
    round_ = Approved(last_words=chance.randrange(1, SETS * SIZE * EACH))
    clients = [asyncio.create_task(approve(server, *one, round_)) for one in events.items()]
    await round_.time_is_up.wait()
    asyncio.get_running_loop().call_later(chance.uniform(0, 0.004), server.process.kill)
    await asyncio.gather(*clients)
    return round_


async def history(server: Server, after: int) -> list[Line]:
    """Return the lines of the history after line ``after``."""
    operator = Connection(server.ready["operator"])
    lines: list[Line] = []
    start: int | None = after
    while start is not None:
        status, body = await operator.ask("GET", f"/fleet/v1/history?after={start}&limit={PAGE}")
        assert status == 200, body
        page: Page = json.loads(body)
        lines += page["history"]
        start = page["next"]
    operator.close()
    return lines


def servers(scratch: Path) -> Iterator[Server]:
    """Yield one server after another, all on the same data directory."""
    words = ("--data", str(scratch / "data"), "--start-enabled", "--speed", "1000", *FLEET)
    for number in count():
        directory = scratch / str(number)  # the ready file of a killed server stays behind
        directory.mkdir()
        with up(directory, *words) as server:
            yield server
            server.process.kill()
            server.process.wait()


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.rule("R-12")
def test_every_approval_that_was_answered_is_there_after_the_server_was_killed(tmp_path: Path) -> None:
    chance = random.Random(20261116)
    before: Approved | None = None
    seen, cut_short = 0, 0

    for number, server in enumerate(servers(tmp_path)):
        if before is not None:
            lines = asyncio.run(history(server, seen))
            seen = max(line["seq"] for line in lines)
            kept = {line["event"]: line["by"] for line in lines if line["kind"] == "approved"}
            lost = {event: by for event, by in before.answered.items() if kept.get(event) != by}
            assert (number, lost) == (number, {})
            assert before.refused == []
            cut_short += len(before.answered) < SETS * SIZE * EACH
        if number == ROUNDS:
            break
        before = asyncio.run(approve_until_killed(server, chance))

    # The server was killed during the round, not after the last answer.
    assert cut_short > ROUNDS / 2
