"""Three nodes behind HAProxy, set up as docs/guides/high-availability.md says, and guests that poll."""

import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from psycopg.conninfo import conninfo_to_dict

from tests.cli.server import until
from tests.pages import Page
from tests.real.namespaces import ENDPOINT, BalancedNetwork, Namespace, balanced
from tests.real.server import FAIRWARNING

GUIDE = Page("docs/guides/high-availability.md")
#: The commands of the guide that a node, the host of HAProxy, and HAProxy itself need.
ON_NODES, ON_BALANCER, HAPROXY = "^ip route add 10", "^(iptables|ip rule|ip route add local)", "^haproxy"

GUESTS = [f"10.77.2.{number}" for number in range(11, 19)]

NODE = """
[store]
kind = "postgres"
dsn = "host=10.77.1.20 user={user} dbname={dbname} sslmode=disable"
migrate = true
[node]
name = "{name}"
[metadata]
listen = ["{address}:80"]
[[set]]
name = "web"
"""
MACHINE = '[[machine]]\nname = "web-{number}"\nset = "web"\naddress = "{address}"\n'

#: Leads from the network of the nodes to the socket of the database.
DATABASE = """
defaults
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen database
    bind 10.77.1.20:5432
    server socket unix@{host}/.s.PGSQL.5432
"""


class Answer(NamedTuple):
    """What a guest was told, and when."""

    at: float
    status: int
    body: str


@dataclass
class Guest:
    """A guest that polls twice a second and keeps its connection."""

    address: str
    process: "subprocess.Popen[str]"
    answers: list[Answer] = field(default_factory=list)

    def listen(self) -> None:
        """Note every answer until the guest ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if match := re.search(r"(.*) (\d{3})$", line):
                self.answers.append(Answer(time.monotonic(), int(match[2]), match[1]))

    @property
    def last(self) -> Answer:
        """The last answer."""
        return self.answers[-1] if self.answers else Answer(time.monotonic(), 0, "")

    def said(self, text: str) -> Answer | None:
        """Return the first answer that contains a text."""
        return next((answer for answer in self.answers if text in answer.body), None)


@dataclass(frozen=True)
class BalancedNodes:
    """Nodes behind a load balancer, and their guests."""

    network: BalancedNetwork
    guests: list[Guest]

    @property
    def answers(self) -> list[Answer]:
        """What all guests were told."""
        return [answer for guest in self.guests for answer in guest.answers]

    def guests_of(self, node: Namespace) -> set[str]:
        """Return the addresses of guests that a node has connections of; HAProxy keeps some of them open."""
        peers = node.run("ss", "-Htn", "sport = :80")
        return {address for address in GUESTS if f"{address}:" in peers}


@contextmanager
def running_nodes(dsn: str, folder: Path) -> Iterator[BalancedNodes]:
    """Run nodes, load balancer and guests during the block."""
    database = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    (folder / "database.cfg").write_text(DATABASE.format(**database))
    (folder / "haproxy.cfg").write_text(GUIDE.files()["haproxy.cfg"])
    with balanced(GUESTS, nodes=3) as network, ExitStack() as stack:
        stack.enter_context(_running(network.database, folder, "haproxy", "-f", "database.cfg"))
        for node in network.nodes:
            stack.enter_context(_serving(node, folder, database))
        _type(network.nodes, ON_NODES)
        _type([network.balancer], ON_BALANCER)
        (start,) = GUIDE.commands(HAPROXY)
        with start.running() as text:
            stack.enter_context(_running(network.balancer, folder, *shlex.split(text)))
        guests = [stack.enter_context(_polling(network.guest, address)) for address in GUESTS]
        until(lambda: all(guest.last.status == 200 for guest in guests), "all guests are answered")
        yield BalancedNodes(network, guests)


def _type(hosts: Sequence[Namespace], pattern: str) -> None:
    for command in GUIDE.commands(pattern):
        with command.running() as text:
            for host in hosts:
                host.run(*shlex.split(text))


@contextmanager
def _serving(node: Namespace, folder: Path, database: dict[str, str]) -> Iterator[None]:
    own = folder / node.hostname
    own.mkdir()
    text = NODE.format(name=node.hostname, address=node.address, **database)
    machines = (MACHINE.format(number=number, address=address) for number, address in enumerate(GUESTS))
    (own / "serve.toml").write_text(text + "".join(machines))
    with _running(node, own, FAIRWARNING, "serve", "--config", "serve.toml"):
        ready = f"http://{node.address}/readyz"
        node.run("curl", "-sf", "--retry", "50", "--retry-delay", "1", "--retry-all-errors", ready)
        yield


@contextmanager
def _running(space: Namespace, folder: Path, *words: str) -> Iterator[None]:
    with (folder / f"{space.hostname}.log").open("w") as log:
        process = subprocess.Popen(space.command(*words), stdout=log, stderr=log, cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _polling(space: Namespace, address: str) -> Iterator[Guest]:
    url = f"http://{ENDPOINT}/metadata/scheduledevents?api-version=2020-07-01&n=[1-1000]"
    words = ["curl", "-sN", "--rate", "120/m", "--interface", address, "-H", "Metadata: true"]
    command = space.command(*words, "--write-out", r" %{http_code}\n", url)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        guest = Guest(address, process)
        listening = Thread(target=guest.listen)
        listening.start()
        try:
            yield guest
        finally:
            process.terminate()
            listening.join()
