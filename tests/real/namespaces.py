"""Network namespaces in which 169.254.169.254 is an address of our own.

Programs have that address written into them, so the only way to run them unmodified is to give
them a network where it answers. Nothing in the machine's own network is touched.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

ENDPOINT = "169.254.169.254"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """One network namespace, and the host name that programs inside it see."""

    name: str
    address: str
    hostname: str

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs ``words`` inside."""
        rename = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
        enter = ["ip", "netns", "exec", self.name, "unshare", "--uts"]
        return [*enter, "sh", "-c", rename, self.hostname, *words]

    def run(self, *words: str, **environment: str) -> str:
        """Return what ``words`` prints; a program that fails makes the test fail with its words."""
        done = subprocess.run(
            self.command(*words),
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{words[0]} exits {done.returncode}: {done.stderr}"
        return done.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A host that owns the endpoint's address, and the guests on its bridge."""

    host: Namespace
    guests: tuple[Namespace, ...]


@contextmanager
def alone() -> Iterator[Namespace]:
    """Give one namespace that owns the endpoint's address; server and client share it."""
    with ExitStack() as undo:
        box = _add(undo, "box", ENDPOINT)
        _ip(box, "addr", "add", f"{ENDPOINT}/32", "dev", "lo")
        yield box


@contextmanager
def fleet(hostnames: Sequence[str]) -> Iterator[Network]:
    """Give a host and one guest per name; the host sees each guest's own source address."""
    with ExitStack() as undo:
        host = _add(undo, "host", ENDPOINT)
        _ip(host, "link", "add", "br0", "type", "bridge")
        _ip(host, "addr", "add", "10.79.0.1/24", "dev", "br0")
        _ip(host, "addr", "add", f"{ENDPOINT}/32", "dev", "br0")
        _ip(host, "link", "set", "br0", "up")
        guests = tuple(
            _plug(host, f"v{number}", _add(undo, hostname, f"10.79.0.{10 + number}"))
            for number, hostname in enumerate(hostnames, start=1)
        )
        yield Network(host=host, guests=guests)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedNetwork:
    """A load balancer that owns the endpoint's address, between a guest with many addresses and the nodes."""

    balancer: Namespace
    guest: Namespace
    database: Namespace
    nodes: tuple[Namespace, ...]


@contextmanager
def balanced(guests: Sequence[str], nodes: int) -> Iterator[BalancedNetwork]:
    """Give the network of docs/guides/high-availability.md; all guests' addresses are in one namespace."""
    with ExitStack() as undo:
        balancer = _add(undo, "balancer", "10.77.1.10")
        for bridge, *addresses in (("br0", "10.77.2.1/24", f"{ENDPOINT}/32"), ("br1", "10.77.1.10/24")):
            _ip(balancer, "link", "add", bridge, "type", "bridge")
            for address in addresses:
                _ip(balancer, "addr", "add", address, "dev", bridge)
            _ip(balancer, "link", "set", bridge, "up")
        guest = _plug(balancer, "g0", _add(undo, "guest", guests[0]))
        for address in guests[1:]:
            _ip(guest, "addr", "add", f"{address}/24", "dev", "eth0")
        members = [_add(undo, f"node{number}", f"10.77.1.{10 + number}") for number in range(1, nodes + 1)]
        database = _add(undo, "database", "10.77.1.20")
        for port, member in enumerate([database, *members]):
            _plug(balancer, f"n{port}", member, "br1")
        yield BalancedNetwork(balancer=balancer, guest=guest, database=database, nodes=tuple(members))


def _add(undo: ExitStack, hostname: str, address: str) -> Namespace:
    space = Namespace(name=f"fw{os.getpid()}-{hostname}", address=address, hostname=hostname)
    subprocess.run(["ip", "netns", "add", space.name], check=True)
    undo.callback(subprocess.run, ["ip", "netns", "del", space.name], check=True)
    _ip(space, "link", "set", "lo", "up")
    return space


def _plug(host: Namespace, port: str, guest: Namespace, bridge: str = "br0") -> Namespace:
    peer = ("type", "veth", "peer", "name", "eth0", "netns", guest.name)
    _ip(host, "link", "add", port, *peer)
    _ip(host, "link", "set", port, "master", bridge, "up")
    _ip(guest, "addr", "add", f"{guest.address}/24", "dev", "eth0")
    _ip(guest, "link", "set", "eth0", "up")
    # No default route: whatever else a program asks for is unreachable at once, not after a wait.
    _ip(guest, "route", "add", f"{ENDPOINT}/32", "dev", "eth0", "src", guest.address)
    return guest


def _ip(space: Namespace, *words: str) -> None:
    subprocess.run(["ip", "-n", space.name, *words], check=True)
