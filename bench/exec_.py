"""The cost of ``exec``: the same program sends requests to the same server, with and without it.

``python -m bench.exec_ MODE PORT REQUESTS`` prints the p50 of some requests in µs, each on a new connection,
because ``exec`` redirects connections.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address

from bench.load import PATIENCE, POLL, Address, UnansweredError
from bench.measure import percentile
from bench.references import without_events
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, ROOT, Server, module
from fairwarning.sandbox.addresses import METADATA, Endpoint
from fairwarning.sandbox.errors import ModeForbiddenError
from fairwarning.sandbox.isolate import Isolate
from fairwarning.sandbox.redirect import Redirect
from fairwarning.sandbox.supervise import SandboxMode, run

DIRECT = "direct"
#: The modes of the sandbox, by option.
MODES: Mapping[str, Callable[[Endpoint], SandboxMode]] = {
    "exec": lambda endpoint: Redirect(endpoint, "bench"),
    "exec --isolate": lambda endpoint: Isolate(endpoint, "bench"),
}
#: The exit code of a mode that this machine forbids.
FORBIDDEN = 125

_READING = "Ratio = p50 of a direct request ÷ p50 under exec: 1.00 is as quick, less is slower."
_NOTES = (
    "A Python program that opens a new connection for each request, one after the other.",
    "Only connect() is slower; with --isolate, every byte is copied as well.",
)


def suite(rounds: int, requests: int) -> Section:
    """Send requests in each mode once per round, in turns."""
    times: dict[str, list[float]] = {}
    with without_events("uvicorn raw ASGI") as server:
        for _ in range(rounds):
            for mode in (DIRECT, *MODES):
                times.setdefault(mode, []).extend(_measure(mode, server, requests))
    return section({mode: values for mode, values in times.items() if values})


def section(times: Mapping[str, Sequence[float]]) -> Section:
    """Return the section of the report; a note names each forbidden mode."""
    p50 = {
        mode: Figure(name=f"request, {mode}, p50", unit="µs", values=tuple(values))
        for mode, values in times.items()
    }
    modes = [mode for mode in MODES if mode in times]
    added = tuple(
        Figure(
            name=f"{mode} adds",
            unit="µs",
            values=tuple(with_ - without for with_, without in zip(times[mode], times[DIRECT], strict=True)),
        )
        for mode in modes
    )
    forbidden = tuple(f"This machine forbids {mode}." for mode in MODES if mode not in times)
    return Section(
        title="exec: time added to a request",
        reading=_READING,
        claims=tuple(claim(mode, DIRECT, p50[DIRECT], p50[mode], p50[DIRECT]) for mode in modes),
        figures=(*added, *p50.values()),
        notes=(*_NOTES, *forbidden),
    )


def _measure(mode: str, server: Server, requests: int) -> Sequence[float]:
    _, port = server.address
    done = subprocess.run(
        module("bench.exec_", mode, port, requests), cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode == FORBIDDEN:
        return ()
    if done.returncode:
        raise UnansweredError(f"{mode} ends with {done.returncode}: {done.stderr}")
    return (float(done.stdout),)


def median_time(address: Address, requests: int) -> float:
    """Return the p50 of some requests, in µs."""
    times = []
    for _ in range(requests):
        began = time.perf_counter()
        with socket.create_connection(address, PATIENCE) as connection:
            connection.sendall(POLL)
            if not connection.recv(65536).startswith(b"HTTP/1.1 200 "):
                raise UnansweredError(f"{address} does not answer 200")
        times.append((time.perf_counter() - began) * 1e6)
    return percentile(times, 0.5)


def main(mode: str, port: str, requests: str) -> int:
    """Print the p50 of requests in a mode, and return the exit code."""
    if mode in MODES:
        sandbox = MODES[mode](Endpoint(IPv4Address(LOOPBACK), int(port)))
        try:
            return run(tuple(module("bench.exec_", str(METADATA), 80, requests)), sandbox)
        except ModeForbiddenError as problem:
            print(problem, file=sys.stderr)
            return FORBIDDEN
    print(median_time((LOOPBACK if mode == DIRECT else mode, int(port)), int(requests)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
