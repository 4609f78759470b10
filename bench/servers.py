"""Starts server processes on a core of their own, waits for their first answer, and ends them."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path

import fairwarning
from bench.load import PATH, PATIENCE, Address, Load, Mode, UnansweredError
from bench.measure import Meter, cores, pinned, scheduler_seconds

ROOT = Path(__file__).parents[1]
#: The code under test: of this checkout, or of another one that comes first on the path.
SOURCE = Path(fairwarning.__file__).parents[1]
LOOPBACK = "127.0.0.1"

#: The source address of the first machine on a shared listener.
FIRST_SOURCE = IPv4Address("127.1.0.1")


def sources(numbers: Iterable[int]) -> list[str]:
    """Return the source addresses of machines by number."""
    return [str(FIRST_SOURCE + number) for number in numbers]


#: The number of consecutive free ports that a server gets.
PORTS = 20

#: Candidates for the first port: below the ephemeral ports, different in each process, never repeated.
_BASES = (20_000 + (os.getpid() * 7 + turn) % 600 * PORTS for turn in count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers polls at an address."""

    name: str
    pid: int
    address: Address
    meter: Meter


def cost(server: Server, callers: Sequence[str], mode: Mode, warm_up: float, seconds: float) -> float:
    """Return the CPU time of a server per answer, in µs."""
    with Load(server.address, callers, mode) as load:
        load.run(warm_up)
        before = server.meter(server.pid)
        answered = load.run(seconds, at_least=len(callers))
        return (server.meter(server.pid) - before) / answered * 1e6


def module(name: str, *arguments: str | int | Path) -> list[str]:
    """Return the command that runs a module in a new interpreter."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def free_port() -> int:
    """Return the first of some consecutive free ports on loopback."""
    return next(base for base in _BASES if all(map(_free, range(base, base + PORTS))))


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


@contextmanager
def process(command: Sequence[str], piped: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command on the servers' core during the block; an UnansweredError gets its stderr as a note."""
    pipe = subprocess.PIPE if piped else subprocess.DEVNULL
    with tempfile.TemporaryFile() as log:
        with pinned(cores()[0]):
            child = subprocess.Popen(command, env=_environment(), stdin=pipe, stdout=pipe, stderr=log)
        try:
            with child.stdin or nullcontext(), child.stdout or nullcontext():
                yield child
        except UnansweredError as problem:
            log.seek(0)
            problem.add_note(log.read().decode())
            raise
        finally:
            _end(child)


def run_to_end(command: Sequence[str]) -> None:
    """Run a command and wait for its end."""
    subprocess.run(command, env=_environment(), check=True, stdin=subprocess.DEVNULL)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def serving(
    name: str, command: Sequence[str], port: int, meter: Meter = scheduler_seconds
) -> Iterator[Server]:
    """Run a server during the block; it has answered before the block begins."""
    with process(command) as child:
        first_answer(child, (LOOPBACK, port))
        yield Server(name=name, pid=child.pid, address=(LOOPBACK, port), meter=meter)


def first_answer(child: subprocess.Popen[bytes], address: Address, path: str = PATH) -> bytes:
    """Wait for the first answer of a starting server and return it."""
    end = time.monotonic() + PATIENCE
    while child.poll() is None and time.monotonic() < end:
        try:
            return fetch(address, path)
        except ConnectionRefusedError:
            time.sleep(0.001)
    raise UnansweredError(f"{child.args!r} does not answer at {address}; exit status {child.poll()}")


def appears(child: subprocess.Popen[bytes], file: Path, within: float = PATIENCE) -> None:
    """Wait until a starting server has written a file."""
    end = time.monotonic() + within
    while not file.exists():
        if child.poll() is not None or time.monotonic() > end:
            raise UnansweredError(f"{child.args!r} does not write {file}; exit status {child.poll()}")
        time.sleep(0.001)


def fetch(address: Address, path: str = PATH) -> bytes:
    """Return the answer of a server to the first machine."""
    host, port = address
    source = str(FIRST_SOURCE), 0
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE, source_address=source)
    try:
        connection.request("GET", path, headers={"Metadata": "true", "Host": f"{host}:{port}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise UnansweredError(f"{address} answered {answer.status} to {path}")
        return answer.read()
    finally:
        connection.close()
