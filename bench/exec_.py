"""What ``exec`` adds to a request: the same program asks the same server, with and without it.

``python -m bench.exec_ WAY PORT REQUESTS`` prints the p50 of some requests in µs, each on a new connection,
because that is where ``exec`` steps in.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address

from bench.load import PATIENCE, POLL, Address, Unanswered
from bench.measure import percentile
from bench.references import quiet
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, ROOT, Server, module
from fairwarning.sandbox.addresses import METADATA, Endpoint
from fairwarning.sandbox.errors import ForbiddenError
from fairwarning.sandbox.isolate import Isolate
from fairwarning.sandbox.redirect import Redirect
from fairwarning.sandbox.supervise import SandboxMode, run

DIRECT = "direct"
#: How a program is given the address, by what the option is called.
MODES: Mapping[str, Callable[[Endpoint], SandboxMode]] = {
    "exec": Redirect,
    "exec --isolate": lambda endpoint: Isolate(endpoint, "bench"),
}
#: The exit code of a way that this machine forbids.
FORBIDDEN = 125

_READING = "Ratio = a direct request's p50 ÷ that of one under exec: 1.00 is as quick, less is slower."
_NOTES = (
    "A Python program that makes a new connection for each request, one after the other.",
    "What is added is paid by connect() alone; with --isolate every byte is handed through as well.",
)


def suite(rounds: int, requests: int) -> Section:
    """Ask in every way once per round, in turns."""
    found: dict[str, list[float]] = {}
    with quiet("uvicorn raw ASGI") as server:
        for _ in range(rounds):
            for way in (DIRECT, *MODES):
                found.setdefault(way, []).extend(_measured(way, server, requests))
    return section({way: values for way, values in found.items() if values})


def section(found: Mapping[str, Sequence[float]]) -> Section:
    """Return what some rounds show; a way that is forbidden here is left out, and said to be."""
    p50 = {way: Figure(name=f"request, {way}, p50", unit="µs", values=tuple(v)) for way, v in found.items()}
    modes = [way for way in MODES if way in found]
    added = tuple(
        Figure(
            name=f"{way} adds",
            unit="µs",
            values=tuple(with_ - without for with_, without in zip(found[way], found[DIRECT], strict=True)),
        )
        for way in modes
    )
    forbidden = tuple(f"This machine forbids {way}." for way in MODES if way not in found)
    return Section(
        title="exec: what it adds to a request",
        reading=_READING,
        claims=tuple(claim(way, DIRECT, p50[DIRECT], p50[way], p50[DIRECT]) for way in modes),
        figures=(*added, *p50.values()),
        notes=(*_NOTES, *forbidden),
    )


def _measured(way: str, server: Server, requests: int) -> Sequence[float]:
    _, port = server.address
    done = subprocess.run(
        module("bench.exec_", way, port, requests), cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode == FORBIDDEN:
        return ()
    if done.returncode:
        raise Unanswered(f"{way} ends with {done.returncode}: {done.stderr}")
    return (float(done.stdout),)


def ask(address: Address, requests: int) -> float:
    """Return the p50 of some requests, in µs."""
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        with socket.create_connection(address, PATIENCE) as line:
            line.sendall(POLL)
            if not line.recv(65536).startswith(b"HTTP/1.1 200 "):
                raise Unanswered(f"{address} does not answer well")
        took.append((time.perf_counter() - began) * 1e6)
    return percentile(took, 0.5)


def main(way: str, port: str, requests: str) -> int:
    """Print what requests take in a way, and return the exit code."""
    if way in MODES:
        mode = MODES[way](Endpoint(IPv4Address(LOOPBACK), int(port)))
        try:
            return run(tuple(module("bench.exec_", str(METADATA), 80, requests)), mode)
        except ForbiddenError as problem:
            print(problem, file=sys.stderr)
            return FORBIDDEN
    print(ask((LOOPBACK if way == DIRECT else way, int(port)), int(requests)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
