"""Nodes: processes of ``fairwarning serve`` on one PostgreSQL, each with a link and a clock of its own."""

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import httpx2
from psycopg.conninfo import conninfo_to_dict

from tests.cli.server import FAIRWARNING, free_port
from tests.cluster.database_link import DatabaseLink, LinkState
from tests.cluster.players import HOST
from tests.cluster.skewed_clock import SkewedClock

#: How long a start may take, in seconds: other tests run at the same time.
START = 30.0

#: How long a node that stood still may take to read what the others wrote meanwhile, in seconds.
CATCH_UP = 1.0

#: The machines by full name, each with the source address of its guest.
ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        **{f"web/web_{number}": f"127.1.0.{number + 1}" for number in range(4)},
        **{f"app/app-{number}": f"127.1.1.{number + 1}" for number in range(3)},
        "db/db": "127.1.2.1",
        "batch/batch": "127.1.3.1",
        **{f"vm{number}/vm{number}": f"127.1.4.{number + 1}" for number in range(3)},
    }
)

#: The machines that share a host, and the machines that only management clients restart.
NEIGHBOURS, MANAGED = ("db/db", "batch/batch"), ("vm0/vm0", "vm1/vm1", "vm2/vm2")

_FILE = """
driver = "simulated"

[store]
kind = "postgres"
dsn = "{dsn}"
migrate = true

[node]
name = "{name}"

[operator]
listen = "127.0.0.1:{port}"
plain_http = true

[management]
listen = "127.0.0.1:{management}"

[metadata]
listen = ["127.0.0.1:{metadata}"]
requests_per_second = 10000
burst = 10000

[tls]
directory = "{tls}"

[[set]]
name = "web"
kind = "scale-set"

[[set]]
name = "app"
kind = "availability-set"
"""


class Node:
    """One node, which may be started again and again."""

    def __init__(self, name: str, folder: Path, link: DatabaseLink, clock: SkewedClock, dsn: str) -> None:
        self.name = name
        self.link = link
        self.clock = clock
        self.starts = 0
        self._folder = folder
        #: Until when the node stands still, or reads what it missed meanwhile.
        self._still_until = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        port = free_port(3)
        self.operator = f"http://127.0.0.1:{port}"
        self.management = f"https://127.0.0.1:{port + 1}"
        self.metadata = f"http://127.0.0.1:{port + 2}"
        database = conninfo_to_dict(dsn)
        through_link = (
            f"host=127.0.0.1 port={link.port} user={database['user']} dbname={database['dbname']} "
            f"application_name={name} sslmode=disable"
        )
        text = _FILE.format(
            dsn=through_link, name=name, port=port, management=port + 1, metadata=port + 2, tls=folder / "tls"
        )
        (folder / "serve.toml").write_text(text + "".join(map(_machine, ADDRESSES.items())))

    @property
    def process(self) -> str:
        """The name of the node and the number of its start."""
        return f"{self.name}#{self.starts}"

    @property
    def cut_off(self) -> bool:
        """Whether the node cannot read what other nodes write, or could not a moment ago."""
        return self.link.state is not LinkState.UP or time.monotonic() < self._still_until

    @property
    def log(self) -> str:
        """What the node has written to its log, all starts together."""
        return (self._folder / "log").read_text()

    async def start(self) -> None:
        """Start the node and wait until it may be sent requests."""
        self.starts += 1
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*FAIRWARNING, "serve", "--config", str(self._folder / "serve.toml")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.clock.environment},
            )
        await self.become_ready()

    async def become_ready(self) -> None:
        """Wait until the node may be sent requests."""
        assert self._process is not None
        until = time.monotonic() + START
        async with httpx2.AsyncClient(base_url=self.operator, trust_env=False) as client:
            while True:
                with suppress(httpx2.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        return
                assert self._process.poll() is None, f"{self.name} has ended: {self.log[-2000:]}"
                assert time.monotonic() < until, f"{self.name} is not ready: {self.log[-2000:]}"
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End the process without a chance to do anything."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def freeze(self) -> None:
        """Stop the process where it is."""
        self._still_until = math.inf
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a stopped process go on."""
        self._signal(signal.SIGCONT)
        self._still_until = time.monotonic() + CATCH_UP

    async def stop(self) -> None:
        """Ask the process to end."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            code = await asyncio.to_thread(self._process.wait, 20)
            assert code == 0, f"{self.name} ended with {code}: {self.log[-2000:]}"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


@asynccontextmanager
async def running_nodes(dsn: str, folder: Path, library: Path, *names: str) -> AsyncIterator[list[Node]]:
    """Run nodes on a database during the block; ``library`` gives them their clocks."""
    database = conninfo_to_dict(dsn)
    nodes = []
    async with AsyncExitStack() as stack:
        for name in names:
            own = folder / name
            own.mkdir()
            host, port = str(database.get("host") or "127.0.0.1"), int(database.get("port") or 5432)
            link = await stack.enter_async_context(DatabaseLink(host, port).serve())
            nodes.append(Node(name, own, link, SkewedClock(library, own / "offset"), dsn))
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            yield nodes
        finally:
            for node in nodes:
                node.kill()


def _machine(machine: tuple[str, str]) -> str:
    full, address = machine
    scope, _, name = full.partition("/")
    lines = ["[[machine]]", f'name = "{name}"', f'address = "{address}"']
    if full in NEIGHBOURS:
        lines.append(f'host = "{HOST}"')
    if scope != name:
        lines.append(f'set = "{scope}"')
    return "\n".join(["", *lines, ""])
